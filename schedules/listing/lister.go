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
	"perennial/ledger/tables"
	"perennial/upstream"

	"github.com/sirupsen/logrus"
)

const (
	defaultEvery = 5 * time.Minute
	maxPages     = 1_100_000 // limit of one pass; enough for 1,000,000 proxies if each page has only one
	maxPageTries = 6
	longestRetry = time.Hour
)

// pageSize is the requested page size. The client requests smaller pages if the provider refuses
// this size.
const pageSize = 200

// Provider lists an account's proxies; *upstream.Client implements it.
type Provider interface {
	ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error)
}

// Lister keeps the ledger's table of proxies fresh by complete passes. A proxy that a
// complete pass misses is marked as unlisted and read separately. The ledger stores the
// position of a pass, so that an interrupted pass continues at its page.
type Lister struct {
	Config

	failing   atomic.Pointer[error]          // why the last page could not be read; nil if it was read
	lastPage  atomic.Pointer[time.Time]      // time of the last page; nil before the first
	garbled   atomic.Pointer[garbled]        // nil unless the last reply was a page that cannot be read
	pagesRead atomic.Int64                   // pages of the current pass
	loss      atomic.Pointer[tables.Listing] // the last complete pass if it missed too many proxies, otherwise nil
	nameless  atomic.Int64

	untold bool           // the fact about loss could not be appended; only a pass uses it
	unread map[string]int // failed reads of unlisted proxies since the last successful one, by id; only a pass uses it

	turn  sleep.Lock    // held during a pass
	tried chan struct{} // closed when this process's first pass has ended or failed
	once  sync.Once

	passes atomic.Int64 // complete passes of this process
}

// Config configures a Lister.
type Config struct {
	Account  string
	Ledger   *ledger.Ledger
	Provider Provider
	Clock    func() time.Time
	// Pass is called before each request. It returns when the request may be sent within the
	// listing's share of the rate. By default it does not wait.
	Pass func(ctx context.Context) error
	// Proxy reads a proxy that listings miss. If it is nil, such proxies are not read.
	Proxy func(ctx context.Context, id string) (upstream.Proxy, error)
	Every time.Duration // interval between the starts of two passes; default 5 min
	// A pass is reported if it misses at least LossPercent percent of the live proxies and at
	// least LossMin proxies. The defaults are 20 and 5.
	LossPercent, LossMin int
	Whole                func(ctx context.Context) // called after a complete pass
	Healed               func()                    // called after a complete pass that missed few proxies
	Log                  *logrus.Entry             // default: discards entries
}

// New returns a Lister.
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

// Failing returns why the last page could not be read. It returns nil if the page was read.
func (l *Lister) Failing() error {
	if why := l.failing.Load(); why != nil {
		return *why
	}
	return nil
}

// garbled is a page that the provider returned as a success, but whose list cannot be read.
type garbled struct {
	since time.Time
	why   error
}

// unreadAfter is how long the list may be unreadable before it is reported.
const unreadAfter = 30 * time.Second

// Unreadable returns why the provider's list cannot be read although it is returned, and since when. It
// returns "" if it can be read, or for the first unreadAfter.
func (l *Lister) Unreadable() string {
	x := l.garbled.Load()
	if x == nil || l.Clock().Sub(x.since) < unreadAfter {
		return ""
	}
	return fmt.Sprintf("the provider's list of proxies cannot be read since %s, and the table keeps what it had: %v", x.since.UTC().Format(time.RFC3339), x.why)
}

// LastPage returns the time of the last read of a page. It returns zero before the first read.
func (l *Lister) LastPage() time.Time {
	if at := l.lastPage.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// PagesRead returns the number of pages that the current pass has read.
func (l *Lister) PagesRead() int64 { return l.pagesRead.Load() }

// Loss returns the last complete pass if it missed too many proxies. Otherwise it returns nil.
func (l *Lister) Loss() *tables.Listing { return l.loss.Load() }

// Nameless returns how many entries of the last complete pass had no readable id.
func (l *Lister) Nameless() int { return int(l.nameless.Load()) }

// Tried returns a channel that closes when this process's first pass has ended or failed.
func (l *Lister) Tried() <-chan struct{} { return l.tried }

// Run makes a pass every Config.Every until the context ends, and returns the context's
// error. A failed pass is logged and retried with backoff.
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

// waitForFirst waits until the first pass is due. If Config.Every exceeds the default, the pass
// is due when Config.Every has elapsed since the last pass, which an earlier process may have
// made. Otherwise it is due now.
func (l *Lister) waitForFirst(ctx context.Context) error {
	if l.Every <= defaultEvery {
		return nil
	}
	at, err := l.Ledger.Fleet.Listing(ctx)
	if fresh, failed := l.Fresh(ctx, l.Every); err != nil || failed != nil || !fresh {
		return nil //nolint:nilerr // the first pass reports the error
	}
	l.once.Do(func() { close(l.tried) })
	l.Whole(ctx)
	return sleep.Until(ctx, l.Clock, at.Finished.Add(l.Every))
}

// Fresh reports whether a complete pass ended within the given time, or within twice its own
// duration. Twice the duration is for large accounts, where a pass takes hours. This limit is
// safe, because a proxy is read again just before a charge. A pass that missed too many proxies
// does not count.
func (l *Lister) Fresh(ctx context.Context, within time.Duration) (bool, error) {
	at, err := l.Ledger.Fleet.Listing(ctx)
	if err != nil {
		return false, fmt.Errorf("read the position of the listing: %w", err)
	}
	age := l.Clock().Sub(at.Finished)
	return !at.Finished.IsZero() && age >= 0 && age < max(within, 2*at.Took) && !l.shrunk(at), nil
}

// WaitPass waits for the pass in progress. If there is none, or if that pass fails, it makes a
// pass itself. It returns the error of its own pass or of the context.
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

// An interrupted pass is continued only within resumeWithin of its start.
const resumeWithin = 6 * time.Hour

func (l *Lister) makePass(ctx context.Context) error {
	defer l.once.Do(func() { close(l.tried) })
	at, err := l.Ledger.Fleet.Listing(ctx)
	if err != nil {
		return fmt.Errorf("read the position of the listing: %w", err)
	}
	now := l.Clock()
	if age := now.Sub(at.Began); at.Size == 0 || age < 0 || age > resumeWithin {
		// The start of a pass in microseconds is its number, so that numbers increase across
		// restarts.
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
