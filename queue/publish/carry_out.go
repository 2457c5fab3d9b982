// Publishing a command and waiting for its answer.

package publish

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"

	"perennial/queue"
)

// CarryOut publishes a command and returns the answer at its inbox: the data of its
// command.finished, or why it is not carried out. ctx bounds only the wait: a published
// command continues. [queue.ErrDisconnected] reports that the connection was lost, and the
// answer with it. Publishing the command again makes the runner answer again.
func (p Publisher) CarryOut(ctx context.Context, account string, command Outgoing) ([]byte, error) {
	ctx, release := p.js.WhileConnected(ctx)
	defer release()
	inbox := nats.NewInbox()
	from := inbox
	if p.js.OwnInbox() { // the runner answers only default inboxes; its export uses the default name
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
	if err = p.Publish(ctx, account, command); err == nil {
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
