// Figures are values that are slow to compute, such as a sum over every entry. They are computed
// in the background, once for all readers. A page shows the last value with its time. If a
// runner does not answer quickly, the page shows the runner's last answer in the same way.
// Server-sent events tell an open page to reload.

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/schedules"
)

const (
	// figureWait is the longest time that a page waits for a new value of a figure.
	figureWait = 25 * time.Millisecond
	// answerWait limits a page's wait for a runner's first answer. It begins when the runner is
	// asked.
	answerWait = time.Second
	// figureWithin limits the time to compute a figure.
	figureWithin = 5 * time.Minute
	// figureShare is a factor: the pause after a computation is this many times as long as the
	// computation. Computing a figure therefore takes at most a twentieth of the time.
	figureShare = 20
	// quick is the longest computation that needs no pause.
	quick = 20 * time.Millisecond
	// failedShare replaces figureShare after a failure, because the cause may soon be gone.
	failedShare = 3
	// figureKept is the time that a figure is kept after its last request.
	figureKept = 15 * time.Minute
	// figuresAtOnce limits the figures that are computed concurrently.
	figuresAtOnce = 2
)

type figureKey struct{ account, name string }

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

// edition returns how many times pages have been notified that a figure is ready.
func (f *figures) edition() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told
}

// next returns a channel that closes when pages are notified that another figure is ready.
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

// figureOf returns the figure with this key. The produce function computes the figure.
//
// If the value is older than fresh, and the pause after the last computation has passed, a new
// computation starts, and figureOf returns the older value. If there is no value yet, or fresh
// is 0, figureOf waits briefly for the new value. If fresh is negative, it always starts a
// computation and waits briefly.
func figureOf[T any](ctx context.Context, f *figures, key figureKey, fresh time.Duration, produce func(context.Context) (T, error)) Made[T] {
	return waitFor[T](ctx, f, f.start(key, fresh, false, func(ctx context.Context) (any, error) { return produce(ctx) }), fresh)
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
		await(ctx, made, within)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	one.owed = one.owed || !one.since.IsZero()
	return madeOf[T](one)
}

