// Answers on the inbox that a command names: what it came to.

package queue

import (
	"strings"

	"github.com/nats-io/nats.go"
)

// HeaderReplyTo of a command names the inbox that gets the data of its command.finished.
const HeaderReplyTo = "Perennial-Reply-To"

// MaxInbox bounds the name of an inbox, in bytes.
const MaxInbox = 200

// Header is a header of a message, whatever the case that its name is written in: NATS
// compares names letter by letter, and clients write them as in HTTP.
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

// ReplyTo is the inbox that a command's headers name; "" for none, and for a subject that
// is no inbox.
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
