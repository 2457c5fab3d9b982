package listing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perennial/ledger"
	"perennial/ledger/tables"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// faulty intercepts the lister's requests. If before returns an error, the provider gets no
// request.
type faulty struct {
	Provider
	before func(r upstream.PageRequest) error
	after  func(r upstream.PageRequest, p upstream.Page[upstream.Proxy])
	calls  []upstream.PageRequest
}

func (f *faulty) ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	f.calls = append(f.calls, r)
	if f.before != nil {
		if err := f.before(r); err != nil {
			return upstream.Page[upstream.Proxy]{}, err
		}
	}
	page, err := f.Provider.ProxiesPage(ctx, r)
	if f.after != nil {
		f.after(r, page)
	}
	return page, err
}

func refused(code upstream.Code) error { return &upstream.Error{HTTPStatus: 400, Code: code} }

// bulk returns a lister on the real sandbox with 450 proxies: three pages of at most 200.
func bulk(t testing.TB) (*Lister, *faulty, *watch) {
	t.Helper()
	w := &watch{now: noon}
	fixture := sandbox.DefaultFixture()
	fixture.Proxies = []sandbox.FixtureProxy{{
		Count: 450, Prefix: "px_", AccountID: sandbox.DemoAccountID, Environment: "sandbox", OfferCode: "off_us_dallas", ExpiresIn: "24h..240h",
	}}
	f := &faulty{Provider: clientOf(t, w, fixture)}
	return New(Config{
		Ledger: openLedger(t, filepath.Join(t.TempDir(), "main.ledger.db"), w.Now), Provider: f, Clock: w.Now,
	}), f, w
}

// shown lists the ledger's proxies that are not gone.
func shown(t testing.TB, l *ledger.Ledger) (ids []string) {
	t.Helper()
	check(t, l.Fleet.Expiring(t.Context(), noon.AddDate(10, 0, 0), func(p tables.Proxy) error {
		ids = append(ids, p.ProxyID)
		return nil
	}))
	return ids
}

func TestAListingShowsEveryProxyOnceAndGatesEveryPage(t *testing.T) {
	l, f, w := bulk(t)
	passed := 0
	l.Pass = func(context.Context) error { passed++; return nil }
	fresh := func(within time.Duration) bool {
		t.Helper()
		is, err := l.Fresh(t.Context(), within)
		check(t, err)
		return is
	}
	if fresh(time.Hour) {
		t.Fatal("fresh before the first pass")
	}
	check(t, l.WaitPass(t.Context()))
	want(t, "proxies", len(shown(t, l.Ledger)), 450)
	want(t, "pages", len(f.calls), 3)
	want(t, "passed", passed, 3)
	w.add(9 * time.Minute)
	if !fresh(10*time.Minute) || fresh(9*time.Minute) {
		t.Fatal("freshness is not the age of the pass")
	}
}

func TestTrap31AbsenceCountsOnlyAfterACompletePass(t *testing.T) {
	l, f, w := bulk(t)
	expires := noon.Add(time.Hour)
	check(t, l.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Observe(1, tables.Proxy{ProxyID: "px_sold", ExpiresAt: &expires, SeenAt: noon})
	}))
	w.add(time.Minute)
	f.before = func(_ upstream.PageRequest) error {
		if len(f.calls) == 3 {
			return refused(upstream.CodeInsufficientScope) // ends the pass
		}
		return nil
	}
	wantErr(t, l.WaitPass(t.Context()), upstream.CodeInsufficientScope)
	want(t, "proxies after a pass that broke off", len(shown(t, l.Ledger)), 401)

	f.calls, f.before = nil, func(upstream.PageRequest) error {
		if len(f.calls) == 2 {
			return refused(upstream.CodeInvalidPageToken)
		}
		return nil
	}
	check(t, l.WaitPass(t.Context()))
	want(t, "first page after the refused token", f.calls[2], upstream.PageRequest{Size: 200})
	want(t, "proxies, once each, and the one that is not listed", len(shown(t, l.Ledger)), 451)
	sold, err := l.Ledger.Fleet.Proxy(t.Context(), "px_sold")
	check(t, err)
	want(t, "unlisted since", sold.UnlistedAt, new(w.Now()))
}

