package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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
	// Code is "unreadable", "conflict" or "refused". "conflict" means that the id was accepted
	// with other content. "refused" means that too many different contents had this id.
	Code   string
	Reason string
}

// Error returns the command's id and the runner's reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("command %.128q is not carried out (%s): %s", e.ID, e.Code, e.Reason)
}

// Publish publishes commands and returns when they are on the stream's disk. It retries while
// NATS cannot be reached, until ctx ends. A command that is already stored is executed only
// once, by its id. Commands are sent in atomic batches of at most queue.MaxBatch. The error is
// [queue.ErrNoAccount] if this account is not configured although others are. It is
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

// Do publishes a command, waits until the command has finished, and returns the result. If the
// command needs a review, Do waits until the review ends. ctx limits the wait, not the command.
// If Do is called again with the same command, for example after a crash, it returns the same
// result. The error is a *[RefusedError] if the command is not executed.
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

// answerWithin is how long Do waits before it publishes the command again. If the client was
// disconnected when the runner sent the result, the result is lost. The runner sends it again
// when the same command arrives again.
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

// waitSeconds is how long the runner waits for a result before it replies that the command has
// not finished.
const waitSeconds = 5

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

const askWithin = waitSeconds*time.Second + 10*time.Second

// persist calls the function do until it succeeds. It gives up if a retry would fail too, or
// when ctx ends.
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

var passing = []error{
	publish.ErrNotTaken, service.ErrNoRunner, queue.ErrStopping, queue.ErrDisconnected, context.DeadlineExceeded,
	nats.ErrTimeout, jetstream.ErrNoStreamResponse,
}

// unavailable is the code of JetStream's errors while it has no leader.
const unavailable = 503

func final(err error) bool {
	if refused, ok := errors.AsType[*service.Error](err); ok {
		return refused.Code != "busy" && refused.Code != "stopping"
	}
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.Code == unavailable {
		return false
	}
	return !queue.Disconnected(err) && !slices.ContainsFunc(passing, func(target error) bool { return errors.Is(err, target) })
}

// Command is an [Order] or a [Renewal].
type Command interface {
	id() string
	kind() queue.Kind
}

// Priority is the priority of a command. [High] goes before other commands, [Bulk] after
// them.
type Priority string

// The priorities. A command without a priority goes between the two.
const (
	High Priority = "high"
	Bulk Priority = "bulk"
)

// Order buys proxies. The caller chooses ID. An order with the same ID and content is
// executed once, however often it is published.
type Order struct {
	ID           string `json:"id"`            // 1 to 128 characters
	DurationDays int64  `json:"duration_days"` // a multiple of 30 that the offers support
	Items        []Item `json:"items"`         // at most 50 items and 2,000 proxies
	// MaxTotalCents limits the cost. It is checked with a quote before the order is sent. If it
	// is nil, there is no limit.
	MaxTotalCents   *int64            `json:"max_total_cents,omitempty"`
	NotAfter        *time.Time        `json:"not_after,omitempty"` // send no first request after this time
	Labels          map[string]string `json:"labels,omitempty"`    // in every event of the command
	SandboxScenario string            `json:"sandbox_scenario,omitempty"`
	Priority        Priority          `json:"priority,omitempty"`
}

// Item is an offer and a quantity in an order.
type Item struct {
	OfferCode string   `json:"offer_code"`
	Quantity  int64    `json:"quantity"`
	CIDRs     []string `json:"cidrs,omitempty"` // allowed if the account's configuration has the API's field for CIDRs
}

// Renewal renews at most 5,000 proxies.
type Renewal struct {
	ID            string   `json:"id"`
	ProxyIDs      []string `json:"proxy_ids"`
	DurationDays  int64    `json:"duration_days"` // a multiple of 30, at most 1,080
	MaxTotalCents *int64   `json:"max_total_cents,omitempty"`
	// DueBefore skips proxies that expire later. The expiry is read just before the charge. If
	// DueBefore is nil, it skips none.
	DueBefore *time.Time `json:"due_before,omitempty"`
	// ExpectExpiresAt maps the id of a proxy to the expected expiry. A proxy with a different
	// expiry is skipped.
	ExpectExpiresAt map[string]time.Time `json:"expect_expires_at,omitempty"`
	NotAfter        *time.Time           `json:"not_after,omitempty"`
	Labels          map[string]string    `json:"labels,omitempty"`
	Priority        Priority             `json:"priority,omitempty"`
}

