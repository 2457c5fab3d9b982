// Headers of commands, and answers on the inboxes named in them.

package queue

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
)

// HeaderReplyTo is the header of a command that names the inbox for the data of its
// command.finished.
const HeaderReplyTo = "Perennial-Reply-To"

// MaxInbox bounds the name of an inbox, in bytes.
const MaxInbox = 200

// Header returns a header of a message, whatever the case of its name: NATS compares names
// exactly, and clients write them as in HTTP.
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

// ReplyTo returns the inbox named in a command's headers; "" for none, and for a subject
// that is no inbox.
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

// Answer sends a command's result to its inbox, in the runner's NATS account and in those
// of its producers. It is sent at least once while the inbox exists, and is not stored.
func Answer(js *JetStream, account, inbox string, data []byte) error {
	return errors.Join(js.Conn().Publish(inbox, data), js.Conn().Publish(ReplySubject(account, inbox), data))
}
