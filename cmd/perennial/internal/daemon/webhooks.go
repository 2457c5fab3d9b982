package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/journal"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/ledger/files"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/positions"
)

func (a *account) newWebhooks() {
	for _, w := range a.host.Config.WebhooksOf(a.Name) {
		sink := &webhook.Sink{
			Name: w.Name, Connect: func() (webhook.Endpoint, error) { return a.host.Config.Endpoint(w) }, Events: webhookEvents{a}, Positions: webhookPositions{a, w.Name}, Wants: w.Wants,
			Concurrency: w.Concurrency, From: w.From, Clock: time.Now, Random: mathrand.Float64, Log: a.log.WithField("webhook", w.Name),
			Attempted: a.meter.webhook(w.Name),
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

// measureWebhooks sets the metrics for the progress of webhooks. It sets none for a webhook that
// this runner does not deliver.
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

// webhookEvents implements webhook.Events.
type webhookEvents struct{ *account }

func (e webhookEvents) Read(ctx context.Context, from uint64) iter.Seq2[events.Event, error] {
	return e.events().Follow(ctx, events.From{Seq: from})
}

// Ends returns the first sequence on the stream and the last sequence in the ledger. The
// ledger's last rows may not be on the stream yet.
func (e webhookEvents) Ends(ctx context.Context) (first, last uint64, err error) {
	state, err := e.events().State(ctx)
	if err != nil {
		return 0, 0, err
	}
	head, _, err := e.Ledger().Head(ctx)
	return state.First, uint64(head), err
}

// HashAt looks in the ledger and then on the stream. Archiving removes rows from the ledger, but
// keeps their events on the stream while a webhook needs them.
func (e webhookEvents) HashAt(ctx context.Context, seq uint64) (string, bool, error) {
	hash, found, err := (&journal.Source{Ledger: e.Ledger()}).HashAt(ctx, seq)
	if found || err != nil {
		return hash, found, err
	}
	event, found, err := e.events().At(ctx, seq)
	return event.Hash, found, err
}

// webhookPositions implements webhook.Positions for one webhook. It stores the position in NATS,
// with a copy in the data directory. NATS may lose its streams, and the ledger does not know what
// was delivered.
type webhookPositions struct {
	*account

	webhook string
}

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

// States of a webhook in `webhooks list`.
const (
	webhookNew        = "new"        // the runner has not started the webhook
	webhookDelivering = "delivering" // delivery works
	webhookRetrying   = "retrying"   // an event waits for its next attempt
	webhookStopped    = "stopped"    // the endpoint replied 410
	webhookOrphaned   = "removable"  // no longer configured, but its position still prevents the archiving of events
)

// WebhooksOf lists the webhooks of an account that are configured or have a position, sorted
// by name.
func WebhooksOf(ctx context.Context, c *config.Config, q *queue.Queue, account string) ([]webhook.Status, error) {
	positions, err := positions.Of(q.JetStream(), account).All(ctx)
	if err != nil {
		return nil, err
	}
	state, err := events.Of(q.JetStream(), account).State(ctx)
	if errors.Is(err, queue.ErrNoAccount) {
		return NewWebhooks(c, account), nil
	}
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(NewWebhooks(c, account), func(w webhook.Status) bool { _, begun := positions[w.Name]; return begun })
	for name, p := range positions {
		all = append(all, webhookAt(c, account, name, p, state.Last))
	}
	slices.SortFunc(all, func(a, b webhook.Status) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// NewWebhooks returns the status of an account's configured webhooks before their start, sorted
// by name.
func NewWebhooks(c *config.Config, account string) (all []webhook.Status) {
	for _, w := range c.WebhooksOf(account) {
		all = append(all, webhook.Status{Name: w.Name, Account: account, URL: webhook.Host(w.URL), State: webhookNew})
	}
	slices.SortFunc(all, func(a, b webhook.Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func webhookAt(c *config.Config, account, name string, p positions.Position, last uint64) webhook.Status {
	l := webhook.Status{
		Name: name, Account: account, State: webhookDelivering, Seq: p.Seq, Lag: p.Behind(last), Undelivered: len(p.Undelivered),
		LastError: p.LastError, NextAttempt: p.NextAttempt,
	}
	w, configured := c.Webhook(name)
	if configured = configured && w.Account == account; configured {
		l.URL = webhook.Host(w.URL)
	}
	switch {
	case !configured:
		l.State = webhookOrphaned
	case p.Stopped != "":
		l.State, l.LastError = webhookStopped, p.Stopped
	case p.LastError != "":
		l.State = webhookRetrying
	}
	return l
}

// TestWebhook sends a signed test event, which is not in the journal. host is the scheme and
// host of the webhook's address. id is the event's id.
func TestWebhook(ctx context.Context, c *config.Config, w config.Webhook) (r webhook.Reply, host, id string, err error) {
	endpoint, err := c.Endpoint(w)
	if err != nil {
		return r, "", "", err
	}
	defer endpoint.Close()
	id = w.Account + "/test/" + rand.Text()
	event, err := json.Marshal(map[string]any{
		"specversion": "1.0", "id": id, "source": "perennial/" + w.Account, "type": "perennial.webhook.test.v1",
		"time": endpoint.Clock().UTC().Format("2006-01-02T15:04:05.000000Z"), "datacontenttype": "application/json", "data": map[string]string{"webhook": w.Name},
	})
	if err != nil {
		return r, "", "", err
	}
	return endpoint.Send(ctx, id, event), endpoint.Host(), id, nil
}

// Replay is a request to deliver events again, starting at event Seq or, if Time is set, at
// the first event since Time. By is the person who asks, and Reason is the person's reason.
type Replay struct {
	Seq        uint64
	Time       time.Time
	By, Reason string
}

// Replayed is the output of `webhooks replay -o json`.
type Replayed struct {
	Name    string `json:"name"`
	FromSeq uint64 `json:"from_seq"`
	WasSeq  uint64 `json:"was_seq"` // every event up to this one was delivered
}

// String describes the result for people.
func (r Replayed) String() string {
	return fmt.Sprintf("webhook %s delivers again from event %d on; it had delivered everything up to event %d", r.Name, r.FromSeq, r.WasSeq)
}

// ReplayError means that a webhook cannot replay from the chosen event.
type ReplayError struct{ Reason string }

func (e *ReplayError) Error() string { return e.Reason }

// replayTries limits the attempts to write the position while the runner also writes it.
const replayTries = 10

// ReplayWebhook moves the position of a webhook back.
func ReplayWebhook(ctx context.Context, q *queue.Queue, w config.Webhook, x Replay) (r Replayed, err error) {
	if !x.Time.IsZero() {
		if x.Seq, err = events.Of(q.JetStream(), w.Account).FirstSince(ctx, x.Time); err != nil {
			return r, err
		}
	}
	for range replayTries {
		p, revision, err := positions.Of(q.JetStream(), w.Account).Read(ctx, w.Name)
		if err != nil {
			return r, err
		}
		if revision == 0 {
			return r, fmt.Errorf("webhook %s has not begun\nstart the runner; a webhook with `from: start` begins with the first event", w.Name)
		}
		moved, err := movedTo(ctx, q, w, p, x)
		if err != nil {
			return r, err
		}
		_, err = positions.Of(q.JetStream(), w.Account).Write(ctx, w.Name, moved, revision)
		if err == nil {
			return Replayed{w.Name, x.Seq, p.Seq}, nil
		}
		if !errors.Is(err, positions.ErrMoved) {
			return r, err
		}
	}
	return r, fmt.Errorf("webhook %s: %w, %d times\ntry again", w.Name, positions.ErrMoved, replayTries)
}

// movedTo returns a position from which event x.Seq is delivered next. It returns a ReplayError
// if that would skip an undelivered event, or if the event is no longer on the stream.
func movedTo(ctx context.Context, q *queue.Queue, w config.Webhook, p positions.Position, x Replay) (positions.Position, error) {
	state, err := events.Of(q.JetStream(), w.Account).State(ctx)
	if err != nil {
		return p, err
	}
	if x.Seq < state.First {
		return p, &ReplayError{fmt.Sprintf("event %d is not on the stream any more: it begins with event %d", x.Seq, state.First)}
	}
	if x.Seq > p.Seq+1 {
		return p, &ReplayError{fmt.Sprintf("webhook %s has delivered everything up to event %d only, and event %d would leave out what lies between\na replay only goes back", w.Name, p.Seq, x.Seq)}
	}
	to := positions.Mark{Seq: x.Seq - 1}
	if to.Seq >= max(state.First, 1) { // a mark before the stream's first event has no hash
		before, _, err := events.Of(q.JetStream(), w.Account).At(ctx, to.Seq)
		if err != nil {
			return p, err
		}
		to.Hash = before.Hash
	}
	marks := slices.DeleteFunc(p.Marks, func(m positions.Mark) bool { return m.Seq >= x.Seq })
	return positions.Position{Mark: to, Read: to, Marks: marks, By: x.By, Reason: x.Reason}, nil
}
