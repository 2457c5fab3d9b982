// This file has Client, which publishes commands and reads their results.

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/publish"
	"perennial/queue/service"
)

// Client sends commands and requests to one account of Perennial. Its methods are safe for
// concurrent use.
type Client struct {
	queue   *queue.Queue
	account string
}

// New returns a client of an account. It uses a connection that the caller closes.
func New(q *queue.Queue, account string) (*Client, error) {
	if err := queue.ValidAccount(account); err != nil {
		return nil, err
	}
	return &Client{queue: q, account: account}, nil
}

// ErrUnknown reports that no command with this id has reached the runner.
var ErrUnknown = errors.New("no command of this id has come")

// RefusedError reports why a command is not executed and gets no command.finished.
type RefusedError struct {
	ID string
	// Code is unreadable, conflict (the id was accepted with other content) or refused (too
	// many different contents had this id).
	Code   string
	Reason string
}

// Error returns the command's id and the runner's reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("command %.128q is not carried out (%s): %s", e.ID, e.Code, e.Reason)
}

// Publish publishes commands and returns when they are on the stream's disk. It retries
// while NATS cannot be reached, until ctx ends. A command that is already stored is executed
// only once, by its id. Commands are sent in atomic batches of at most queue.MaxBatch. The
// error is [queue.ErrNoAccount] if other accounts are configured but not this one, and
// *[queue.DeniedError] if the login may not publish.
func (c *Client) Publish(ctx context.Context, commands ...Command) error {
	all := make([]publish.Outgoing, 0, len(commands))
	for _, one := range commands {
		out, err := outgoing(one)
		if err != nil {
			return err
		}
		all = append(all, out)
	}
	return persist(ctx, func(ctx context.Context) error {
		return publish.New(c.queue.JetStream()).PublishCommands(ctx, c.account, all)
	})
}

// Do publishes a command and returns its result, which may take as long as a review. ctx
// limits the wait, not the command. If Do is called again with the same command, for
// example after a crash, it returns the same result. The error is a *[RefusedError] if the
// command is not executed.
func (c *Client) Do(ctx context.Context, command Command) (f Finished, err error) {
	out, err := outgoing(command)
	if err != nil {
		return f, err
	}
	var answer []byte
	err = persist(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		answer, err = publish.New(c.queue.JetStream()).CarryOut(ctx, c.account, out)
		return err
	})
	if err != nil {
		return f, fmt.Errorf("command %.128q: %w", command.id(), err)
	}
	var refused struct{ Error, Reason string }
	if err := json.Unmarshal(answer, &refused); err == nil && refused.Error != "" {
		return f, &RefusedError{ID: command.id(), Code: refused.Error, Reason: refused.Reason}
	}
	return finishedOf(answer)
}

// answerWithin is how long Do waits before it publishes the command again. A result is lost
// if the client was disconnected when the runner sent it. Publishing the command again
// returns it.
const answerWithin = 2 * time.Minute

// Wait waits until a command has finished, and returns its result. The error is [ErrUnknown]
// if no command with this id has arrived. If other content may have the same id, use
// [Client.Do].
func (c *Client) Wait(ctx context.Context, id string) (Finished, error) {
	for {
		var answer struct {
			Finished bool     `json:"finished"`
			Result   Finished `json:"result"`
		}
		err := c.ask(ctx, "wait", map[string]any{"id": id, "timeout_seconds": waitSeconds}, &answer)
		if err != nil || answer.Finished {
			return answer.Result, err
		}
	}
}

// waitSeconds is how long the runner waits for a result before it replies that there is none
// yet.
const waitSeconds = 5

// ask sends a request to the account's service, and retries while no runner replies.
func (c *Client) ask(ctx context.Context, verb string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	return persist(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		data, err := service.Request(ctx, c.queue.JetStream(), c.account, verb, body)
		if refused, ok := errors.AsType[*service.Error](err); ok && refused.Code == "not_found" {
			return ErrUnknown
		}
		if err != nil {
			return err
		}
		return json.Unmarshal(data, answer)
	})
}

// askWithin limits one request.
const askWithin = waitSeconds*time.Second + 10*time.Second

// persist calls do until it succeeds or a retry would fail too, or until ctx ends.
func persist(ctx context.Context, do func(context.Context) error) error {
	delay := sleep.Growing(100*time.Millisecond, 5*time.Second)
	for {
		err := do(ctx)
		if err == nil || final(err) {
			return err
		}
		if ctx.Err() != nil || delay.Wait(ctx) != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// passing lists the errors that occur while a NATS server or a runner cannot be reached.
var passing = []error{
	publish.ErrNotTaken, service.ErrNoRunner, queue.ErrStopping, queue.ErrDisconnected, context.DeadlineExceeded,
	nats.ErrTimeout, jetstream.ErrNoStreamResponse,
}

// unavailable is the code of JetStream's errors while it has no leader.
const unavailable = 503

// final reports whether a retry would fail too.
func final(err error) bool {
	if refused, ok := errors.AsType[*service.Error](err); ok {
		return refused.Code != "busy" && refused.Code != "stopping"
	}
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.Code == unavailable {
		return false
	}
	return !queue.Disconnected(err) && !slices.ContainsFunc(passing, func(target error) bool { return errors.Is(err, target) })
}
