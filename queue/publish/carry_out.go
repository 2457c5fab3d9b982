// This file publishes a command and waits for its result.

package publish

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"

	"perennial/queue"
)

// CarryOut publishes a command and returns the reply at its inbox: the data of its
// command.finished, or why the command is not executed. ctx limits only the wait; a
// published command continues. [queue.ErrDisconnected] reports that the connection was lost,
// and with it the reply. [ErrUnacknowledged] reports that the command may or may not be
// published. In both cases, publish the command again.
func (p Publisher) CarryOut(ctx context.Context, account string, command Outgoing) ([]byte, error) {
	ctx, release := p.js.WhileConnected(ctx)
	defer release()
	inbox := nats.NewInbox()
	from := inbox
	if p.js.OwnInbox() { // the runner replies only to default inboxes, and also publishes the reply on ReplySubject
		from = queue.ReplySubject(account, inbox)
	}
	answers, err := p.js.Conn().SubscribeSync(from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }()
	header := nats.Header{queue.HeaderReplyTo: {inbox}}
	for name, values := range command.Header {
		if !strings.EqualFold(name, queue.HeaderReplyTo) {
			header[name] = values
		}
	}
	command.Header = header
	var answer *nats.Msg
	publishing, cancel := context.WithTimeout(ctx, queue.PublishTimeout)
	defer cancel()
	if err = p.Publish(publishing, account, command); err == nil {
		answer, err = answers.NextMsgWithContext(ctx)
	}
	if err != nil && errors.Is(context.Cause(ctx), queue.ErrStopping) {
		return nil, queue.ErrDisconnected
	}
	if err != nil {
		return nil, err
	}
	return answer.Data, nil
}
