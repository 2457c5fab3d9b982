// The lister: complete passes over the provider's proxies keep the ledger's table fresh.

package listing

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"perennial/ledger"
	"perennial/ledger/sleep"
	"perennial/upstream"

	"github.com/sirupsen/logrus"
)

const (
	defaultEvery = 5 * time.Minute
	maxPages     = 1_100_000 // of a pass; 1,000,000 proxies, if a page holds no more than one
	maxPageTries = 6
	longestRetry = time.Hour
)

// pageSize is how many proxies a page is asked for. The client asks for fewer where
// the provider refuses it.
const pageSize = 200

// Provider lists an account's proxies; *upstream.Client is one.
type Provider interface {
	ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error)
}

// Lister keeps the ledger's table of proxies by complete listing passes. What a
// complete pass does not show is unlisted, and read on its own. Where a pass stands
// is in the ledger too: a pass that broke off, or whose process ended, continues
// at the page it had come to.
type Lister struct {
	Config

	failing   atomic.Pointer[error]          // why the last page could not be read; nil: it was
	lastPage  atomic.Pointer[time.Time]      // when a page was read last; nil: none was
	pagesRead atomic.Int64                   // of this pass
	loss      atomic.Pointer[ledger.Listing] // the last complete pass, where it lost too much; else nil
	// nameless is how many entries of the last complete pass had no id that can be read.
	nameless atomic.Int64

	turn  sleep.Lock    // its holder may run a pass
	tried chan struct{} // closed when the first pass of this process has ended, well or not
	once  sync.Once

	passes atomic.Int64 // complete ones of this process
}

// Config is what a Lister is made of.
type Config struct {
	Account  string
	Ledger   *ledger.Ledger
	Provider Provider
	Clock    func() time.Time
	// Pass is called before each request and returns when it may be made: it keeps the
	// listing within its share of the account's rate. Default: at once.
	Pass func(ctx context.Context) error
	// Proxy reads a proxy that listings do not show; default: none is read.
	Proxy func(ctx context.Context, id string) (upstream.Proxy, error)
	Every time.Duration // from one pass's begin to the next; default 5 min
	// A pass that does not show LossPercent of the living proxies, and at least LossMin, is a
	// finding; default 20 and 5.
	LossPercent, LossMin int
	Whole                func(ctx context.Context) // called when a complete pass has ended
	Healed               func()                    // called when a pass has lost little
	Log                  *logrus.Entry             // default: discards
}

// New makes a lister.
func New(c Config) *Lister {
	if c.Pass == nil {
		c.Pass = func(context.Context) error { return nil }
	}
	if c.Every <= 0 {
		c.Every = defaultEvery
	}
	if c.LossPercent <= 0 {
		c.LossPercent = DefaultLossPercent
	}
	if c.LossMin <= 0 {
		c.LossMin = DefaultLossMin
	}
	if c.Whole == nil {
		c.Whole = func(context.Context) {}
	}
	if c.Healed == nil {
		c.Healed = func() {}
	}
	if c.Log == nil {
		quiet := logrus.New()
		quiet.SetOutput(io.Discard)
		c.Log = logrus.NewEntry(quiet)
	}
	return &Lister{Config: c, turn: sleep.NewLock(), tried: make(chan struct{})}
}

// Failing is why the last page could not be read; nil: it was.
func (l *Lister) Failing() error {
	if why := l.failing.Load(); why != nil {
		return *why
	}
	return nil
}