func TestABrokenOffPassContinuesInTheNextProcess(t *testing.T) {
	l, f, w := bulk(t)
	f.before = func(upstream.PageRequest) error {
		if len(f.calls) >= 3 {
			return &upstream.TransportError{Err: errors.New("reset")}
		}
		return nil
	}
	crash, cancel := context.WithCancel(t.Context())
	l.Pass = func(context.Context) error {
		if len(f.calls) == 2 {
			cancel() // the process ends before its third page
		}
		return crash.Err()
	}
	wantErr(t, l.WaitPass(crash), context.Canceled)

	w.add(time.Minute)
	again := New(Config{Ledger: l.Ledger, Provider: f, Clock: w.Now})
	third, before := "", f.calls[1].Token
	f.before = func(r upstream.PageRequest) error { third = r.Token; return nil }
	check(t, again.WaitPass(t.Context()))
	want(t, "pages of both processes", len(f.calls), 3)
	if third == "" || third == before {
		t.Fatalf("it went on at %q after %q", third, before)
	}
	want(t, "proxies", len(shown(t, l.Ledger)), 450)
	at, err := l.Ledger.Fleet.Listing(t.Context())
	check(t, err)
	want(t, "the pass began", at.Finished.Sub(noon), at.Took)
}

func TestALongPassIsFreshForTwiceItsTime(t *testing.T) {
	l, f, w := bulk(t)
	f.after = func(upstream.PageRequest, upstream.Page[upstream.Proxy]) { w.add(9 * time.Minute) }
	check(t, l.WaitPass(t.Context()))
	w.add(53 * time.Minute)
	restarted := New(Config{Ledger: l.Ledger, Provider: f, Clock: w.Now})
	fresh, err := restarted.Fresh(t.Context(), 10*time.Minute)
	check(t, err)
	w.add(2 * time.Minute)
	stale, err := restarted.Fresh(t.Context(), 10*time.Minute)
	check(t, err)
	if !fresh || stale {
		t.Fatalf("a pass of 27 minutes is fresh: %v after 53, %v later", fresh, stale)
	}
}

func TestAListingThatNeverEndsIsGivenUp(t *testing.T) {
	l, f, _ := bulk(t)
	f.before = func(r upstream.PageRequest) error {
		if r.Token != "" {
			return refused(upstream.CodeInvalidPageToken)
		}
		return nil
	}
	wantErr(t, l.WaitPass(t.Context()), upstream.CodeInvalidPageToken)
	want(t, "pages asked for", len(f.calls), 2*4)

	l.Provider = loop{}
	wantErr(t, l.WaitPass(t.Context()), upstream.ErrPageLoop)
	if fresh, err := l.Fresh(t.Context(), time.Hour); fresh || err != nil {
		t.Fatalf("a pass without an end counts as complete (%v)", err)
	}
}

type loop struct{}

func (loop) ProxiesPage(context.Context, upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	return upstream.Page[upstream.Proxy]{HasMore: true, NextPageToken: "again"}, nil
}

// The server sets the largest page, which has at least one proxy.
func TestTrap53AProviderOfSmallPagesIsListed(t *testing.T) {
	for _, most := range []int{1, 7, 50, 120} {
		served := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served++
			first, _ := strconv.Atoi(r.URL.Query().Get("page_token"))
			size := min(most, 20) // the provider's own size
			if asked, err := strconv.Atoi(r.URL.Query().Get("page_size")); err == nil {
				size = asked
			}
			fmt.Fprint(w, smallPage(first, size, most, 30))
		}))
		client, err := upstream.New(upstream.Config{BaseURL: server.URL, AppID: "sbx_app_test", Secret: "secret", Clock: time.Now})
		check(t, err)
		l := New(Config{Provider: client, Clock: time.Now, Ledger: openLedger(t, filepath.Join(t.TempDir(), "main.ledger.db"), time.Now)})
		check(t, l.WaitPass(t.Context()))
		want(t, fmt.Sprintf("proxies, %d a page", most), len(shown(t, l.Ledger)), 30)
		first := served
		check(t, l.WaitPass(t.Context()))
		if again := served - first; again > first-1 {
			t.Errorf("%d a page: %d requests, then %d: what works is not remembered", most, first, again)
		}
		client.Close()
		server.Close()
	}
}

// smallPage returns one page of a list of n proxies.
func smallPage(first, size, most, n int) string {
	if size > most {
		return `{"success":false,"code":"validation_error","message":"m","data":{"errors":{"page_size":["too large"]}},"timestamp":"2026-11-21T12:00:01Z","trace_id":"t"}`
	}
	items, last := []string{}, min(first+size, n)
	for i := first; i < last; i++ {
		items = append(items, fmt.Sprintf(`{"proxy_id":"px_%d","expires_at":"2027-01-01T00:00:00Z"}`, i))
	}
	return fmt.Sprintf(`{"success":true,"code":"ok","message":"m","data":{"list":[%s],"notices":[{"text":"new"}],"page_size":%d,"has_more":%t,"next_page_token":"%d"},"timestamp":"2026-11-21T12:00:01Z","trace_id":"t"}`,
		strings.Join(items, ","), size, last < n, last)
}

