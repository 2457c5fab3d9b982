package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"perennial/queue/events"
	"perennial/queue/positions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// history is an account's events in memory, chained like the journal.
type history struct {
	mu      sync.Mutex
	first   uint64 // first event of the stream
	events  []events.Event
	changed chan struct{}
}

func newHistory() *history { return &history{first: 1, changed: make(chan struct{})} }

// happen appends an event of a command, or of the account if command is "".
func (h *history) happen(command, eventType string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq, prev := uint64(len(h.events)+1), ""
	if seq > 1 {
		prev = h.events[seq-2].Hash
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s %s", prev, seq, command, eventType))
	hash := hex.EncodeToString(sum[:])
	data := fmt.Appendf(nil, `{"specversion":"1.0","id":"main/%s/%d","time":"2026-11-24T00:00:00.000000Z","type":"perennial.%s.v1","data":{"command_id":%q,"ledger":{"seq":%d,"prev_hash":%q}}}`,
		hash[:16], seq, eventType, command, seq, prev)
	h.events = append(h.events, events.Event{StreamSeq: seq, Seq: seq, Type: eventType, Hash: hash, Data: data})
	close(h.changed)
	h.changed = make(chan struct{})
	return seq
}

// progress appends this many events of one command.
func (h *history) progress(events int) {
	for range events {
		h.happen("a", "order.progressed")
	}
}

// cut removes the events after last, as a restore from an older backup does.
func (h *history) cut(last uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = h.events[:last]
}

func (h *history) Read(ctx context.Context, from uint64) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		for {
			h.mu.Lock()
			from = max(from, h.first)
			var next []events.Event
			if from <= uint64(len(h.events)) {
				next = slices.Clone(h.events[from-1:])
			}
			changed := h.changed
			h.mu.Unlock()
			for _, e := range next {
				if !yield(e, nil) {
					return
				}
				from++
			}
			if len(next) > 0 {
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(events.Event{}, ctx.Err())
				return
			}
		}
	}
}

func (h *history) Ends(context.Context) (first, last uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first, uint64(len(h.events)), nil
}

func (h *history) HashAt(_ context.Context, seq uint64) (string, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if seq < 1 || seq > uint64(len(h.events)) {
		return "", false, nil
	}
	return h.events[seq-1].Hash, true, nil
}

// kept is a position in memory.
type kept struct {
	mu       sync.Mutex
	p        positions.Position
	revision uint64
	saves    int
}

func (k *kept) Load(context.Context) (positions.Position, uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.p, k.revision, nil
}

func (k *kept) Save(_ context.Context, p positions.Position, revision uint64) (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if revision != k.revision {
		return 0, positions.ErrMoved
	}
	k.p = p
	k.revision++
	k.saves++
	return k.revision, nil
}

func (k *kept) now() positions.Position {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.p
}

// endpoint answers as a test says, and records the requests.
type endpoint struct {
	mu      sync.Mutex
	answer  func(id string, attempt int) (status int, header http.Header, took time.Duration)
	tried   map[string]int
	at      map[string][]time.Time
	order   []string // ids in the order of their first 2xx
	success map[string]int
	under   int // requests in progress
	most    int
}

func newEndpoint(answer func(id string, attempt int) (int, http.Header, time.Duration)) *endpoint {
	return &endpoint{answer: answer, tried: map[string]int{}, at: map[string][]time.Time{}, success: map[string]int{}}
}

// RoundTrip implements http.RoundTripper. Status 0 closes the connection.
func (e *endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	id := r.Header.Get(HeaderID)
	e.mu.Lock()
	e.tried[id]++
	e.at[id] = append(e.at[id], time.Now())
	e.under++
	e.most = max(e.most, e.under)
	status, header, took := e.answer(id, e.tried[id])
	e.mu.Unlock()
	defer func() { e.mu.Lock(); e.under--; e.mu.Unlock() }()
	select {
	case <-time.After(took):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if status/100 == 2 {
		if e.success[id]++; e.success[id] == 1 {
			e.order = append(e.order, id)
		}
	}
	if status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader("not read"))}, nil
}

// firsts returns the sequences in the order of their first 2xx.
func (e *endpoint) firsts() (all []uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range e.order {
		all = append(all, seqOf(id))
	}
	return all
}

func (e *endpoint) attempts() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.tried)
}

func (e *endpoint) answers(answer func(id string, attempt int) (int, http.Header, time.Duration)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func seqOf(id string) (seq uint64) {
	_, _ = fmt.Sscanf(id[strings.LastIndex(id, "/")+1:], "%d", &seq)
	return seq
}

func fine(string, int) (int, http.Header, time.Duration) { return 204, nil, time.Millisecond }

// rig is a sink with its dependencies, in the synctest bubble of a test.
type rig struct {
	*Sink

	h   *history
	k   *kept
	e   *endpoint
	at  Endpoint // returned by Connect
	log *strings.Builder
}

func newRig(answer func(id string, attempt int) (int, http.Header, time.Duration)) *rig {
	secrets, err := ParseSecrets([]byte(testSecret))
	if err != nil {
		panic(err)
	}
	r := &rig{h: newHistory(), k: &kept{}, e: newEndpoint(answer), log: &strings.Builder{}}
	log := logrus.New()
	log.SetOutput(r.log)
	r.at = Endpoint{URL: "https://example.com/hooks/s3cr3t?token=s3cr3t", Secrets: secrets, Timeout: 10 * time.Second, Transport: r.e, Clock: time.Now, Certificate: certificate}
	r.Sink = &Sink{
		Name: "billing", Connect: func() (Endpoint, error) { return r.at, nil }, Events: r.h, Positions: r.k, Wants: func(string) bool { return true }, Concurrency: 4, From: FromStart,
		Clock: time.Now, Random: func() float64 { return .5 }, Log: logrus.NewEntry(log),
	}
	return r
}

// runFor runs the sink for a time of the bubble, and stops it.
func (r *rig) runFor(t *testing.T, d time.Duration) {
	t.Helper()
	defer r.start(t)()
	time.Sleep(d)
	synctest.Wait()
}

// start runs the sink until stop is called.
func (r *rig) start(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	return func() { cancel(); <-done }
}
