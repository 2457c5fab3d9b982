// `perennial bench --open-pages`: people who look at the pages of the runner while it works.

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/web"
)

// mostOpenPages is how many pages may be open at most; the pages' own bound is 200.
const mostOpenPages = 100

// pagesResult is what `bench --open-pages` prints: the same commands once more, with pages
// open.
type pagesResult struct {
	Open      int     `json:"open"`
	PerSecond float64 `json:"runner_per_second"`
	Ratio     float64 `json:"ratio"` // to the runner alone, in the same run
	CPUMicros float64 `json:"runner_cpu_us_per_command"`
	pagesLoaded
}

// pagesLoaded says how often pages were loaded, and how long one took.
type pagesLoaded struct {
	Loaded    int     `json:"loaded"`
	P50Millis float64 `json:"p50_ms"`
	P99Millis float64 `json:"p99_ms"`
}

// watched is the same runner, with pages open.
func (b *bench) watched(ctx context.Context, out *benchResult) error {
	part := b.parts() - 1
	if b.outer != nil {
		part--
	}
	got, err := b.runner(ctx, load{config: b.config(), accounts: b.accountNames(), part: part, name: "pages.", pages: b.openPages})
	if err != nil {
		return err
	}
	out.Pages = &pagesResult{Open: b.openPages, PerSecond: got.perSecond, Ratio: got.perSecond / out.RunnerPerSecond, CPUMicros: got.cpuMicros, pagesLoaded: *got.pages}
	out.WalletCents, out.BooksAgree = got.walletCents, out.BooksAgree && got.booksAgree
	return nil
}

// logins are one-time links to the pages of a runner.
func logins(h *daemon.Host, n int) (links []string, err error) {
	if n == 0 {
		return nil, nil
	}
	key, err := web.Key(daemon.KeyFile(h.Config.DataDir), false)
	if err != nil {
		return nil, err
	}
	for i := range n {
		p := web.Person{Name: fmt.Sprintf("reader-%d", i+1), Role: web.Viewer}
		links = append(links, h.Ready().HTTP+"/login?code="+url.QueryEscape(web.Link(key, p, time.Now())))
	}
	return links, nil
}

// reader is a person with one page open.
type reader struct {
	client *http.Client
	page   string
	events io.ReadCloser
	took   []time.Duration
}

// openPages signs in by each link and opens a page, which is loaded again whenever the
// runner says that something has changed, as the script of a page does. What it returns
// closes them.
func openPages(ctx context.Context, links, accounts []string) (end func() (*pagesLoaded, error), err error) {
	ctx, cancel := context.WithCancel(ctx)
	all := make([]*reader, 0, len(links))
	for i, link := range links {
		r, err := openPage(ctx, link, accounts[i%len(accounts)], i)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("open a page: %w", err)
		}
		all = append(all, r)
	}
	var reading sync.WaitGroup
	failed := make([]error, len(all))
	for i, r := range all {
		reading.Go(func() { failed[i] = r.follow(ctx) })
	}
	return func() (*pagesLoaded, error) {
		cancel()
		reading.Wait()
		var took []time.Duration
		for _, r := range all {
			took = append(took, r.took...)
		}
		err := errors.Join(failed...)
		if len(took) == 0 { // none is open
			return nil, err
		}
		slices.Sort(took)
		millis := func(p int) float64 { return float64(took[len(took)*p/100].Microseconds()) / 1000 }
		return &pagesLoaded{Loaded: len(took), P50Millis: millis(50), P99Millis: millis(99)}, err
	}, nil
}

// openPage signs in, and hears of changes.
func openPage(ctx context.Context, link, account string, n int) (*reader, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(link)
	if err != nil {
		return nil, err
	}
	pages := []string{"/", "/a/" + account + "/operations", "/a/" + account + "/money", "/a/" + account + "/proxies"}
	base := at.Scheme + "://" + at.Host
	r := &reader{client: &http.Client{Jar: jar}, page: base + pages[n%len(pages)]}
	if _, err := r.get(ctx, link); err != nil {
		return nil, err
	}
	response, err := r.ask(ctx, base+"/changes") //nolint:bodyclose // follow closes it
	if err != nil {
		return nil, err
	}
	r.events = response.Body
	took, err := r.get(ctx, r.page)
	r.took = append(r.took, took)
	return r, err
}

// follow loads the page again at each change, until ctx ends.
func (r *reader) follow(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, r.events.Close()) }()
	lines := bufio.NewScanner(r.events)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "event: changed") {
			continue
		}
		took, err := r.get(ctx, r.page)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		r.took = append(r.took, took)
	}
	if ctx.Err() != nil {
		return nil
	}
	return lines.Err()
}

// get loads a page whole.
func (r *reader) get(ctx context.Context, address string) (took time.Duration, err error) {
	begin := time.Now()
	response, err := r.ask(ctx, address)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return time.Since(begin), errors.Join(err, response.Body.Close())
}

func (r *reader) ask(ctx context.Context, address string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s answers %s", request.URL.Path, response.Status), response.Body.Close())
	}
	return response, nil
}
