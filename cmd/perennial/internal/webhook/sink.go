// A webhook's sink: what it is made of, and its life over sessions that fail.

package webhook

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/ledger/sleep"
	"perennial/queue/events"
	"perennial/queue/positions"
)

// Status is a webhook as `webhooks list -o json` prints it, and a page shows it.
type Status struct {
	Name        string     `json:"name"`
	Account     string     `json:"account"`
	URL         string     `json:"url"` // scheme and host: the rest may be a secret
	State       string     `json:"state"`
	Seq         uint64     `json:"seq"`         // everything up to it is delivered
	Lag         uint64     `json:"behind"`      // events that are not
	Undelivered int        `json:"undelivered"` // of them, those that were read
	LastError   string     `json:"last_error,omitempty"`
	NextAttempt *time.Time `json:"next_attempt,omitempty"`
}

// Events is an account's history, as a sink reads it.
type Events interface {
	// Read yields the events from a sequence on, in order, and waits for more until ctx
	// ends. It ends after an error.
	Read(ctx context.Context, from uint64) iter.Seq2[events.Event, error]
	// Ends are the first event that the stream holds, and the last of the history.
	Ends(ctx context.Context) (first, last uint64, err error)
	// HashAt is the hash of an event of the history; found is false where neither ledger
	// nor stream holds it.
	HashAt(ctx context.Context, seq uint64) (hash string, found bool, err error)
}

// Positions keeps the position of one webhook.
type Positions interface {
	// Load reads it; revision 0: there is none.
	Load(ctx context.Context) (p positions.Position, revision uint64, err error)
	// Save writes it if it has this revision, and returns the new one; else it returns
	// [queue.ErrWebhookMoved].
	Save(ctx context.Context, p positions.Position, revision uint64) (uint64, error)
}

// Sink delivers the events of an account to one endpoint. At most 1,000 events, or 32 MiB
// of them, are undelivered at once; what is behind those waits.
type Sink struct {
	Name      string
	Endpoint  Endpoint
	Events    Events
	Positions Positions
	// Wants says whether events of a type, such as "order.delivered", are delivered.
	Wants       func(eventType string) bool
	Concurrency int    // attempts under way at once
	From        string // [FromNow] or [FromStart]
	Clock       func() time.Time
	Random      func() float64 // of [0, 1), for the waits between attempts
	Log         *logrus.Entry
	// Attempted is called after each attempt; nil: nothing is.
	Attempted func(Reply)

	last    *positions.Position // that this process knows; of Run alone
	gone    bool                // the endpoint said 410; of Run alone
	written atomic.Uint64       // the newest revision that the bucket has shown
	wake    chan struct{}       // written has changed
	once    sync.Once

	mu    sync.Mutex
	stats Stats
}

// Stats is how far a running sink is.
type Stats struct {
	Running     bool
	Read        uint64    // the last event that was read
	Undelivered int       // events up to it that are not delivered
	Oldest      time.Time // of the oldest of them; zero where there is none
}

// Stats says how far the sink is.
func (s *Sink) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

func (s *Sink) setStats(x Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats = x
}

// Written tells the sink that its position has a revision in the bucket, which this process
// or another one wrote.
func (s *Sink) Written(revision uint64) {
	s.prepare()
	s.written.Store(revision)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Sink) prepare() { s.once.Do(func() { s.wake = make(chan struct{}, 1) }) }

const (
	// sessionFirst and sessionMost bound the wait behind a session that failed.
	sessionFirst = 250 * time.Millisecond
	sessionMost  = 15 * time.Second
	// positionTimeout bounds the reading and the writing of a position.
	positionTimeout = 10 * time.Second
)

// errGone ends a sink whose endpoint said 410.
var errGone = errors.New("the endpoint says that it is gone (HTTP 410)")

// Run delivers until ctx ends. One sink may run at a time for an account; after a reply of
// 410 it delivers nothing more, in later runs either.
func (s *Sink) Run(ctx context.Context) {
	s.prepare()
	defer s.setStats(Stats{})
	delay := sleep.Growing(sessionFirst, sessionMost)
	for ctx.Err() == nil && !s.gone {
		began := s.Clock()
		err := s.session(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errGone):
			s.gone = true
			s.Log.WithError(err).WithField("url", s.Endpoint.Host()).
				Error("the webhook is stopped: nothing more is sent to it before the runner is started again. Where it is not needed any more, take it out of the configuration")
			continue
		case !errors.Is(err, positions.ErrMoved):
			s.Log.WithError(err).Warn("the webhook finds its place again")
		}
		if s.Clock().Sub(began) > sessionMost {
			delay.Reset()
		}
		_ = delay.Wait(ctx)
	}
	<-ctx.Done()
}

// session finds the place and delivers from there until something fails.
func (s *Sink) session(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, positionTimeout)
	defer cancel()
	p, revision, err := s.open(limited)
	if err != nil {
		return err
	}
	s.last = &p
	reading, stop := context.WithCancel(ctx)
	events, ended := make(chan events.Event), make(chan error, 1)
	var reader sync.WaitGroup
	reader.Go(func() { ended <- s.read(reading, p.Seq+1, events) })
	defer func() { stop(); reader.Wait() }()
	return newRound(s, p, revision).run(ctx, events, ended)
}

// read hands over what it reads until ctx ends or reading fails.
func (s *Sink) read(ctx context.Context, from uint64, to chan<- events.Event) error {
	for e, err := range s.Events.Read(ctx, from) {
		if err != nil {
			return err
		}
		select {
		case to <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("the events of webhook %s end", s.Name)
}
