// Figures that take long to compute, such as a sum over every entry. They are computed
// in the background, once for all requests. A page shows the last values with their
// time.

package web

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

const (
	// figureWait is how long a page waits for a figure without a value.
	figureWait = 25 * time.Millisecond
	// answerWait is how long a page waits for a runner's first answer.
	answerWait = time.Second
	// figureWithin bounds the computation of a figure.
	figureWithin = 5 * time.Minute
	// figureShare bounds the share of time spent on one figure: a hundredth.
	figureShare = 100
	// quick is what needs no pause, and brief what is made again after briefly at the latest.
	quick   = 20 * time.Millisecond
	brief   = 500 * time.Millisecond
	briefly = 5 * time.Second
	// failedShare is the share after a failure, which may be transient.
	failedShare = 3
	// figureKept is how long a figure is kept after the last request for it.
	figureKept = 15 * time.Minute
	// figuresAtOnce is how many figures are computed concurrently.
	figuresAtOnce = 2
)

// figures holds the computed values, by name.
type figures struct {
	clock func() time.Time
	ctx   context.Context //nolint:containedctx // of the process: a figure outlives the page that asked first
	end   context.CancelFunc
	work  sync.WaitGroup
	turn  chan struct{}

	mu   sync.Mutex
	all  map[string]*figure
	more chan struct{} // closed when one has been made
	told int64         // how often that was
}

// figure is one value.
type figure struct {
	value any
	err   error
	at    time.Time // when it had been made; zero: never
	tried time.Time // when that was tried last
	took  time.Duration
	since time.Time     // when its making began; zero: it is not being made
	made  chan struct{} // closed when that has ended
	asked time.Time
	owed  bool // a page was shown without it: pages hear when it has been made
}

func newFigures(clock func() time.Time) *figures {
	ctx, end := context.WithCancel(context.Background())
	return &figures{clock: clock, ctx: ctx, end: end, turn: make(chan struct{}, figuresAtOnce), all: map[string]*figure{}, more: make(chan struct{})}
}

// close ends what is being made.
func (f *figures) close() {
	f.end()
	f.work.Wait()
}

// edition returns how many figures with waiting pages were completed.
func (f *figures) edition() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told
}

// next returns a channel that closes when the next figure is completed.
func (f *figures) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.more
}

// Made is a figure for a page.
type Made[T any] struct {
	Value T
	At    time.Time // when it had been made; zero: it has not been yet
	Since time.Time // a newer one is being made since; zero: none is
	Err   string    // why the last attempt failed; Value is the earlier one
}

// Known reports whether there is a value.
func (m Made[T]) Known() bool { return !m.At.IsZero() }

// Pending reports whether the page must reload for a value.
func (m Made[T]) Pending() bool { return m.At.IsZero() && m.Err == "" }

// figureOf returns a figure at most fresh old, or older if its computation takes more
// than a hundredth of that time. It returns an old value while a new one is computed.
// Without a value, or with fresh 0 (now), it waits briefly.
func figureOf[T any](ctx context.Context, f *figures, name string, fresh time.Duration, produce func(context.Context) (T, error)) Made[T] {
	one := f.ask(name, fresh, func(ctx context.Context) (any, error) { return produce(ctx) })
	f.mu.Lock()
	first := one.at.IsZero() && one.err == nil
	wanted, made, within := fresh == 0 || first, one.made, figureWait
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
	out := Made[T]{At: one.at, Since: one.since}
	if value, ok := one.value.(T); ok {
		out.Value = value
	}
	if one.err != nil {
		out.Err = one.err.Error()
	}
	return out
}

// peek returns the figure without computing it; asked is false if it was never
// requested.
func peek[T any](f *figures, name string) (m Made[T], asked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.all[name]
	if one == nil {
		return m, false
	}
	one.asked, one.owed = f.clock(), one.owed || !one.since.IsZero()
	return madeOf[T](one), true
}

// ask is the figure of a name; a new one is begun where it is older than fresh, and with
// a negative fresh whatever its age.
func (f *figures) ask(name string, fresh time.Duration, produce func(context.Context) (any, error)) *figure {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock()
	for other, x := range f.all {
		if x.since.IsZero() && now.Sub(x.asked) > figureKept {
			delete(f.all, other)
		}
	}
	one := f.all[name]
	if one == nil {
		one = &figure{}
		f.all[name] = one
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

// pause is how long it is not made again: so that it takes its share of the time, or shorter
// after a failure.
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

// expire has an account's figures recomputed at their next request, whatever that costs,
// because somebody changed something.
func (f *figures) expire(account string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, one := range f.all {
		if strings.HasSuffix(name, " "+account) {
			one.tried, one.took = time.Time{}, 0
		}
	}
}

func (f *figures) make(one *figure, produce func(context.Context) (any, error)) {
	ctx, cancel := context.WithTimeout(f.ctx, figureWithin)
	defer cancel()
	var value any
	var err error
	began := time.Now()
	select {
	case f.turn <- struct{}{}:
		began = time.Now()
		value, err = produce(ctx)
		<-f.turn
	case <-ctx.Done():
		err = errors.New("the runner ends")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one.err, one.took, one.since = err, time.Since(began), time.Time{}
	one.tried = f.clock()
	if err == nil {
		one.value, one.at = value, one.tried
	}
	close(one.made)
	one.made = nil
	if one.owed { // what every page waited for is news to none
		one.owed = false
		f.told++
		close(f.more)
		f.more = make(chan struct{})
	}
}
