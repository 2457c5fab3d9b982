// This file has priorities and lines, which determine the subjects of the commands stream.

package queue

import (
	"fmt"
)

// Priority is the priority of a command among those of its account.
type Priority string

// The priorities of a command. PriorityNormal applies to a command without a priority.
const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = ""
	PriorityBulk   Priority = "bulk"
)

// Line identifies the commands of one kind and priority. Each line has its own subject in
// the commands stream and its own consumer, so that its commands never wait for those of
// another line.
type Line struct {
	Kind     Kind
	Priority Priority
}

// Lines returns all lines of an account, the most urgent first.
func Lines() []Line {
	return []Line{
		{KindProxyRenew, PriorityHigh}, {KindOrderCreate, PriorityHigh},
		{KindProxyRenew, PriorityNormal}, {KindOrderCreate, PriorityNormal},
		{KindProxyRenew, PriorityBulk}, {KindOrderCreate, PriorityBulk},
	}
}

// Subject returns the subject for an account's commands of the line.
func (l Line) Subject(account string) string {
	subject := CommandSubject(account, l.Kind)
	if l.Priority != PriorityNormal {
		subject += "." + string(l.Priority)
	}
	return subject
}

// LineOf returns the line of a command subject. It returns false if no line has the
// subject.
func LineOf(account, subject string) (Line, bool) {
	for _, l := range Lines() {
		if l.Subject(account) == subject {
			return l, true
		}
	}
	return Line{}, false
}

// ValidPriority returns an error if the priority is unknown.
func ValidPriority(p Priority) error {
	switch p {
	case PriorityHigh, PriorityNormal, PriorityBulk:
		return nil
	}
	return fmt.Errorf("priority is %.40q and must be %s or %s, or left out", string(p), PriorityHigh, PriorityBulk)
}

// CommandSubjects returns the subjects of an account's commands stream. They contain no
// wildcards, so that NATS replies to a misspelt kind with "no responders".
func CommandSubjects(account string) []string {
	lines := Lines()
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = l.Subject(account)
	}
	return all
}
