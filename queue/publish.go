// Publication of commands, singly and in atomic batches.

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"perennial/ledger/sleep"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

const (
	// maxBatchCommands is the server's limit for one atomic batch.
	maxBatchCommands = 1000
	// maxBatchBytes keeps a batch of large commands from filling the server's
	// queue of unprocessed messages.
	maxBatchBytes = 16 << 20
	// publishTimeout bounds the wait for the stream's answer when the context
	// has no deadline.
	publishTimeout = 30 * time.Second
	// electionMost bounds the wait for a stream of a cluster that has no leader: a new one is
	// elected within ten seconds of the loss of the old one's server.
	electionMost = 12 * time.Second

	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"

	// codeTooManyBatches: more open batches than the stream allows at once.
	codeTooManyBatches jetstream.ErrorCode = 10210
	// codeIngest: the stream has as much to store as it may buffer, and stores nothing of
	// this message. codeGap: it has refused so a message within the batch.
	codeIngest jetstream.ErrorCode = 10167
	codeGap    jetstream.ErrorCode = 10176
)

// Outgoing is a command to be published.
type Outgoing struct {
	Kind     Kind
	Data     []byte   // at most MaxCommandBytes
	Priority Priority // which of the kind's subjects; the command's own word counts for more
	Header   nats.Header
}

func (o Outgoing) check() error {
	return errors.Join(ValidKind(o.Kind), ValidPriority(o.Priority), checkSize(o.Data))
}

// message is the command with its headers, and further ones by name and value.
func (o Outgoing) message(account string, further ...string) *nats.Msg {
	msg := nats.NewMsg(Line{o.Kind, o.Priority}.Subject(account))
	msg.Data = o.Data
	maps.Copy(msg.Header, o.Header)
	for i := 0; i+1 < len(further); i += 2 {
		msg.Header.Set(further[i], further[i+1])
	}
	return msg
}

