// Names: kinds of command, accounts, streams and subjects.

package queue

import (
	"fmt"
	"regexp"
	"strings"
)

// Kind is what a command asks for, as a token of its subject.
type Kind string

// The kinds of command that Perennial carries out.
const (
	KindOrderCreate Kind = "order.create"
	KindProxyRenew  Kind = "proxy.renew"
)

var accountName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// ValidAccount checks an account's short name, which becomes a subject token,
// a stream name and a file name: 1 to 32 of a-z, 0-9 and the hyphen.
func ValidAccount(name string) error {
	if !accountName.MatchString(name) {
		return fmt.Errorf("account name %q: must be 1 to 32 of a-z, 0-9 and -", name)
	}
	return nil
}

// ValidKind checks that a kind of command is one that Perennial knows.
func ValidKind(kind Kind) error {
	switch kind {
	case KindOrderCreate, KindProxyRenew:
		return nil
	}
	return fmt.Errorf("command kind %q: must be %s or %s", kind, KindOrderCreate, KindProxyRenew)
}

// CommandSubject is where commands of a kind for an account are published that
// are neither urgent nor bulk.
func CommandSubject(account string, kind Kind) string {
	return "perennial.commands." + account + "." + string(kind)
}

// EventSubject is where events of a type ("order.delivered") of an account
// are published.
func EventSubject(account, eventType string) string {
	return "perennial.events." + account + "." + eventType
}

// DeadSubject is where commands that could not be read are put.
func DeadSubject(account string) string { return "perennial.dead." + account }

// ServiceSubject is where a verb of an account's service is requested.
func ServiceSubject(account, verb string) string { return "perennial.svc." + account + "." + verb }

// CommandsStream is the name of an account's commands stream.
func CommandsStream(account string) string { return "PERENNIAL_COMMANDS_" + account }

// EventsStream is the name of an account's events stream.
func EventsStream(account string) string { return "PERENNIAL_EVENTS_" + account }

// DeadStream is the name of an account's stream of dead letters.
func DeadStream(account string) string { return "PERENNIAL_DEAD_" + account }

// KindOf reads the kind back from a command subject, whatever its priority.
func KindOf(account, subject string) Kind {
	if l, ok := LineOf(account, subject); ok {
		return l.Kind
	}
	return Kind(strings.TrimPrefix(subject, "perennial.commands."+account+"."))
}

// EventTypeOf reads the type back from an event subject.
func EventTypeOf(account, subject string) string {
	return strings.TrimPrefix(subject, "perennial.events."+account+".")
}

// ValidToken says whether s is safe as one subject token or several joined by
// dots: no wildcard, no white space, no empty token.
func ValidToken(s string) bool {
	if s == "" || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".") || strings.Contains(s, "..") {
		return false
	}
	return !strings.ContainsAny(s, "*> \t\r\n")
}

// SnapshotsBucket is the name of an account's object store of snapshots.
func SnapshotsBucket(account string) string { return "PERENNIAL_SNAPSHOTS_" + account }

// ObjectsStream is the stream that the server keeps an object store in.
func ObjectsStream(bucket string) string { return "OBJ_" + bucket }

// WebhooksBucket is the name of the key-value bucket with the positions of an account's
// webhooks.
func WebhooksBucket(account string) string { return "PERENNIAL_WEBHOOKS_" + account }

// KeyValueStream is the stream that the server keeps a key-value bucket in.
func KeyValueStream(bucket string) string { return "KV_" + bucket }

// FleetBucket is the name of the object store with an account's last listing.
func FleetBucket(account string) string { return "PERENNIAL_FLEET_" + account }

// LeaseBucket is the key-value bucket in which accounts are held.
const LeaseBucket = "PERENNIAL_LEASES"

// NodesBucket is the key-value bucket in which runners say that they live.
const NodesBucket = "PERENNIAL_NODES"

// PinsBucket is the key-value bucket of the accounts that a person has given to a runner.
const PinsBucket = "PERENNIAL_PINS"

// ReplySubject is where the producers of an account that have NATS accounts of their own
// import the answers to their inboxes from: those of an account get each other's, which
// they may ask for anyway.
func ReplySubject(account, inbox string) string { return "perennial.replies." + account + "." + inbox }

// UserAccount is the NATS account of one user.
func UserAccount(name string) string { return "PERENNIAL_USER_" + name }

// KeptStreams are the streams of an account, there or not, that hold what is nowhere else.
func KeptStreams(account string) []string {
	return []string{CommandsStream(account), EventsStream(account), DeadStream(account), ObjectsStream(SnapshotsBucket(account)), KeyValueStream(WebhooksBucket(account))}
}

// Role is a set of rights.
type Role string

// The roles. They add up: a user may have several.
const (
	RoleProducer   Role = "producer"   // publishes commands, and asks their state
	RoleSubscriber Role = "subscriber" // reads events, by pull or ordered consumers
	RoleViewer     Role = "viewer"     // asks the verbs that change nothing, and reads events
	RoleOperator   Role = "operator"   // asks every verb, reads events, looks after dead letters
)

// AllInboxes are the inboxes of a client. A runner answers a command on nothing else, so
// that no command has it publish where only the runner may.
const (
	inboxes    = "_INBOX."
	AllInboxes = inboxes + ">"
)

// MaxCommandBytes is the largest command body that is carried out.
const MaxCommandBytes = 128 << 10
