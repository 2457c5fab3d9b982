// Answers on the inbox that a command names: what it came to.

package queue

import (
	"context"
	"errors"
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

// CarryOut publishes a command, and returns what came to its inbox: the data of its
// command.finished, or why it is not carried out. ctx bounds the wait alone: a command
// that is published goes on. [ErrDisconnected] says that the connection was lost, and an
// answer with it: publishing the command again has it answered again.
func (q *Queue) CarryOut(ctx context.Context, account string, command Outgoing) ([]byte, error) {
	ctx, release := q.JetStream().WhileConnected(ctx)
	defer release()
	inbox := nats.NewInbox()
	from := inbox
	if q.js.ownInbox { // the runner answers on no such inbox; what it exports comes under the default's name
		from = ReplySubject(account, inbox)
	}
	answers, err := q.nc.SubscribeSync(from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }()
	header := nats.Header{HeaderReplyTo: {inbox}}
	for name, values := range command.Header {
		if !strings.EqualFold(name, HeaderReplyTo) {
			header[name] = values
		}
	}
	command.Header = header
	var answer *nats.Msg
	if err = q.PublishOne(ctx, account, command); err == nil {
		answer, err = answers.NextMsgWithContext(ctx)
	}
	if err != nil && errors.Is(context.Cause(ctx), ErrStopping) {
		return nil, ErrDisconnected
	}
	if err != nil {
		return nil, err
	}
	return answer.Data, nil
}