func await(ctx context.Context, made <-chan struct{}, within time.Duration) {
	wait := time.NewTimer(within)
	defer wait.Stop()
	select {
	case <-made:
	case <-wait.C:
	case <-ctx.Done():
	}
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

// peek returns a figure without computing it. If the figure was never requested, asked is false.
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

// start returns a figure. It starts a computation if the value is older than fresh and the pause
// has passed. If fresh is negative, it always starts a computation. reply means that the figure
// is a runner's answer.
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

// pause returns the time after a computation during which the figure is not computed again. The
// pause limits the share of time that computing the figure takes. It is shorter after a failure.
func (one *figure) pause() time.Duration {
	switch {
	case one.took < quick:
		return 0
	case one.err != nil:
		return failedShare * one.took
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
			if err = errors.New("the runner ends"); f.ctx.Err() == nil {
				err = fmt.Errorf("it could not be computed within %s, because others took longer", figureWithin)
			}
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

// askWithin limits a page's wait for a runner's answer.
const askWithin = 3 * time.Second

// ErrNoAnswer means that Account.Ask got no answer in time. A requested change may have been
// made, or may still be made.
var ErrNoAnswer = errors.New("the runner has not answered in time")

// ErrUnconfirmed means that Account.Ask was refused because the change looks like a mistake. To
// make the change, repeat the request with a confirmation.
var ErrUnconfirmed = errors.New("this has to be confirmed")

func ask[Q, A any](ctx context.Context, a Account, v verbs.Verb[Q, A], question Q) (answer A, err error) {
	err = a.Ask(ctx, v.Name, question, &answer)
	return answer, err
}

// askNow returns a runner's answer to a service request that changes nothing. The answer is
// cached by service request and account, not by question, so all pages must ask the same
// question.
func askNow[Q, T any](ctx context.Context, f *figures, a Account, v verbs.Verb[Q, T], question Q) Made[T] {
	return waitFor[T](ctx, f, begin(f, a, v, question, 0), 0)
}

// begin sends a service request without waiting, unless the last answer is fresh enough, as in
// figureOf. A later askNow returns the answer.
func begin[Q, T any](f *figures, a Account, v verbs.Verb[Q, T], question Q, fresh time.Duration) *figure {
	return f.start(figureKey{a.AccountName(), v.Name}, fresh, true, func(ctx context.Context) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		defer cancel()
		return ask(ctx, a, v, question)
	})
}

// sweeps returns the status of an account's schedules. Plans and pauses are those that the
// ledger has now. problem says why the other values are unknown or outdated. problem is "" if
// the other values are current.
func (s *insight) sweeps(ctx context.Context, a Account) (all []schedules.Status, problem string, err error) {
	made := askNow(ctx, s.figures, a, verbs.Sweeps, struct{}{})
	all, outdated, err := refresh(ctx, a, s.Clock(), made.Value, made.Known())
	if err == nil && outdated && made.problem() == "" {
		made = waitFor[[]schedules.Status](ctx, s.figures, begin(s.figures, a, verbs.Sweeps, struct{}{}, -1), -1)
		all, _, err = refresh(ctx, a, s.Clock(), made.Value, made.Known())
	}
	return all, made.problem(), err
}

// problem returns why there is no current answer. It returns "" if there is a current answer.
func (m Made[T]) problem() string {
	switch {
	case m.Err != "":
		return m.Err
	case !m.Known():
		return "its runner has not answered yet"
	}
	return ""
}

const (
	// liveEvery is the interval at which a growing ledger notifies a page.
	liveEvery = 800 * time.Millisecond
	// liveBeat is the interval of heartbeats to a page.
	liveBeat = 10 * time.Second
	// maxLive limits the open pages of all people. maxOwn limits the open pages of one person.
	maxLive = 200
	maxOwn  = 20
)

type livePages struct {
	*Config
	insight *insight
	auth    *auth
	live    openPages
	server  context.Context //nolint:containedctx // ends when the server stops, which would otherwise wait for open pages
}

// changes notifies an open page when the ledger of a visible account has grown, or a figure
// is ready. In a browser without server-sent events, the person must reload the page.
func (s *livePages) changes(w http.ResponseWriter, r *http.Request, x session) {
	if !s.live.open(x.Name) {
		http.Error(w, "too many open pages", http.StatusServiceUnavailable)
		return
	}
	defer s.live.close(x.Name)
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Time{}); err != nil {
		http.Error(w, "this connection cannot be kept open", http.StatusNotImplemented)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	ctx, cancel := context.WithTimeout(r.Context(), x.Expires.Sub(s.Clock()))
	defer cancel()
	defer context.AfterFunc(s.server, cancel)()
	grown := make(chan struct{}, 1)
	for _, a := range s.Accounts {
		if x.MaySee(a.AccountName()) {
			seq, _, err := a.Ledger().Head(ctx) // read before the first event is sent, so that the page misses no change
			if err != nil {
				return // the browser reconnects
			}
			go s.watch(ctx, a, seq, grown)
		}
	}
	beat := time.NewTicker(liveBeat)
	defer beat.Stop()
	for said := "hello"; ; {
		made := s.insight.figures.next()
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", said, s.insight.edition(ctx, x.Person)); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-grown:
			said = "changed"
		case <-made:
			said = "changed"
		case <-beat.C:
			said = "beat"
		case <-ctx.Done():
			return
		}
		now, lasts, err := s.auth.current(r)
		if !lasts || err != nil || !reflect.DeepEqual(now.Person, x.Person) { // the person has signed out, or their role has changed
			return
		}
	}
}

// edition identifies the state that a page shows: the last rows of the visible ledgers, the
// number of dead letters, and the computed figures. No ledger contains the dead letters. A page
// contains the edition that was current before the page read its data. The page therefore also
// notices a change that happened before it received its first event.
func (s *insight) edition(ctx context.Context, p Person) string {
	all := []byte(strconv.FormatInt(s.figures.edition(), 10))
	for _, a := range s.Accounts {
		if p.MaySee(a.AccountName()) {
			seq, _, _ := a.Ledger().Head(ctx) // the page itself reports an unreadable ledger
			all = strconv.AppendInt(append(all, '.'), seq, 10)
			all = strconv.AppendInt(append(all, '-'), s.lastLetterCount(a), 10)
		}
	}
	return string(all)
}

// lettersFresh is the age of the number of dead letters at which the number is read again.
const lettersFresh = 5 * time.Second

// lastLetterCount returns the last known number of an account's dead letters. It returns 0 if
// the number is unknown.
func (s *insight) lastLetterCount(a Account) int64 {
	one := s.figures.start(figureKey{a.AccountName(), "letters"}, lettersFresh, true, func(ctx context.Context) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, lettersWithin)
		defer cancel()
		return a.CountLetters(ctx)
	})
	s.figures.mu.Lock()
	made, first := one.made, one.at.IsZero()
	s.figures.mu.Unlock()
	if first && made != nil { // wait briefly for the first number, because a later change from 0 would reload the page
		await(s.figures.ctx, made, figureWait)
	}
	s.figures.mu.Lock()
	defer s.figures.mu.Unlock()
	return madeOf[int64](one).Value
}

// watch signals when an account's ledger has grown beyond seq. While the ledger keeps
// growing, watch signals once per liveEvery.
func (s *livePages) watch(ctx context.Context, a Account, seq int64, grown chan<- struct{}) {
	pause := time.NewTicker(liveEvery)
	defer pause.Stop()
	for {
		select {
		case <-a.Ledger().Changed(seq):
		case <-ctx.Done():
			return
		}
		if head, _, err := a.Ledger().Head(ctx); err == nil {
			seq = head
			select {
			case grown <- struct{}{}:
			default:
			}
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

type openPages struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

// open counts another open page. It returns false if a limit is reached.
func (o *openPages) open(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all >= maxLive || o.of[name] >= maxOwn {
		return false
	}
	if o.of == nil {
		o.of = map[string]int{}
	}
	o.all++
	o.of[name]++
	return true
}

func (o *openPages) close(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all--
	if o.of[name]--; o.of[name] == 0 {
		delete(o.of, name)
	}
}
