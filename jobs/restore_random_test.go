package jobs

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/testrun"
	"perennial/upstream/sandbox"
)

// TestTrap13NoRestorePaysTwice restores a backup without the events, publishes the lost commands
// again before and after an operator resumes the account, and retries what was refused. Meanwhile
// the provider refuses some repeated requests before it looks their keys up. In the lost time some
// renewals were split.
func TestTrap13NoRestorePaysTwice(t *testing.T) {
	t.Parallel()
	seeds := 3
	if testrun.Check {
		seeds = 24
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			h, random := proxiesRig(t, 40), rand.New(rand.NewPCG(uint64(seed), 13))
			chance := func(percent int) bool { return random.IntN(100) < percent }
			var all []string // the command with number n renews its own proxies, or orders one
			publish := func(n int) {
				switch first := 2*n + 1; n % 3 {
				case 0:
					h.order(fmt.Sprintf(`{"id":"c-%d","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`, n))
				case 1:
					h.renew(fmt.Sprintf(`{"id":"c-%d","duration_days":30,"proxy_ids":["px_%d","px_%d"]}`, n, first, first+1))
				default:
					h.renew(fmt.Sprintf(`{"id":"c-%d","duration_days":30,"max_total_cents":600,"proxy_ids":["px_%d"]}`, n, first))
				}
			}
			more := func(upTo int) {
				for n := len(all); n < upTo; n++ {
					all = append(all, fmt.Sprintf("c-%d", n))
					publish(n)
				}
				h.quiet(all)
			}
			more(random.IntN(6))
			h.listed()
			h.observe() // what was renewed in the lost time can be seen
			backup := h.backup()
			for upTo := len(all) + 1 + random.IntN(8); len(all) < upTo; {
				if chance(30) { // a renewal of two is split: one half is paid, and the other is not sent
					h.fault(renew, "code", map[string]any{"code": "insufficient_wallet_balance", "http_status": 402, "executed": false, "times": 1})
				}
				more(len(all) + 1)
			}
			h.ask(http.MethodDelete, "/faults", nil)
			h.control("/moods", map[string]any{"moods": []string{sandbox.MoodEarlyRefusals}, "seed": seed})
			h.restore(backup)
			h.awaitStrange()
			for n := range all {
				if chance(40) {
					publish(n)
				}
				if chance(20) {
					_, _ = h.runner.Cancel(t.Context(), all[n], "ada", "not wanted") // refused for what may have been paid
				}
			}
			h.resumes("ada", "go on")
			if chance(50) {
				h.restart()
			}
			for n := range all {
				publish(n)
			}
			h.quiet(all)
			for _, id := range all {
				_, _ = h.runner.Retry(t.Context(), id, "ada", "it was refused") // refused for what is in review
			}
			h.quiet(all)
			h.paidOnce((len(all) + 2) / 3)
		})
	}
}

// proxiesRig is a rig with n proxies px_1 to px_n.
func proxiesRig(t *testing.T, n int) *rig {
	of := fleet()
	of.Proxies[0].Count = n
	h := rigOf(t, of)
	h.start()
	return h
}

// quiet waits until each of the commands has ended or needs an operator.
func (h *rig) quiet(ids []string) {
	h.t.Helper()
	h.until("the commands end or need an operator", func() bool {
		for _, id := range ids {
			operations, err := h.ledger.Operations.OperationsOf(h.t.Context(), id)
			if err != nil || len(operations) == 0 {
				return false
			}
			for _, o := range operations {
				if !o.State.Ended() && o.State != fact.StateReview {
					return false
				}
			}
		}
		return true
	})
}

// paidOnce checks that no proxy was renewed twice, and that no more orders were paid for than there
// are commands.
func (h *rig) paidOnce(orders int) {
	h.t.Helper()
	charges, err := h.server.Charges()
	check(h.t, err)
	renewed, ordered := map[string]time.Time{}, 0
	for _, c := range charges {
		if c.Reason == "order" {
			ordered++
			continue
		}
		if before, twice := renewed[c.ProxyID]; twice {
			h.t.Errorf("%s was paid for at %s and again at %s", c.ProxyID, before, c.Time)
		}
		renewed[c.ProxyID], err = time.Parse(time.RFC3339, c.Time)
		check(h.t, err)
	}
	_, err = h.ledger.Verify(h.t.Context())
	check(h.t, err)
	if ordered > orders {
		h.t.Errorf("%d orders were paid for, and %d were published", ordered, orders)
	}
}
