// Figures: values that are slow to compute, such as a sum over every entry. They are computed
// in the background, once for all readers. A page shows the last value with its time.

package web

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// figureWait is the longest time that a page waits for a new value of a figure.
	figureWait = 25 * time.Millisecond
	// answerWait limits a page's wait for a runner's first answer. It is counted from the
	// request.
	answerWait = time.Second
	// figureWithin limits the time to compute a figure.
	figureWithin = 5 * time.Minute
	// figureShare limits the computation of one figure to a hundredth of the time: the pause
	// after a computation is a hundred times as long as the computation.
	figureShare = 100
	// A computation shorter than quick needs no pause. After a computation shorter than brief,
	// the pause is at most briefly.
	quick   = 20 * time.Millisecond
	brief   = 500 * time.Millisecond
	briefly = 5 * time.Second
	// failedShare replaces figureShare after a failure, because the cause may soon be gone.
	failedShare = 3
	// figureKept is the time that a figure is kept after its last request.
	figureKept = 15 * time.Minute
	// figuresAtOnce limits the figures that are computed concurrently.
	figuresAtOnce = 2
)

// figureKey identifies a figure.
type figureKey struct{ account, name string }

// figures contains the computed values.
type figures struct {
	clock func() time.Time
	ctx   context.Context //nolint:containedctx // the context of the process, because a figure outlives the page that asked for it first
	end   context.CancelFunc
	work  sync.WaitGroup
	turn  chan struct{}

	mu   sync.Mutex
	all  map[figureKey]*figure
	more chan struct{} // closed when a figure with owed set is ready
	told int64         // number of times that more was closed
}

// figure is one value.
type figure struct {
	value    any
	err      error
	at       time.Time // when the value was computed; zero if never
	began    time.Time // when that computation began
	tried    time.Time // when the last computation ended
	took     time.Duration
	since    time.Time     // start of the current computation; zero if no computation runs
	made     chan struct{} // closed when the current computation ends
	asked    time.Time
	reply    bool // a runner's answer: it needs no computation here, so figuresAtOnce does not apply
	outdated bool // a change was made after the current computation began
	owed     bool // a page was shown without the value, so pages are notified when it is ready
}

func newFigures(clock func() time.Time) *figures {
	ctx, end := context.WithCancel(context.Background())
	return &figures{clock: clock, ctx: ctx, end: end, turn: make(chan struct{}, figuresAtOnce), all: map[figureKey]*figure{}, more: make(chan struct{})}
}

// close cancels the computations in progress and waits until they have ended.
func (f *figures) close() {
	f.end()
	f.work.Wait()
}

// edition returns how often pages were notified of a figure.
func (f *figures) edition() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told
}

// next returns a channel that closes when pages are notified of the next figure.
func (f *figures) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.more
}

// Made is a figure on a page.
type Made[T any] struct {
	Value T
	At    time.Time // when the value was computed; zero if there is no value yet
	Began time.Time // when that computation began
	Since time.Time // start of the current computation; zero if no computation runs
	Err   string    // why the last computation failed; Value is then the earlier value
}

// Known reports whether there is a value.
func (m Made[T]) Known() bool { return !m.At.IsZero() }

// Pending reports whether the page must be reloaded to show a value.
func (m Made[T]) Pending() bool { return m.At.IsZero() && m.Err == "" }

// insight reads what several pages show about an account. Slow figures are computed in the
// background.
type insight struct {
	*Config
	figures *figures
}

// figureOf returns the named figure, which produce computes.
//
// If the value is older than fresh, and the pause after the last computation has passed, a new
// computation starts. The older value is returned meanwhile. If there is no value yet, or fresh
// is 0, figureOf waits briefly for the new value. If fresh is negative, it always starts a
// computation and waits briefly.
func figureOf[T any](ctx context.Context, f *figures, key figureKey, fresh time.Duration, produce func(context.Context) (T, error)) Made[T] {
	return waitFor[T](ctx, f, f.ask(key, fresh, func(ctx context.Context) (any, error) { return produce(ctx) }), fresh)
}

