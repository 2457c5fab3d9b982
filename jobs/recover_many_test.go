package jobs

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream/sandbox"
)

// leftBehind returns a rig whose ledger has n renewals that a killed run sent without
// recording a reply.
func leftBehind(t testing.TB, n int, change ...func(*Config)) *rig {
	t.Helper()
	of := fleet()
	of.Proxies = []sandbox.FixtureProxy{{Count: n, Prefix: "px_", AccountID: sandbox.DemoAccountID, Environment: "sandbox", OfferCode: "off_us_dallas", ExpiresIn: "24h"}}
	of.Accounts[0].Wallet.SandboxCents = int64(n+1) * 300
	h := rigOf(t, of, change...)
	const group = 500
	for from := 0; from < n; from += group {
		check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			for i := from; i < min(n, from+group); i++ {
				if err := h.left(tx, i); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	return h
}

// left appends the facts that a run records before it sends the i-th renewal.
func (h *rig) left(tx *ledger.Tx, i int) error {
	proxy := fmt.Sprintf("px_%d", i+1)
	c, err := command.Parse(fact.KindRenewal, fmt.Appendf(nil, `{"id":"r%d","proxy_ids":[%q],"duration_days":30}`, i, proxy), rulesOfSandbox)
	if err != nil {
		return err
	}
	content, hash, err := c.Content()
	if err != nil {
		return err
	}
	planned := c.Operations(h.runner.Binding(), c.ProxyIDs, false)
	return tx.Append(
		fact.CommandAccepted{Ref: fact.Ref{CommandID: c.ID}, Kind: c.Kind, ContentHash: hash, Content: content, DurationDays: c.DurationDays, Operations: planned},
		fact.OperationSending{
			Ref: fact.Ref{CommandID: c.ID, OperationID: planned[0].OperationID}, Attempt: 1, Key: planned[0].Key,
			Body: fmt.Sprintf(`{"duration_days":30,"proxy_ids":[%q]}`, proxy), SentAt: tx.Now(), AppID: h.client.AppID(),
		})
}

// spoken is a log that keeps its lines.
type spoken struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *spoken) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(line)
}

func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (h *rig) completed() int {
	counts, err := h.ledger.Operations.StateCounts(h.t.Context())
	check(h.t, err)
	return int(counts[fact.StateCompleted])
}

// Many renewals are recorded together and read from the ledger in batches. Each is sent again
// once, and nothing is logged.
func TestWhatAKilledRunSentGoesAgainOnceAndInSilence(t *testing.T) {
	t.Parallel()
	const n = 1100 // more than are loaded at once
	log := logrus.New()
	var said spoken
	log.SetOutput(&said)
	log.SetLevel(logrus.DebugLevel)
	commits := 0
	h := leftBehind(t, n, func(c *Config) {
		c.RatePerSecond, c.Concurrency, c.Log = 1e6, 16, logrus.NewEntry(log)
	})
	h.reached = func(point string) {
		if point == "intent.committed" {
			said.mu.Lock()
			commits++
			said.mu.Unlock()
		}
	}
	h.start()
	h.until("all are renewed", func() bool { return h.completed() == n })
	h.halt()
	for line := range strings.Lines(said.String()) {
		if !strings.Contains(line, "level=info") {
			t.Error(line)
		}
	}
	if commits != n {
		t.Errorf("%d intents for %d renewals", commits, n)
	}
	h.settled(n*300, 0)
}

// A worker finishes an operation between a read of the ledger and the push of its result. The
// operation is not queued in its old version.
func TestWhatWentMeanwhileIsNotQueuedAsItWasRead(t *testing.T) {
	r := newReady(10, newPauses(time.Now))
	renewal := func(id string) *job {
		return &job{lane: laneRenewal, priority: priorityRenewal, op: decide.Operation{Operation: fact.Operation{ID: id}}}
	}
	before, during := renewal("finished before"), renewal("finished during")
	r.push(before)
	r.done(before.op.ID)
	r.push(during)
	x := r.beginReading()
	r.done(during.op.ID)
	x.push(fromLedger, before)
	x.push(fromLedger, during)
	x.end()
	if !r.isActive(before.op.ID) || r.isActive(during.op.ID) {
		t.Errorf("queued: %t what had gone before the read, %t what went during it", r.isActive(before.op.ID), r.isActive(during.op.ID))
	}
	again := r.beginReading()
	again.push(fromLedger, during)
	if !r.isActive(during.op.ID) {
		t.Error("what a later read found is not queued")
	}
}

// BenchmarkStart measures the start of a runner that inherits 100,000 sends: until the first
// is sent again, and until all are recorded.
func BenchmarkStart(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		b.StopTimer()
		first, all, recorded := make(chan struct{}), make(chan struct{}), 0
		once := sync.OnceFunc(func() { close(first) })
		h := leftBehind(b, n, func(c *Config) {
			c.RatePerSecond, c.Concurrency = 1e6, 64
		})
		h.reached = func(point string) {
			switch point {
			case "send.before":
				once()
			case "recovery.one":
				if recorded++; recorded == n {
					close(all)
				}
			}
		}
		b.StartTimer()
		began := time.Now()
		h.start()
		<-first
		b.ReportMetric(time.Since(began).Seconds(), "s-to-first-send")
		<-all
		b.ReportMetric(time.Since(began).Seconds(), "s-to-all-recorded")
		b.StopTimer()
		h.halt()
		b.StartTimer()
	}
}
