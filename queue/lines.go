// Priorities and lines: the subjects of the commands stream.

package queue

import (
	"fmt"
)

// Priority says how urgent a command is against others of its account.
type Priority string

// The priorities of a command. PriorityNormal is that of a command that says none.
const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = ""
	PriorityBulk   Priority = "bulk"
)

// Line is commands of one kind and priority: a subject of the commands stream with
// a consumer of its own, so that none waits behind those of another line.
type Line struct {
	Kind     Kind
	Priority Priority
}

// Lines are all lines of an account, the most urgent first.
func Lines() []Line {
	return []Line{
		{KindProxyRenew, PriorityHigh}, {KindOrderCreate, PriorityHigh},
		{KindProxyRenew, PriorityNormal}, {KindOrderCreate, PriorityNormal},
		{KindProxyRenew, PriorityBulk}, {KindOrderCreate, PriorityBulk},
	}
}

// Subject is where commands of the line for an account are published.
func (l Line) Subject(account string) string {
	subject := CommandSubject(account, l.Kind)
	if l.Priority != PriorityNormal {
		subject += "." + string(l.Priority)
	}
	return subject
}

// LineOf reads the line back from a command subject; false when it is none.
func LineOf(account, subject string) (Line, bool) {
	for _, l := range Lines() {
		if l.Subject(account) == subject {
			return l, true
		}
	}
	return Line{}, false
}

// ValidPriority checks that a command's priority is one that Perennial knows.
func ValidPriority(p Priority) error {
	switch p {
	case PriorityHigh, PriorityNormal, PriorityBulk:
		return nil
	}
	return fmt.Errorf("priority is %.40q and must be %s or %s, or left out", string(p), PriorityHigh, PriorityBulk)
}

// CommandSubjects are the subjects of an account's commands stream. There is no
// wildcard among them: a misspelt kind is answered with "no responders" at once.
func CommandSubjects(account string) []string {
	lines := Lines()
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = l.Subject(account)
	}
	return all
}
