// Priorities and lines: the subjects of the commands stream.

package queue

import (
	"fmt"
)

// Priority says how urgent a command is compared with others of its account.
type Priority string

// The priorities of a command. PriorityNormal applies to a command without one.
const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = ""
	PriorityBulk   Priority = "bulk"
)

// Line is the commands of one kind and priority. It has a subject of the commands stream
// and a consumer of its own, so that its commands never wait for another line's.
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

// Subject returns the subject on which an account's commands of the line are published.
func (l Line) Subject(account string) string {
	subject := CommandSubject(account, l.Kind)
	if l.Priority != PriorityNormal {
		subject += "." + string(l.Priority)
	}
	return subject
}

// LineOf returns the line of a command subject; false if there is none.
func LineOf(account, subject string) (Line, bool) {
	for _, l := range Lines() {
		if l.Subject(account) == subject {
			return l, true
		}
	}
	return Line{}, false
}

// ValidPriority checks that Perennial knows a command's priority.
func ValidPriority(p Priority) error {
	switch p {
	case PriorityHigh, PriorityNormal, PriorityBulk:
		return nil
	}
	return fmt.Errorf("priority is %.40q and must be %s or %s, or left out", string(p), PriorityHigh, PriorityBulk)
}

// CommandSubjects returns the subjects of an account's commands stream. None has a
// wildcard, so a misspelt kind is answered with "no responders" at once.
func CommandSubjects(account string) []string {
	lines := Lines()
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = l.Subject(account)
	}
	return all
}
