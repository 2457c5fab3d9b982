package webhook

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/ledger/sleep"
	"perennial/queue/events"
	"perennial/queue/positions"
)

// Status is a webhook as `webhooks list -o json` and the web UI show it.
type Status struct {
	Name        string     `json:"name"`
	Account     string     `json:"account"`
	URL         string     `json:"url"` // scheme and host only, because the rest may be a secret
	State       string     `json:"state"`
	Seq         uint64     `json:"seq"`         // every event up to this sequence is delivered
	Lag         uint64     `json:"behind"`      // number of events not yet delivered
	Undelivered int        `json:"undelivered"` // number of events that were read and not yet delivered
	LastError   string     `json:"last_error,omitempty"`
	NextAttempt *time.Time `json:"next_attempt,omitempty"`
}

// Events reads an account's history for a sink.
type Events interface {
	// Read yields the events from a sequence on, in order. After the last event it waits for
	// new events, until ctx ends. It stops after an error.
	Read(ctx context.Context, from uint64) iter.Seq2[events.Event, error]
	// Ends returns the sequences of the first event in the stream and of the last event in the
	// history.
	Ends(ctx context.Context) (first, last uint64, err error)
	// HashAt returns the hash of an event. found is false if neither the ledger nor the stream
	// has the event.
	HashAt(ctx context.Context, seq uint64) (hash string, found bool, err error)
}

// Positions stores the position of one webhook.
type Positions interface {
	// Load returns the stored position. Revision 0 means that no position is stored in NATS. In
	// that case, p is the last position that was kept elsewhere, and may be empty.
	Load(ctx context.Context) (p positions.Position, revision uint64, err error)
	// Save writes the position if the stored position has this revision, and returns the new
	// revision. Otherwise it returns [positions.ErrMoved].
	Save(ctx context.Context, p positions.Position, revision uint64) (uint64, error)
}

// Sink delivers an account's events to one endpoint. It stops reading at 1,000 undelivered
// events, or 32 MiB of them.
type Sink struct {
	Name string
	// Connect returns the endpoint. After an error, the sink stores the error with its
	// position, reads no events, and calls Connect again at growing intervals.
	Connect   func() (Endpoint, error)
	Events    Events
	Positions Positions
	// Wants reports whether to deliver events of a type, such as "order.delivered".
	Wants       func(eventType string) bool
	Concurrency int    // number of parallel attempts
	From        string // [FromNow] or [FromStart]
	Clock       func() time.Time
	Random      func() float64 // returns a number in [0, 1), for the waits between attempts
	Log         *logrus.Entry
	// Attempted, unless nil, is called after each attempt.
	Attempted func(Reply)

	endpoint Endpoint
	fault    string              // why Connect failed; "" if it succeeded; only Run uses it
	last     *positions.Position // last known position; only Run uses it
	gone     bool                // the endpoint replied 410; only Run uses it
	written  atomic.Uint64       // newest revision of the position in the bucket
	wake     chan struct{}       // signals a change of written
	once     sync.Once

	mu    sync.Mutex
	stats Stats
}

// Stats is the progress of a running sink.
type Stats struct {
	Running     bool
	Read        uint64    // sequence of the last event read
	Undelivered int       // number of undelivered events up to Read
	Oldest      time.Time // time of the oldest undelivered event; zero if no event waits
}

// Stats returns the sink's progress.
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

// Written tells the sink the newest stored revision of its position, whether this process or
// another wrote it.
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
	// sessionFirst and sessionMost limit the wait after a failed session.
	sessionFirst = 250 * time.Millisecond
	sessionMost  = 15 * time.Second
	// positionTimeout limits loading and saving a position.
	positionTimeout = 10 * time.Second
)

var errUnusable = errors.New("the webhook's endpoint cannot be used")

// errGone stops a sink whose endpoint replied 410.
var errGone = errors.New("the endpoint says that it is gone (HTTP 410)")

// Run delivers events until ctx ends. Only one Run may be active for each webhook. After a 410
// reply, neither this call nor a later Run of this Sink delivers anything.
func (s *Sink) Run(ctx context.Context) {
	s.prepare()
	defer s.setStats(Stats{})
	defer func() { s.endpoint.Close() }()
	delay := sleep.Growing(sessionFirst, sessionMost)
	for ctx.Err() == nil && !s.gone {
		began := s.Clock()
		err := s.session(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errGone):
			s.stop()
			continue
		case !errors.Is(err, positions.ErrMoved) && !errors.Is(err, errUnusable):
			s.Log.WithError(err).Warn("the webhook finds its place again")
		}
		if s.Clock().Sub(began) > sessionMost {
			delay.Reset()
		}
		_ = delay.Wait(ctx)
	}
	<-ctx.Done()
}

func (s *Sink) stop() {
	if s.gone {
		return
	}
	s.gone = true
	s.Log.WithError(errGone).WithField("url", s.endpoint.Host()).
		Error("the webhook is stopped: nothing more is sent to it before the runner is started again. If it is no longer needed, remove it from the configuration")
}

// connect gets the endpoint, unless an earlier session got it.
func (s *Sink) connect() {
	if s.endpoint.Transport != nil {
		return
	}
	endpoint, err := s.Connect()
	if err == nil {
		s.endpoint, s.fault = endpoint, ""
		return
	}
	fault := strings.ReplaceAll(err.Error(), "\n", ": ")
	if fault != s.fault {
		s.Log.WithField("error", fault).Error("the webhook cannot be used; its events are kept, and it is tried again")
	}
	s.fault = fault
}

// session opens the position and delivers events from it until ctx ends or an error occurs.
func (s *Sink) session(ctx context.Context) error {
	s.connect()
	limited, cancel := context.WithTimeout(ctx, positionTimeout)
	defer cancel()
	p, revision, err := s.open(limited)
	if err != nil {
		return err
	}
	s.last = &p
	if s.fault != "" {
		s.setStats(Stats{Running: true, Read: p.Read.Seq, Undelivered: len(p.Undelivered)})
		return errUnusable
	}
	reading, stop := context.WithCancel(ctx)
	events, ended := make(chan events.Event), make(chan error, 1)
	var reader sync.WaitGroup
	reader.Go(func() { ended <- s.read(reading, p.Seq+1, events) })
	defer func() { stop(); reader.Wait() }()
	return newRound(s, p, revision).run(ctx, events, ended)
}

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
