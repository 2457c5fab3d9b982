// Commands whose answer is waited for.

package publish

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"

	"perennial/queue"
)

// CarryOut publishes a command, and returns what came to its inbox: the data of its
// command.finished, or why it is not carried out. ctx bounds the wait alone: a command
// that is published continues. [queue.ErrDisconnected] says that the connection was lost, and an
// answer with it: publishing the command again has it answered again.
func (p Publisher) CarryOut(ctx context.Context, account string, command Outgoing) ([]byte, error) {
	ctx, release := p.js.WhileConnected(ctx)
	defer release()
	inbox := nats.NewInbox()
	from := inbox
	if p.js.OwnInbox() { // the runner answers on no such inbox; what it exports comes under the default's name
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