// pubAck is a stream's answer to a publication.
type pubAck struct {
	Stream    string              `json:"stream"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Count     int                 `json:"count"`
	Error     *jetstream.APIError `json:"error"`
}

// PublishCommand publishes one command and returns when the stream has it on
// disk. The error is [ErrNoAccount] when the server takes commands of other accounts
// alone, [ErrNotTaken] when it takes none at the moment. After any other error the command
// may or may not be stored: publishing it again with the same id is harmless.
func (q *Queue) PublishCommand(ctx context.Context, account string, kind Kind, data []byte) error {
	return q.PublishOne(ctx, account, Outgoing{Kind: kind, Data: data})
}

// PublishOne is PublishCommand with a priority.
func (q *Queue) PublishOne(ctx context.Context, account string, command Outgoing) error {
	if err := errors.Join(ValidAccount(account), command.check()); err != nil {
		return err
	}
	return q.commandError(ctx, account, q.publishSingly(ctx, account, []Outgoing{command}))
}

// PublishCommands publishes commands in atomic batches of at most 1,000: of
// each batch the stream has all on disk, or none, unless other publishers keep too many
// batches open; then its commands go one by one. It returns when all are
// stored, or a [BatchError] that says where it stopped.
func (q *Queue) PublishCommands(ctx context.Context, account string, commands []Outgoing) error {
	if err := ValidAccount(account); err != nil {
		return err
	}
	for n, command := range commands {
		if err := command.check(); err != nil {
			return fmt.Errorf("command %d: %w", n+1, err)
		}
	}
	for first, batch := 0, 1; first < len(commands); batch++ {
		end := batchEnd(commands, first)
		if err := q.publishBatch(ctx, account, commands[first:end]); err != nil {
			return &BatchError{Batch: batch, First: first, Last: end - 1, Err: q.commandError(ctx, account, err)}
		}
		first = end
	}
	return nil
}

// batchEnd cuts at the limits in commands and bytes.
func batchEnd(commands []Outgoing, first int) int {
	size, end := 0, first
	for end < len(commands) && end-first < maxBatchCommands {
		size += len(commands[end].Data)
		if end > first && size > maxBatchBytes {
			break
		}
		end++
	}
	return end
}

// batchTries is how often a batch waits for others to end, half a second in all, before
// its commands are stored one by one.
const batchTries = 8

// publishBatch stores one batch. It waits its turn while other publishers have
// too many batches open, or keep the stream busy.
func (q *Queue) publishBatch(ctx context.Context, account string, commands []Outgoing) error {
	if len(commands) == 1 {
		return q.publishSingly(ctx, account, commands)
	}
	delay := sleep.Growing(20*time.Millisecond, time.Second)
	for try := 1; ; try++ {
		err := q.sendBatch(ctx, account, commands)
		if !hasCode(err, codeTooManyBatches) && !hasCode(err, codeGap) {
			return err
		}
		if try == batchTries {
			if hasCode(err, codeGap) { // also of a message that the stream does not take
				return err
			}
			return q.publishSingly(ctx, account, commands) // another publisher has opened batches and does not end them
		}
		if err := delay.Wait(ctx); err != nil {
			return err
		}
	}
}

// publishSingly stores commands one by one. Those before an error are
// stored; publishing all of them again is harmless.
func (q *Queue) publishSingly(ctx context.Context, account string, commands []Outgoing) error {
	for _, command := range commands {
		if _, err := q.store(ctx, command.message(account)); err != nil {
			return err
		}
	}
	return nil
}

// sendBatch sends a batch once. Its first message is a request, so that a
// missing stream or a refused batch is known before the rest is sent; its last
// one commits. What lies between needs no answer: a gap refuses the commit.
func (q *Queue) sendBatch(ctx context.Context, account string, commands []Outgoing) error {
	id := nuid.Next()
	last := len(commands) - 1
	for n, command := range commands {
		msg := command.message(account, headerBatchID, id, headerBatchSequence, strconv.Itoa(n+1))
		var err error
		switch n {
		case 0:
			_, err = q.store(ctx, msg)
		case last:
			msg.Header.Set(headerBatchCommit, "1")
			err = q.commitBatch(ctx, msg, len(commands))
		default:
			err = q.nc.PublishMsg(msg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) commitBatch(ctx context.Context, msg *nats.Msg, count int) error {
	ack, err := q.store(ctx, msg)
	if err != nil {
		return err
	}
	if ack.Count != count {
		return fmt.Errorf("the stream confirmed %d of %d commands: atomic batches need nats-server 2.12 or later", ack.Count, count)
	}
	return nil
}

func hasCode(err error, code jetstream.ErrorCode) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode == code
}

// store publishes a message and waits for the stream's answer, and sends it again while the
// stream is busy, or has no leader, as after the loss of a server. An empty answer says that a
// message inside a batch is staged.
func (q *Queue) store(ctx context.Context, msg *nats.Msg) (pubAck, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, publishTimeout)
		defer cancel()
	}
	ctx, forget := q.whileAllowed(ctx, msg.Subject)
	defer forget()
	delay := sleep.Growing(20*time.Millisecond, 200*time.Millisecond)
	election, over := context.WithTimeout(ctx, electionMost)
	defer over()
	for {
		reply, err := q.nc.RequestMsgWithContext(ctx, msg)
		if errors.Is(err, nats.ErrNoResponders) && q.Clustered() && delay.Wait(election) == nil {
			continue
		}
		if err = denied(ctx, err); err != nil {
			return pubAck{}, fmt.Errorf("publish to %s: %w", msg.Subject, err)
		}
		ack, err := parseAck(reply.Data)
		if hasCode(err, codeIngest) && delay.Wait(ctx) == nil {
			continue
		}
		if err != nil {
			return ack, fmt.Errorf("publish to %s: %w", msg.Subject, inWords(err))
		}
		return ack, nil
	}
}

func parseAck(data []byte) (pubAck, error) {
	var ack pubAck
	if len(data) == 0 {
		return ack, nil
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return ack, fmt.Errorf("not an acknowledgement: %w", err)
	}
	if ack.Error != nil {
		return ack, ack.Error
	}
	return ack, nil
}

func checkSize(data []byte) error {
	if len(data) > MaxCommandBytes {
		return fmt.Errorf("command of %d bytes: at most %d are accepted", len(data), MaxCommandBytes)
	}
	return nil
}

// commandError puts the errors of a publication into words.
func (q *Queue) commandError(ctx context.Context, account string, err error) error {
	switch {
	case disconnected(err):
		return fmt.Errorf("account %s: %w (%w)\nsubmit again when it answers: that is harmless, an id is done once", account, ErrDisconnected, err)
	case errors.Is(err, nats.ErrNoResponders) && q.lacks(ctx, account):
		return fmt.Errorf("account %s: %w\ncheck its name: other accounts have their streams there", account, ErrNoAccount)
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("account %s: %w\nsee that its runner has started once, that the NATS server stores, and that a leaf node reaches its hub (`perennial doctor`)", account, ErrNotTaken)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("account %s: NATS does not say that it has stored the command: %w\nsee that its disk has room and most of its servers run; then submit again under the same id, which is done once", account, err)
	}
	return err
}

// lacksTimeout bounds the question which accounts have streams.
const lacksTimeout = 5 * time.Second

// lacks reports whether JetStream has commands streams, and none of this account. Where it
// does not answer, has none at all or may not be asked, the streams can be on a hub that is
// away, or in the NATS account that the commands are imported from.
func (q *Queue) lacks(ctx context.Context, account string) bool {
	ctx, cancel := context.WithTimeout(ctx, lacksTimeout)
	defer cancel()
	ctx, forget := q.whileAllowed(ctx, q.api+"STREAM.NAMES")
	defer forget()
	names := q.js.StreamNames(ctx, jetstream.WithStreamListSubject("perennial.commands.>"))
	others := false
	for name := range names.Name() {
		if name == CommandsStream(account) {
			return false
		}
		others = true
	}
	return others && names.Err() == nil
}

// disconnected says that the client could not send because it has no connection at
// the moment.
func disconnected(err error) bool {
	return errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, nats.ErrDisconnected)
}