// LastPage is when a page was read last; zero: none was.
func (l *Lister) LastPage() time.Time {
	if at := l.lastPage.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// PagesRead counts the pages of this pass.
func (l *Lister) PagesRead() int64 { return l.pagesRead.Load() }

// Loss is the last complete pass, where it lost too much; else nil.
func (l *Lister) Loss() *ledger.Listing { return l.loss.Load() }

// Nameless is how many entries of the last complete pass have no id that can be read.
func (l *Lister) Nameless() int { return int(l.nameless.Load()) }

// Tried is closed when the first pass of this process has ended, well or not.
func (l *Lister) Tried() <-chan struct{} { return l.tried }

// Run makes a pass every ListEvery, counted from begin to begin, until the
// context ends; its error is the context's. A failed pass is logged and tried again, backing off.
func (l *Lister) Run(ctx context.Context) error {
	if err := l.Recall(ctx); err != nil {
		l.Log.WithError(err).Warn("what the last listing showed could not be read")
	}
	if err := l.waitForFirst(ctx); err != nil {
		return err
	}
	backoff := sleep.Doubling(5*time.Second, max(l.Every, 5*time.Second))
	for {
		began := l.Clock()
		next := began.Add(l.Every)
		if err := l.WaitPass(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			next = l.Clock().Add(backoff.Next())
			l.Log.WithError(err).Warn("the listing of proxies was interrupted; the table keeps what it had")
		} else {
			backoff.Reset()
		}
		if err := sleep.Until(ctx, l.Clock, next); err != nil {
			return err
		}
	}
}

// waitForFirst waits while the last pass of an earlier run serves, where passes are seldom:
// no slot needs a fresh one.
func (l *Lister) waitForFirst(ctx context.Context) error {
	if l.Every <= defaultEvery {
		return nil
	}
	at, err := l.Ledger.Listing(ctx)
	if fresh, failed := l.Fresh(ctx, l.Every); err != nil || failed != nil || !fresh {
		return nil //nolint:nilerr // the first pass says what is wrong
	}
	l.once.Do(func() { close(l.tried) })
	l.Whole(ctx)
	return sleep.Until(ctx, l.Clock, at.Finished.Add(l.Every))
}

// Fresh reports whether a complete pass ended within the given time, or within twice the
// time that it took: in a large account a pass takes hours, and what it showed is read
// again just before it is paid for. A pass that lost too much serves nothing.
func (l *Lister) Fresh(ctx context.Context, within time.Duration) (bool, error) {
	at, err := l.Ledger.Listing(ctx)
	if err != nil {
		return false, fmt.Errorf("read the position of the listing: %w", err)
	}
	age := l.Clock().Sub(at.Finished)
	return !at.Finished.IsZero() && age >= 0 && age < max(within, 2*at.Took) && !l.shrunk(at), nil
}

// WaitPass returns when a pass has ended since the call: one that is under way,
// or else one that it makes. The error is that of the pass or of the context.
func (l *Lister) WaitPass(ctx context.Context) error {
	before := l.passes.Load()
	if err := l.turn.Take(ctx); err != nil {
		return err
	}
	defer l.turn.Give()
	if l.passes.Load() > before {
		return nil
	}
	return l.makePass(ctx)
}

// resumeWithin is how old a pass may be that is continued with.
const resumeWithin = 6 * time.Hour

func (l *Lister) makePass(ctx context.Context) error {
	defer l.once.Do(func() { close(l.tried) })
	at, err := l.Ledger.Listing(ctx)
	if err != nil {
		return fmt.Errorf("read the position of the listing: %w", err)
	}
	now := l.Clock()
	if age := now.Sub(at.Began); at.Size == 0 || age < 0 || age > resumeWithin {
		// Passes are numbered by their time in microseconds, so that numbers continue
		// rising after a restart.
		at.Pass, at.Began, at.Size, at.Token, at.Nameless = max(now.UnixMicro(), at.Pass+1), now, pageSize, "", 0
	}
	if err := l.readUnlisted(ctx); err != nil {
		return fmt.Errorf("read the unlisted proxies: %w", err)
	}
	if at, err = l.list(ctx, at); err != nil {
		return fmt.Errorf("list the proxies: %w", err)
	}
	if err := l.finish(ctx, at); err != nil {
		return fmt.Errorf("finish the listing of proxies: %w", err)
	}
	l.Whole(ctx)
	l.passes.Add(1)
	return nil
}
