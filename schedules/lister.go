package schedules

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/ledger"
	"perennial/upstream"
)

const (
	defaultListEvery = 5 * time.Minute
	maxPages         = 200_000 // of a pass; 1,000,000 proxies are 20,000 pages of 50
	maxEmptyPages    = 16      // in a row
	maxRestarts      = 3       // of a pass, for page tokens
	maxPageTries     = 6
	longestRetry     = time.Hour
)

// pageSizes are tried in order: the document's limit first, smaller ones where
// the provider refuses it.
var pageSizes = []int{200, 100, 50}

// Provider lists an account's proxies; *upstream.Client is one.
type Provider interface {
	ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error)
}

// Lister keeps the ledger's table of proxies by complete listing passes. What a
// pass does not show is gone only once the pass came to its end.
type Lister struct {
	ledger   *ledger.Ledger
	provider Provider
	pass     func(context.Context) error
	clock    func() time.Time
	every    time.Duration
	log      *logrus.Entry

	turn chan struct{} // holds one token: who has it may run a pass

	mu       sync.Mutex
	passes   int64 // complete ones
	number   int64 // of the last pass begun
	finished time.Time
}

// NewLister makes a lister of the configuration's Ledger, Provider, Pass, Clock,
// ListEvery and Log. Pass is called before every page and keeps the listing
// within its share of the account's rate.
func NewLister(c Config) *Lister {
	c = c.withDefaults()
	return &Lister{
		ledger: c.Ledger, provider: c.Provider, pass: c.Pass, clock: c.Clock, every: c.ListEvery, log: c.Log,
		turn: make(chan struct{}, 1),
	}
}

// Run makes a pass every ListEvery, counted from begin to begin, until the
// context ends; its error is the context's. A failed pass is logged and tried again, backing off.
func (l *Lister) Run(ctx context.Context) error {
	backoff := delays{first: 5 * time.Second, most: max(l.every, 5*time.Second)}
	for {
		began := l.clock()
		next := began.Add(l.every)
		if err := l.WaitPass(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			next = l.clock().Add(backoff.next())
			l.log.WithError(err).Warn("the listing of proxies broke off; the table keeps what it had")
		} else {
			backoff.last = 0
		}
		if err := waitUntil(ctx, l.clock, next); err != nil {
			return err
		}
	}
}

// Fresh reports whether a complete pass ended less than so long ago.
func (l *Lister) Fresh(within time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	age := l.clock().Sub(l.finished)
	return l.passes > 0 && age >= 0 && age < within
}

// WaitPass returns when a pass has ended since the call: one that is under way,
// or else one that it makes. The error is that of the pass or of the context.
func (l *Lister) WaitPass(ctx context.Context) error {
	before := l.count()
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	if l.count() > before {
		return nil
	}
	return l.makePass(ctx)
}

func (l *Lister) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passes
}

func (l *Lister) makePass(ctx context.Context) error {
	began := l.clock()
	number := l.begin(began)
	if err := l.list(ctx, number); err != nil {
		return fmt.Errorf("list the proxies: %w", err)
	}
	err := l.ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.FinishPass(number, began) })
	if err != nil {
		return fmt.Errorf("finish the listing of proxies: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passes, l.finished = l.passes+1, l.clock()
	return nil
}

// begin numbers a pass by its time in microseconds, so that numbers go on
// rising after a restart.
func (l *Lister) begin(at time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number = max(at.UnixMicro(), l.number+1)
	return l.number
}
