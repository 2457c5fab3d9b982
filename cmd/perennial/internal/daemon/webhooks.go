// Delivery of an account's events to its webhooks, by the runner that leads the account.

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/journal"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/ledger/files"
	"perennial/ledger/sleep"
	"perennial/queue/events"
	"perennial/queue/positions"
)

// newWebhooks creates the sinks of the account's webhooks.
func (a *account) newWebhooks() {
	for _, w := range a.host.Config.WebhooksOf(a.Name) {
		sink := &webhook.Sink{
			Name: w.Name, Connect: func() (webhook.Endpoint, error) { return a.host.Config.Endpoint(w) }, Events: webhookEvents{a}, Positions: webhookPositions{a, w.Name}, Wants: w.Wants,
			Concurrency: w.Concurrency, From: w.From, Clock: time.Now, Random: rand.Float64, Log: a.log.WithField("webhook", w.Name),
			Attempted: a.counts.webhook(w.Name),
		}
		a.webhooks = append(a.webhooks, sink)
	}
}

// runWebhooks delivers events until ctx ends. Its failures do not stop any other part of the
// account.
func (a *account) runWebhooks(ctx context.Context) {
	if len(a.webhooks) == 0 {
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, sink := range a.webhooks {
		running.Go(func() { sink.Run(ctx) })
	}
	for ctx.Err() == nil { // without this watch, a sink would notice a moved position only at its next event
		err := a.positions().Watch(ctx, a.webhookWritten)
		if ctx.Err() == nil {
			a.log.WithError(err).Debug("watching the positions of webhooks begins again")
			_ = sleep.For(ctx, time.Second)
		}
	}
}

func (a *account) webhookWritten(name string, revision uint64) {
	for _, sink := range a.webhooks {
		if sink.Name == name {
			sink.Written(revision)
		}
	}
}

// measureWebhooks sets the progress metrics of the webhooks on the runner that delivers.
func (a gauges) measureWebhooks(ctx context.Context, set setter) error {
	if len(a.webhooks) == 0 {
		return nil
	}
	head, _, err := a.Ledger().Head(ctx)
	if err != nil {
		return err
	}
	for _, sink := range a.webhooks {
		s := sink.Stats()
		if !s.Running {
			continue
		}
		set(webhookBehind, float64(max(head-int64(s.Read), 0)+int64(s.Undelivered)), sink.Name)
		age := time.Duration(0)
		if !s.Oldest.IsZero() {
			age = time.Since(s.Oldest)
		}
		set(webhookOldest, max(age, 0).Seconds(), sink.Name)
	}
	return nil
}

// webhookEvents reads the account's events for a webhook.
type webhookEvents struct{ *account }

// Read implements webhook.Events.
func (e webhookEvents) Read(ctx context.Context, from uint64) iter.Seq2[events.Event, error] {
	return e.events().Follow(ctx, events.From{Seq: from})
}

// Ends implements webhook.Events. It takes the last sequence from the ledger, whose last rows
// may not be on the stream yet.
func (e webhookEvents) Ends(ctx context.Context) (first, last uint64, err error) {
	state, err := e.events().State(ctx)
	if err != nil {
		return 0, 0, err
	}
	head, _, err := e.Ledger().Head(ctx)
	return state.First, uint64(head), err
}

// HashAt implements webhook.Events. Archiving removes rows from the ledger, but keeps their
// events on the stream while a webhook needs them.
func (e webhookEvents) HashAt(ctx context.Context, seq uint64) (string, bool, error) {
	hash, found, err := (&journal.Source{Ledger: e.Ledger()}).HashAt(ctx, seq)
	if found || err != nil {
		return hash, found, err
	}
	event, found, err := e.events().At(ctx, seq)
	return event.Hash, found, err
}

// webhookPositions stores the position of one webhook in NATS, with a copy in the data
// directory. The copy is needed because NATS may lose its streams, and the ledger does not know
// what was delivered.
type webhookPositions struct {
	*account

	webhook string
}

// Load implements webhook.Positions.
func (p webhookPositions) Load(ctx context.Context) (positions.Position, uint64, error) {
	if err := p.positions().Ensure(ctx, p.config.Replicas); err != nil {
		return positions.Position{}, 0, err
	}
	position, revision, err := p.positions().Read(ctx, p.webhook)
	if err == nil && revision == 0 {
		position = p.readCopy()
	}
	return position, revision, err
}

// Save implements webhook.Positions.
func (p webhookPositions) Save(ctx context.Context, position positions.Position, revision uint64) (uint64, error) {
	revision, err := p.positions().Write(ctx, p.webhook, position, revision)
	if err == nil {
		err := files.Write(p.copyPath(), 0o600, func(w io.Writer) error { return json.NewEncoder(w).Encode(position) })
		if err != nil {
			p.log.WithError(err).WithField("webhook", p.webhook).Debug("the copy of the webhook's position was not written")
		}
	}
	return revision, err
}

func (p webhookPositions) copyPath() string { return p.host.Config.PositionPath(p.Name, p.webhook) }

// readCopy returns the copy of the position. It returns an empty position if the copy is
// missing or cannot be read.
func (p webhookPositions) readCopy() (position positions.Position) {
	data, err := os.ReadFile(p.copyPath())
	if err == nil {
		err = json.Unmarshal(data, &position)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.WithError(err).WithField("webhook", p.webhook).Warn("the copy of the webhook's position cannot be read")
		return positions.Position{}
	}
	return position
}