// waitFor is like figureOf, for a figure that was already requested.
func waitFor[T any](ctx context.Context, f *figures, one *figure, fresh time.Duration) Made[T] {
	f.mu.Lock()
	first := one.at.IsZero() && one.err == nil
	wanted, made, within := fresh <= 0 || first, one.made, figureWait
	if fresh == 0 && first {
		within = max(figureWait, answerWait-f.clock().Sub(one.since))
	}
	f.mu.Unlock()
	if wanted && made != nil {
		wait := time.NewTimer(within)
		defer wait.Stop()
		select {
		case <-made:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one.owed = one.owed || !one.since.IsZero()
	return madeOf[T](one)
}

func madeOf[T any](one *figure) Made[T] {
	out := Made[T]{At: one.at, Began: one.began, Since: one.since}
	if value, ok := one.value.(T); ok {
		out.Value = value
	}
	if one.err != nil {
		out.Err = one.err.Error()
	}
	return out
}

// peek returns a figure without computing it. asked is false if the figure was never requested.
func peek[T any](f *figures, key figureKey) (m Made[T], asked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.all[key]
	if one == nil {
		return m, false
	}
	one.asked, one.owed = f.clock(), one.owed || !one.since.IsZero()
	return madeOf[T](one), true
}

// ask returns a figure. It starts a computation if the value is older than fresh and the pause
// has passed, or always if fresh is negative.
func (f *figures) ask(key figureKey, fresh time.Duration, produce func(context.Context) (any, error)) *figure {
	return f.start(key, fresh, false, produce)
}

// askReply is like ask, for a runner's answer. The limit figuresAtOnce does not apply.
func (f *figures) askReply(key figureKey, fresh time.Duration, produce func(context.Context) (any, error)) *figure {
	return f.start(key, fresh, true, produce)
}

func (f *figures) start(key figureKey, fresh time.Duration, reply bool, produce func(context.Context) (any, error)) *figure {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock()
	for other, x := range f.all {
		if x.since.IsZero() && now.Sub(x.asked) > figureKept {
			delete(f.all, other)
		}
	}
	one := f.all[key]
	if one == nil {
		one = &figure{reply: reply}
		f.all[key] = one
	}
	one.asked = now
	age := now.Sub(one.tried)
	if !one.since.IsZero() || f.ctx.Err() != nil || fresh >= 0 && age >= 0 && age < max(fresh, one.pause()) {
		return one
	}
	one.since, one.made = now, make(chan struct{})
	f.work.Go(func() { f.make(one, produce) })
	return one
}

// pause returns how long after a computation the figure is not computed again. The pause
// limits the share of time that goes into the figure, and is shorter after a failure.
func (one *figure) pause() time.Duration {
	switch {
	case one.took < quick:
		return 0
	case one.err != nil:
		return failedShare * one.took
	case one.took < brief:
		return min(figureShare*one.took, briefly)
	}
	return figureShare * one.took
}

// expire marks an account's figures as outdated after a person's change. The next request
// computes them again without a pause. A value whose computation began before the change
// counts as outdated, too.
func (f *figures) expire(account string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, one := range f.all {
		if key.account == account {
			one.tried, one.took, one.outdated = time.Time{}, 0, !one.since.IsZero()
		}
	}
}

func (f *figures) make(one *figure, produce func(context.Context) (any, error)) {
	ctx, cancel := context.WithTimeout(f.ctx, figureWithin)
	defer cancel()
	var value any
	var err error
	began, asked := time.Now(), f.clock()
	if one.reply {
		value, err = produce(ctx)
	} else {
		select {
		case f.turn <- struct{}{}:
			began, asked = time.Now(), f.clock()
			value, err = produce(ctx)
			<-f.turn
		case <-ctx.Done():
			err = errors.New("the runner ends")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one.err, one.took, one.since = err, time.Since(began), time.Time{}
	one.tried = f.clock()
	if err == nil {
		one.value, one.at, one.began = value, one.tried, asked
	}
	if one.outdated {
		one.tried, one.took, one.outdated = time.Time{}, 0, false
	}
	close(one.made)
	one.made = nil
	if one.owed { // otherwise no page waits for the value
		one.owed = false
		f.told++
		close(f.more)
		f.more = make(chan struct{})
	}
}