func (o Order) id() string       { return o.ID }
func (Order) kind() queue.Kind   { return queue.KindOrderCreate }
func (r Renewal) id() string     { return r.ID }
func (Renewal) kind() queue.Kind { return queue.KindProxyRenew }

var errNoCommand = errors.New("there is no command: give an Order or a Renewal")

// outgoing returns a command in the form in which it is published. The runner checks its
// content.
func outgoing(c Command) (publish.Outgoing, error) {
	if c == nil {
		return publish.Outgoing{}, errNoCommand
	}
	if c.id() == "" {
		return publish.Outgoing{}, errors.New("the command has no ID: choose one, it is what keeps the command from being done twice")
	}
	data, err := json.Marshal(c)
	if err != nil {
		return publish.Outgoing{}, fmt.Errorf("command %.128q: %w", c.id(), err)
	}
	return publish.Outgoing{Kind: c.kind(), Data: data}, nil
}

// Money is in cents of the account's currency. ChargedCents is before refunds.
type Money struct {
	ChargedCents  int64  `json:"charged_cents"`
	RefundedCents int64  `json:"refunded_cents"`
	Currency      string `json:"currency"`
}

// Finished is the result of a command: the data of its command.finished event
// (docs/events). If there are several, the one with the highest Revision is valid.
type Finished struct {
	CommandID string            `json:"command_id"`
	Revision  int64             `json:"revision"` // starts at 1
	State     string            `json:"state"`    // see [Finished.Done]
	Code      string            `json:"code"`     // for programs; may be empty
	Reason    string            `json:"reason"`   // for people
	Labels    map[string]string `json:"labels"`
	Totals    Money             `json:"totals"`
	// Lines contains at most the first 200 of LinesTotal lines. [Client.Lines] yields all lines.
	Lines      []Line      `json:"lines"`
	LinesTotal int         `json:"lines_total"`
	Operations []Operation `json:"operations"`
	Attempts   int64       `json:"attempts"` // requests to the provider
}

// Line is a proxy that an order delivered, or that a renewal contained. Unknown fields are
// empty.
type Line struct {
	ProxyID           string     `json:"proxy_id"`
	State             string     `json:"state"` // delivered, succeeded, failed, skipped, charged, not_charged
	OfferCode         string     `json:"offer_code"`
	CountryCode       string     `json:"country_code"`
	Region            string     `json:"region"`
	LineName          string     `json:"line_name"`
	IPType            string     `json:"ip_type"`
	Protocol          string     `json:"protocol"`
	PreviousExpiresAt *time.Time `json:"previous_expires_at"`
	ExpiresAt         *time.Time `json:"expires_at"`
	ChargedCents      *int64     `json:"charged_cents"`
	RefundedCents     int64      `json:"refunded_cents"`
}

// Operation is one execution of the command, or of a part of it.
type Operation struct {
	OperationID string `json:"operation_id"`
	State       string `json:"state"`
	OrderNo     string `json:"order_no"`
}

// Done reports whether the command was executed completely. It is false for partial, failed,
// refunded and rejected. It is also false for resolved, which means that an operator gave the
// result.
func (f Finished) Done() bool { return f.State == "delivered" || f.State == "completed" }

// Lines yields all lines of a finished command, including those beyond the event's limit.
// It ends after it has yielded an error.
func (c *Client) Lines(ctx context.Context, f Finished) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for _, line := range f.Lines {
			if !yield(line, nil) {
				return
			}
		}
		for seen := len(f.Lines); seen < f.LinesTotal; {
			var page struct {
				Lines []Line `json:"lines"`
			}
			err := c.ask(ctx, "lines", map[string]any{"id": f.CommandID, "after": seen, "limit": linesAtOnce}, &page)
			if err == nil && len(page.Lines) == 0 {
				err = fmt.Errorf("command %.128q: the runner gave %d of %d lines: it was opened again", f.CommandID, seen, f.LinesTotal)
			}
			if err != nil {
				yield(Line{}, err)
				return
			}
			for _, line := range page.Lines {
				if seen++; !yield(line, nil) {
					return
				}
			}
		}
	}
}

const linesAtOnce = 1000

func finishedOf(data []byte) (f Finished, err error) {
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("the end of a command cannot be read: %w", err)
	}
	return f, nil
}
