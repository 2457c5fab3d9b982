package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/publish"
)

// An intake that commits intents as fast as they are sent does not starve the polls.
func TestTrap58WhatIsIntendedDoesNotKeepTheRestUnsettled(t *testing.T) {
	r := newReady(100, newPauses(time.Now))
	for i := range 6 {
		of := func(kind string) decide.Operation {
			return decide.Operation{Operation: fact.Operation{ID: fmt.Sprintf("%s%d", kind, i)}}
		}
		r.push(&job{lane: laneOrder, priority: priorityOrder, op: of("o"), sending: &fact.OperationSending{}})
		r.push(&job{lane: lanePoll, priority: priorityPoll, op: of("p")})
	}
	var order strings.Builder
	for range 12 {
		j, err := r.pop(t.Context())
		check(t, err)
		order.WriteString(j.op.ID[:1])
	}
	if got := order.String(); got != "pppopppooooo" {
		t.Error(got)
	}
}

// BenchmarkSettling measures the average delay of order reads while 10,000 orders are sent.
func BenchmarkSettling(b *testing.B) {
	const n, batch = 10_000, 500
	for b.Loop() {
		of := fleet()
		of.Accounts[0].Wallet.SandboxCents = 1 << 40
		of.Offers[0].Stock = n
		h := rigOf(b, of, func(c *Config) { c.RatePerSecond, c.Concurrency = 1e6, 64 })
		for from := 0; from < n; from += batch {
			var all []publish.Outgoing
			for i := range batch {
				all = append(all, publish.Outgoing{Kind: queue.KindOrderCreate, Data: fmt.Appendf(nil,
					`{"id":"o%d","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}],"sandbox_scenario":"success"}`, from+i)})
			}
			check(b, publish.New(h.queue.JetStream()).PublishCommands(b.Context(), "main", all))
		}
		h.start()
		h.until("all are delivered", func() bool {
			counts, err := h.ledger.Operations.StateCounts(b.Context())
			check(b, err)
			return counts[fact.StateDelivered] == n
		})
		h.halt()
		b.ReportMetric(h.late().Seconds(), "s-late")
	}
}

// late returns the average delay of the reads of orders.
func (h *rig) late() (sum time.Duration) {
	rows, err := h.ledger.Rows(h.t.Context(), 0, 1<<20)
	check(h.t, err)
	due, n := map[string]time.Time{}, 0
	for _, r := range rows {
		f, err := fact.Decode(r.Type, []byte(r.Data))
		check(h.t, err)
		switch f := f.(type) {
		case fact.OrderAccepted:
			due[r.Operation] = f.NextAt
		case fact.OrderDelivered:
			sum += r.Instant().Sub(due[r.Operation])
			n++
		}
	}
	return sum / time.Duration(max(n, 1))
}
