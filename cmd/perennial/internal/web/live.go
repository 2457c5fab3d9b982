// Server-sent events: that something has changed, so that an open page is loaded again.

package web

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"
)

const (
	// liveEvery is the least time between two words to one page.
	liveEvery = 800 * time.Millisecond
	// liveBeat is how often a page hears that the server lives.
	liveBeat = 10 * time.Second
	// maxLive bounds the open pages of all people, maxOwn those of one.
	maxLive = 200
	maxOwn  = 20
)

// changes tells an open page when the ledger of an account that its person may see has
// grown, or a figure has been made in the background. The page is what it was otherwise: without it a person loads it again.
func (s *Server) changes(w http.ResponseWriter, r *http.Request, x session) {
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
	grown := make(chan struct{}, 1)
	for _, a := range s.Accounts {
		if x.MaySee(a.AccountName()) {
			seq, _, err := a.Ledger().Head(ctx) // before the page hears that it is followed
			if err != nil {
				return // an ended stream is asked for again
			}
			go s.watch(ctx, a, seq, grown)
		}
	}
	beat := time.NewTicker(liveBeat)
	defer beat.Stop()
	for said := "hello"; ; {
		made := s.figures.next()
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", said, s.edition(ctx, x.Person)); err != nil || control.Flush() != nil {
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
		now, lasts, err := s.current(r)
		if !lasts || err != nil || !reflect.DeepEqual(now.Person, x.Person) { // signed out meanwhile, or another role
			return
		}
	}
}

// edition names what a page is made of: the heads of the ledgers that a person may see, and
// the figures that were made. A page carries the one from before it was read, so that what
// happens until its changes are followed is not missed.
func (s *Server) edition(ctx context.Context, p Person) string {
	all := []byte(strconv.FormatInt(s.figures.edition(), 10))
	for _, a := range s.Accounts {
		if p.MaySee(a.AccountName()) {
			seq, _, _ := a.Ledger().Head(ctx) // one that cannot be read says so on the page
			all = strconv.AppendInt(append(all, '.'), seq, 10)
		}
	}
	return string(all)
}

// watch says whenever the ledger of an account has grown beyond seq, but not more often
// than liveEvery. What comes in between is said when that time has passed.
func (s *Server) watch(ctx context.Context, a Account, seq int64, grown chan<- struct{}) {
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

// openPages counts the open pages by whose they are.
type openPages struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

// open counts one more; false where there are too many.
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
