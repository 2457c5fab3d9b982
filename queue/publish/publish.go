package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"perennial/ledger/sleep"
	"perennial/queue"
)

const (
	// codeTooManyBatches says that more batches are open than the stream allows.
	codeTooManyBatches jetstream.ErrorCode = 10210
	// codeGap says that a busy stream has refused a message within the batch.
	codeGap jetstream.ErrorCode = 10176
)

// Outgoing is a command to publish.
type Outgoing struct {
	Kind     queue.Kind
	Data     []byte         // at most MaxCommandBytes
	Priority queue.Priority // selects the subject; a priority in the command itself takes precedence
	Header   nats.Header
}

func (o Outgoing) check() error {
	return errors.Join(queue.ValidKind(o.Kind), queue.ValidPriority(o.Priority), checkSize(o.Data))
}

func (o Outgoing) message(account string, further ...string) *nats.Msg {
	msg := nats.NewMsg(queue.Line{Kind: o.Kind, Priority: o.Priority}.Subject(account))
	msg.Data = o.Data
	maps.Copy(msg.Header, o.Header)
	for i := 0; i+1 < len(further); i += 2 {
		msg.Header.Set(further[i], further[i+1])
	}
	return msg
}

// Publisher publishes commands for any account.
type Publisher struct{ js *queue.JetStream }

// New returns a Publisher that uses a connection.
func New(js *queue.JetStream) Publisher { return Publisher{js} }

// Publish publishes one command and returns when the stream has it on disk. The error is
// [queue.ErrNoAccount] if the server has commands streams, but none of this account. It is
// [ErrNotTaken] if no stream accepts the command now. After any other error the command may or
// may not be stored. Publishing it again with the same id is harmless.
func (p Publisher) Publish(ctx context.Context, account string, command Outgoing) error {
	if err := errors.Join(queue.ValidAccount(account), command.check()); err != nil {
		return err
	}
	return p.commandError(ctx, account, p.publishSingly(ctx, account, []Outgoing{command}))
}

// PublishCommands publishes commands in atomic batches of at most queue.MaxBatch. The stream
// stores all commands of a batch on disk, or none. If other publishers keep too many batches
// open, the commands are published one by one. It returns nil when all are stored, or a
// [BatchError] for the batch that failed.
func (p Publisher) PublishCommands(ctx context.Context, account string, commands []Outgoing) error {
	if err := queue.ValidAccount(account); err != nil {
		return err
	}
	for n, command := range commands {
		if err := command.check(); err != nil {
			return fmt.Errorf("command %d: %w", n+1, err)
		}
	}
	for first, batch := 0, 1; first < len(commands); batch++ {
		end := batchEnd(commands, first)
		if err := p.publishBatch(ctx, account, commands[first:end]); err != nil {
			return &BatchError{Batch: batch, First: first, Last: end - 1, Err: p.commandError(ctx, account, err)}
		}
		first = end
	}
	return nil
}

func batchEnd(commands []Outgoing, first int) int {
	size, end := 0, first
	for end < len(commands) && end-first < queue.MaxBatch {
		size += len(commands[end].Data)
		if end > first && size > queue.MaxBatchBytes {
			break
		}
		end++
	}
	return end
}

// batchTries is how often a batch is tried while other batches are open, about half a second in
// total. Then its commands are published one by one.
const batchTries = 8

// publishBatch publishes one batch. It retries while other publishers have too many batches
// open or keep the stream busy.
func (p Publisher) publishBatch(ctx context.Context, account string, commands []Outgoing) error {
	if len(commands) == 1 {
		return p.publishSingly(ctx, account, commands)
	}
	delay := sleep.Growing(20*time.Millisecond, time.Second)
	for try := 1; ; try++ {
		err := p.sendBatch(ctx, account, commands)
		if !queue.HasCode(err, codeTooManyBatches) && !queue.HasCode(err, codeGap) {
			return err
		}
		if try == batchTries {
			if queue.HasCode(err, codeGap) { // the stream also returns this code if it refuses a message
				return err
			}
			return p.publishSingly(ctx, account, commands) // other publishers have left batches open
		}
		if err := delay.Wait(ctx); err != nil {
			return err
		}
	}
}

// publishSingly publishes commands one by one. If one fails, the earlier commands are stored.
// Publishing all of them again is harmless.
func (p Publisher) publishSingly(ctx context.Context, account string, commands []Outgoing) error {
	for _, command := range commands {
		if _, err := p.js.Store(ctx, command.message(account)); err != nil {
			return err
		}
	}
	return nil
}

