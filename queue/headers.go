// This file has the headers of commands, and replies to the inboxes in them.

package queue

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
)

// HeaderReplyTo is the header of a command that contains the inbox for the data of its
// command.finished.
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

// Answer sends a command's result to its inbox, both in the runner's NATS account and in
// those of its producers. The result is not stored, so it is lost if no client listens to
// the inbox.
func Answer(js *JetStream, account, inbox string, data []byte) error {
	return errors.Join(js.Conn().Publish(inbox, data), js.Conn().Publish(ReplySubject(account, inbox), data))
}