func TestAPageAskedForBeforeARenewalIsNotBelieved(t *testing.T) {
	l, f, w := bulk(t)
	f.after = func(upstream.PageRequest, upstream.Page[upstream.Proxy]) {
		if len(f.calls) == 1 {
			w.add(time.Second)
			renewal(t, l.Ledger, 1, "px_1", "succeeded", 300, noon)
		}
	}
	check(t, l.WaitPass(t.Context()))
	p, err := l.Ledger.Fleet.Proxy(t.Context(), "px_1")
	check(t, err)
	want(t, "px_1 must be read again", p.SeenAt.UnixMicro(), int64(0))
	want(t, "and is not gone", len(shown(t, l.Ledger)), 450)
}

func TestALimitedListingWaitsAndGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var waits []time.Duration
		answers := []error{
			&upstream.Error{HTTPStatus: 429, Code: upstream.CodeRateLimited, RetryAfter: upstream.RetryAfter{Present: true, Valid: true, Delay: 40 * time.Second}},
			&upstream.Error{HTTPStatus: 429, Code: upstream.CodeRateLimited},
			&upstream.TransportError{Err: errors.New("reset")},
			nil,
		}
		l := New(Config{Provider: fake(func(upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
			waits = append(waits, time.Since(began))
			err := answers[0]
			answers = answers[1:]
			return upstream.Page[upstream.Proxy]{}, err
		}), Clock: time.Now, Ledger: openLedger(t, filepath.Join(t.TempDir(), "main.ledger.db"), time.Now)})
		check(t, l.WaitPass(t.Context()))
		want(t, "requests", waits, []time.Duration{0, 40 * time.Second, 50 * time.Second, 51 * time.Second})
		check(t, l.Ledger.Close())
	})
}

type fake func(r upstream.PageRequest) (upstream.Page[upstream.Proxy], error)

func (f fake) ProxiesPage(_ context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	return f(r)
}

// If no slot needs a fresh listing, a restarted lister waits until the last listing is old.
func TestASeldomListingIsNotMadeAgainByARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		passes, counted := make(chan time.Duration, 9), 0
		config := Config{Provider: fake(func(upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
			passes <- time.Since(began)
			return upstream.Page[upstream.Proxy]{}, nil
		}), Clock: time.Now, Every: time.Hour, Ledger: openLedger(t, filepath.Join(t.TempDir(), "main.ledger.db"), time.Now)}
		for _, at := range []time.Duration{0, time.Hour} {
			l := New(config)
			l.Whole = func(context.Context) { counted++ }
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- l.Run(ctx) }()
			<-l.tried
			want(t, "a pass", <-passes, at)
			time.Sleep(10 * time.Minute)
			cancel()
			wantErr(t, <-done, context.Canceled)
		}
		want(t, "counted", counted, 3)
	})
}

func TestTheListerKeepsItsCadenceAndItsNumbersRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		passes := make(chan time.Duration)
		made := 0
		l := New(Config{Provider: fake(func(upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
			passes <- time.Since(began)
			if made++; made > 2 {
				return upstream.Page[upstream.Proxy]{}, refused(upstream.CodeAPIKeyRevoked)
			}
			return upstream.Page[upstream.Proxy]{}, nil
		}), Clock: time.Now, Ledger: openLedger(t, filepath.Join(t.TempDir(), "main.ledger.db"), time.Now)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		got := []time.Duration{<-passes, <-passes, <-passes, <-passes}
		synctest.Wait() // the last listing is stored
		cancel()
		wantErr(t, <-done, context.Canceled)
		want(t, "passes", got, []time.Duration{0, 5 * time.Minute, 10 * time.Minute, 10*time.Minute + 5*time.Second})
		last, err := l.Ledger.Fleet.Listing(t.Context())
		check(t, err)
		want(t, "number", last.Pass, began.Add(10*time.Minute+5*time.Second).UnixMicro())
		l.Clock = func() time.Time { return began } // the clock is set back
		l.Provider = fake(func(upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
			return upstream.Page[upstream.Proxy]{}, nil
		})
		check(t, l.WaitPass(t.Context()))
		next, err := l.Ledger.Fleet.Listing(t.Context())
		check(t, err)
		want(t, "the next number", next.Pass, last.Pass+1)
		check(t, l.Ledger.Close())
	})
}

func TestWaitPassEndsWithItsContext(t *testing.T) {
	l, _, _ := bulk(t)
	l.turn <- struct{}{} // another pass is in progress
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, l.WaitPass(ctx), context.Canceled)
	<-l.turn
	l.Pass = func(context.Context) error { return fmt.Errorf("the gate: %w", context.DeadlineExceeded) }
	wantErr(t, l.WaitPass(t.Context()), context.DeadlineExceeded)
}
