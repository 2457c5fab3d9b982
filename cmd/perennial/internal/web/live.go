// Server-sent events that tell an open page to reload.

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
	// liveEvery is the interval at which a growing ledger notifies a page.
	liveEvery = 800 * time.Millisecond
	// liveBeat is the interval of heartbeats to a page.
	liveBeat = 10 * time.Second
	// maxLive limits the open pages of all people. maxOwn limits the open pages of one person.
	maxLive = 200
	maxOwn  = 20
)

// livePages tells open pages when their content has changed.
type livePages struct {
	*Config
	insight *insight
	auth    *auth
	live    openPages
	ended   chan struct{} // closed when the server stops
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
	go s.endWithServer(ctx, cancel)
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

// endWithServer cancels when the server stops, because the server would wait for the page.
func (s *livePages) endWithServer(ctx context.Context, cancel func()) {
	select {
	case <-s.ended:
		cancel()
	case <-ctx.Done():
	}
}

// edition identifies the state that a page shows: the last rows of the visible ledgers, the
// number of dead letters, which no ledger contains, and the computed figures. A page
// contains the edition from before its data was read, so it detects changes that happened
// before it received events.
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

// lettersFresh is the age at which the number of dead letters is read again.
const lettersFresh = 5 * time.Second

// lastLetterCount returns an account's number of dead letters as last read, or 0 if unknown.
func (s *insight) lastLetterCount(a Account) int64 {
	one := s.figures.askReply(figureKey{a.AccountName(), "letters"}, lettersFresh, func(ctx context.Context) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, lettersWithin)
		defer cancel()
		return a.CountLetters(ctx)
	})
	s.figures.mu.Lock()
	made, first := one.made, one.at.IsZero()
	s.figures.mu.Unlock()
	if first && made != nil { // wait briefly for the first number, because a later change from 0 would reload the page
		select {
		case <-made:
		case <-time.After(figureWait):
		}
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

// openPages counts the open pages of each person.
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
