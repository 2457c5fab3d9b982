package schedules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// The queue is too long for its pace: some proxies expire before their turn.
func TestAQueueThatCannotBeMadeInTimeIsSaid(t *testing.T) {
	t.Parallel()
	fleet := map[string]string{}
	for n := range 120 {
		fleet[fmt.Sprintf("px_%03d", n)] = fmt.Sprintf("%ds", 15*60+30*n)
	}
	fleet["px_far"] = "900h"
	h := newRig(t, fleet, keepalive())
	check(t, h.lister.WaitPass(t.Context()))
	for n := range 120 {
		renewal(t, h.Ledger, 1, fmt.Sprintf("px_%03d", n), "claimed", 0, noon)
	}
	check(t, h.keepPace(t.Context())) // the queue begins
	want(t, "at its begin", h.NotReady(), "")
	for n := range 10 { // requested by another schedule or by an operator
		renewal(t, h.Ledger, 2, fmt.Sprintf("px_other_%d", n), "succeeded", 300, noon)
	}
	h.watch.add(10 * time.Minute) // ten renewals in ten minutes: the last proxy's turn is in two hours, but it expires in one
	check(t, h.keepPace(t.Context()))
	for _, says := range []string{"120 renewals are queued and 1.0 are made a minute", "111 proxies expire before their turn, the first at 2026-11-21T12:19:30Z", "rate_per_second"} {
		if !strings.Contains(h.NotReady(), says) {
			t.Errorf("%q does not say %q", h.NotReady(), says)
		}
	}
	for n := range 500 {
		renewal(t, h.Ledger, 3, fmt.Sprintf("px_more_%d", n), "succeeded", 300, noon)
	}
	check(t, h.keepPace(t.Context()))
	want(t, "at a pace that reaches", h.NotReady(), "")
}

// An operator's command is accepted immediately and executed at a constant pace. At every
// minute, the count of late renewals must equal the number of proxies that later expire before
// their turn.
func TestThePaceForetellsWhatExpires(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 41))
		each := 2 + random.IntN(4) // renewals a minute
		fleet, left := map[string]string{}, []time.Duration(nil)
		for n, at := 0, time.Duration(0); n < 130+random.IntN(30); n++ {
			at += time.Duration(random.IntN(2*60/each)) * time.Second // about as fast as the renewals
			left = append(left, 5*time.Minute+at)
			fleet[fmt.Sprintf("px_%03d", n)] = left[n].String()
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newRig(t, fleet, keepalive())
			check(t, h.lister.WaitPass(t.Context()))
			ref := fact.Ref{CommandID: "all"}
			accepted := fact.CommandAccepted{Ref: ref, Kind: fact.KindRenewal, Content: []byte("{}"), DurationDays: 30}
			for n := range left {
				chunk := fmt.Sprintf("%04d", n)
				accepted.Operations = append(accepted.Operations, fact.Planned{OperationID: "all/" + chunk, Chunk: chunk, Generation: 1, Key: "key-" + chunk, ProxyIDs: []string{fmt.Sprintf("px_%03d", n)}})
			}
			write := func(facts ...fact.Fact) {
				check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Append(facts...) }))
			}
			write(accepted)
			check(t, h.keepPace(t.Context()))
			judged := 0
			for done, minute := 0, 1; len(left)-done >= paceQueue; minute++ {
				h.watch.add(time.Minute)
				for range each {
					ref, id := fact.Ref{CommandID: "all", OperationID: accepted.Operations[done].OperationID}, accepted.Operations[done].ProxyIDs[0]
					write(fact.OperationSending{Ref: ref, Attempt: 1, Key: accepted.Operations[done].Key, Body: "{}", SentAt: h.watch.Now(), Observed: map[string]time.Time{id: noon.Add(left[done])}},
						fact.RenewalSettled{Ref: ref, Status: "completed", Attempt: 1, Lines: fact.Lines{ChargedCents: 300, Items: []fact.Line{{ProxyID: id, State: fact.LineSucceeded, ChargedCents: 300}}}})
					check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Stale(id) })) // as a runner does
					done++
				}
				check(t, h.keepPace(t.Context()))
				x := h.pace.Load()
				if minute < int(paceLeast/time.Minute) {
					continue
				}
				if len(left)-done < paceQueue {
					break
				}
				if x == nil {
					t.Fatalf("%d are queued after %d minutes, and nothing is said of their pace", len(left)-done, minute)
				}
				judged++
				late := 0
				for n := done; n < len(left); n++ {
					if turn := time.Duration(minute)*time.Minute + time.Duration(n-done+1)*time.Minute/time.Duration(each); left[n] < turn && left[n] > time.Duration(minute)*time.Minute {
						late++
					}
				}
				if x.queued != len(left)-done || x.turns != float64(each) || x.late != late {
					t.Fatalf("after %d minutes %d are queued, %d a minute, %d too late; said is %+v", minute, len(left)-done, each, late, *x)
				}
			}
			if judged == 0 {
				t.Fatal("no minute was judged")
			}
		})
	}
}