// sendBatch sends a batch once. Its first message is a request, so that a missing stream or a
// refused batch is known before the others are sent. The last message commits. The other
// messages need no reply, because the stream refuses the commit if one of them is missing.
func (p Publisher) sendBatch(ctx context.Context, account string, commands []Outgoing) error {
	id := nuid.Next()
	last := len(commands) - 1
	for n, command := range commands {
		msg := command.message(account, queue.HeaderBatchID, id, queue.HeaderBatchSequence, strconv.Itoa(n+1))
		var err error
		switch n {
		case 0:
			_, err = p.js.Store(ctx, msg)
		case last:
			msg.Header.Set(queue.HeaderBatchCommit, "1")
			err = p.commitBatch(ctx, msg, len(commands))
		default:
			err = p.js.Conn().PublishMsg(msg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p Publisher) commitBatch(ctx context.Context, msg *nats.Msg, count int) error {
	ack, err := p.js.Store(ctx, msg)
	if err != nil {
		return err
	}
	if ack.Count != count {
		return fmt.Errorf("the stream confirmed %d of %d commands: atomic batches need nats-server 2.12 or later", ack.Count, count)
	}
	return nil
}

func checkSize(data []byte) error {
	if len(data) > queue.MaxCommandBytes {
		return fmt.Errorf("command of %d bytes: at most %d are accepted", len(data), queue.MaxCommandBytes)
	}
	return nil
}

func (p Publisher) commandError(ctx context.Context, account string, err error) error {
	switch {
	case queue.Disconnected(err):
		return fmt.Errorf("account %s: %w (%w)\nsubmit again when it answers: that is harmless, an id is done once", account, queue.ErrDisconnected, err)
	case errors.Is(err, nats.ErrNoResponders) && p.lacks(ctx, account):
		return fmt.Errorf("account %s: %w\ncheck its name: other accounts have their streams there", account, queue.ErrNoAccount)
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("account %s: %w\nsee that its runner has started once, that the NATS server stores, and that a leaf node reaches its hub (`perennial doctor`)", account, ErrNotTaken)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("account %s: %w: %w\nsee that its disk has room and most of its servers run; then submit again under the same id, which is done once", account, ErrUnacknowledged, err)
	}
	return err
}

const lacksTimeout = 5 * time.Second

// lacks reports whether JetStream has commands streams of other accounts but not of this
// account. It returns false if JetStream does not reply, has no such streams, or denies the
// request. In these cases, the streams may be on a hub that cannot be reached, or in another
// NATS account from which commands are imported.
func (p Publisher) lacks(ctx context.Context, account string) bool {
	ctx, cancel := context.WithTimeout(ctx, lacksTimeout)
	defer cancel()
	ctx, forget := p.js.Allowed(ctx, p.js.API()+"STREAM.NAMES")
	defer forget()
	names := p.js.StreamNames(ctx, jetstream.WithStreamListSubject("perennial.commands.>"))
	others := false
	for name := range names.Name() {
		if name == queue.CommandsStream(account) {
			return false
		}
		others = true
	}
	return others && names.Err() == nil
}

// BatchError reports which atomic batch of [Publisher.PublishCommands] was refused or not
// acknowledged. Earlier batches are stored; later batches were not sent. First and Last are
// indexes into the given commands, inclusive.
type BatchError struct {
	Batch int // starting at 1
	First int
	Last  int
	Err   error
}

// Error says which batch failed, and which commands it contains.
func (e *BatchError) Error() string {
	return fmt.Sprintf("batch %d (commands %d to %d): %v", e.Batch, e.First+1, e.Last+1, e.Err)
}

// Unwrap returns the cause.
func (e *BatchError) Unwrap() error { return e.Err }

// ErrNotTaken reports that no stream accepts the commands of an account now. Either no
// runner has created the account's streams, or they have no leader, or the hub of a leaf
// node cannot be reached. Nothing was published, and a retry may succeed.
var ErrNotTaken = errors.New("nothing takes the account's commands at the moment")

// ErrUnacknowledged reports that NATS did not say in time whether it has stored a command.
var ErrUnacknowledged = errors.New("NATS does not say that it has stored the command")

// CarryOut publishes a command, waits for the runner's reply and returns it. The reply is the
// data of the command.finished event, or says why the command is not executed. ctx limits only
// the wait; a published command continues. [queue.ErrDisconnected] reports that the connection
// was lost, and with it the reply. [ErrUnacknowledged] reports that the command may or may not
// be published. In both cases, publish the command again.
func (p Publisher) CarryOut(ctx context.Context, account string, command Outgoing) ([]byte, error) {
	ctx, release := p.js.WhileConnected(ctx)
	defer release()
	inbox := nats.NewInbox()
	from := inbox
	if p.js.OwnInbox() { // the runner replies to default inboxes only; every reply is also on ReplySubject
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
