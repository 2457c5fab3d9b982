package queue

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
)

// Kind is the kind of a command. Its words are tokens of the command's subject.
type Kind string

// The kinds of command.
const (
	KindOrderCreate Kind = "order.create"
	KindProxyRenew  Kind = "proxy.renew"
)

var accountName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// ValidAccount returns an error if an account name is not valid. A name has 1 to 32 characters:
// a-z, 0-9 and the hyphen. It is used in subjects, stream names and file names.
func ValidAccount(name string) error {
	if !accountName.MatchString(name) {
		return fmt.Errorf("account name %q: must be 1 to 32 of a-z, 0-9 and -", name)
	}
	return nil
}

// ValidKind returns an error if the kind is unknown.
func ValidKind(kind Kind) error {
	switch kind {
	case KindOrderCreate, KindProxyRenew:
		return nil
	}
	return fmt.Errorf("command kind %q: must be %s or %s", kind, KindOrderCreate, KindProxyRenew)
}

// CommandSubject returns the subject for commands of a kind with normal priority.
func CommandSubject(account string, kind Kind) string {
	return "perennial.commands." + account + "." + string(kind)
}

// EventSubject returns the subject for an account's events of a type, such as
// "order.delivered".
func EventSubject(account, eventType string) string {
	return "perennial.events." + account + "." + eventType
}

// DeadSubject returns the subject of an account's dead letters.
func DeadSubject(account string) string { return "perennial.dead." + account }

// ServiceSubject returns the subject of a verb of an account's service.
func ServiceSubject(account, verb string) string { return "perennial.svc." + account + "." + verb }

// CommandsStream returns the name of an account's commands stream.
func CommandsStream(account string) string { return "PERENNIAL_COMMANDS_" + account }

// EventsStream returns the name of an account's events stream.
func EventsStream(account string) string { return "PERENNIAL_EVENTS_" + account }

// DeadStream returns the name of an account's stream of dead letters.
func DeadStream(account string) string { return "PERENNIAL_DEAD_" + account }

// KindOf returns the kind in a command subject, without the priority. The kind may be
// unknown.
func KindOf(account, subject string) Kind {
	if l, ok := LineOf(account, subject); ok {
		return l.Kind
	}
	return Kind(strings.TrimPrefix(subject, "perennial.commands."+account+"."))
}

// EventTypeOf returns the type in an event subject.
func EventTypeOf(account, subject string) string {
	return strings.TrimPrefix(subject, "perennial.events."+account+".")
}

// ValidToken reports whether s is one subject token, or several joined by dots, without
// wildcards, white space or empty tokens.
func ValidToken(s string) bool {
	if s == "" || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".") || strings.Contains(s, "..") {
		return false
	}
	return !strings.ContainsAny(s, "*> \t\r\n")
}

// SnapshotsBucket returns the name of an account's object store of snapshots.
func SnapshotsBucket(account string) string { return "PERENNIAL_SNAPSHOTS_" + account }

// ObjectsStream returns the name of the stream in which NATS stores an object store.
func ObjectsStream(bucket string) string { return "OBJ_" + bucket }

// WebhooksBucket returns the name of the key-value bucket with the positions of an
// account's webhooks.
func WebhooksBucket(account string) string { return "PERENNIAL_WEBHOOKS_" + account }

// KeyValueStream returns the name of the stream in which NATS stores a key-value bucket.
func KeyValueStream(bucket string) string { return "KV_" + bucket }

// FleetBucket returns the name of the object store with an account's last listing.
func FleetBucket(account string) string { return "PERENNIAL_FLEET_" + account }

// LeaseBucket is the key-value bucket with the leases of accounts.
const LeaseBucket = "PERENNIAL_LEASES"

// NodesBucket is the key-value bucket in which runners report that they are alive.
const NodesBucket = "PERENNIAL_NODES"

// PinsBucket is the key-value bucket with the accounts that an operator has pinned to a
// runner.
const PinsBucket = "PERENNIAL_PINS"

// ReplySubject returns the subject on which a producer in another NATS account receives the
// reply to its inbox. All producers of an account can read these replies; they may request the
// same data anyway.
func ReplySubject(account, inbox string) string { return "perennial.replies." + account + "." + inbox }

// UserAccount returns the name of a user's NATS account.
func UserAccount(name string) string { return "PERENNIAL_USER_" + name }

// KeptStreams returns the names of an account's streams whose data exists nowhere else. Some
// of these streams may not exist.
func KeptStreams(account string) []string {
	return []string{CommandsStream(account), EventsStream(account), DeadStream(account), ObjectsStream(SnapshotsBucket(account)), KeyValueStream(WebhooksBucket(account))}
}

// Role is a set of permissions.
type Role string

// The roles. A user may have several, and has the permissions of all of them.
const (
	RoleProducer   Role = "producer"   // publishes commands, and requests their state
	RoleSubscriber Role = "subscriber" // reads events, with pull or ordered consumers
	RoleViewer     Role = "viewer"     // sends read-only service requests, and reads events
	RoleOperator   Role = "operator"   // sends all service requests, reads events, handles dead letters
)

// AllInboxes matches the inboxes of clients. A runner replies to commands only on these inboxes,
// so that a command cannot make it publish on a subject that only the runner may use.
const (
	inboxes    = "_INBOX."
	AllInboxes = inboxes + ">"
)

// MaxCommandBytes is the maximum size of a command body.
const MaxCommandBytes = 128 << 10

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
// wildcards, so that a command of a misspelt kind gets the reply "no responders".
func CommandSubjects(account string) []string {
	lines := Lines()
	all := make([]string, len(lines))
	for i, l := range lines {
		all[i] = l.Subject(account)
	}
	return all
}

// HeaderReplyTo is a header of a command. It contains an inbox, to which the data of the
// command's command.finished is sent.
const HeaderReplyTo = "Perennial-Reply-To"

// MaxInbox limits the length of an inbox, in bytes.
const MaxInbox = 200

// Header returns the value of a message's header, ignoring the case of its name. NATS
// compares names exactly, but some clients write them in the case of HTTP.
func Header(h nats.Header, name string) string {
	if v := h.Get(name); v != "" {
		return v
	}
	for written, values := range h {
		if strings.EqualFold(written, name) && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

// ReplyTo returns the inbox in a command's headers. It returns "" if there is none, or if
// the subject is not a valid inbox.
func ReplyTo(h nats.Header) string {
	to := Header(h, HeaderReplyTo)
	if len(to) > MaxInbox || !strings.HasPrefix(to, inboxes) || strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	for token := range strings.SplitSeq(to, ".") {
		if token == "" || strings.ContainsAny(token, "*>") {
			return ""
		}
	}
	return to
}

// Answer sends a command's result to its inbox. It sends the result in the runner's NATS
// account, and on a subject that the NATS accounts of producers import. The result is not
// stored, so it is lost if no client listens to the inbox.
func Answer(js *JetStream, account, inbox string, data []byte) error {
	return errors.Join(js.Conn().Publish(inbox, data), js.Conn().Publish(ReplySubject(account, inbox), data))
}
