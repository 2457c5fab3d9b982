package schedules

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/testrun"
)

// TestAYearOfAnAccount simulates a year day by day: 500 proxies, outages, lost replies,
// refusals, renewals by an operator, price changes, a budget that is too low and late top-ups.
// Unless the larger run is requested, it simulates two months.
func TestAYearOfAnAccount(t *testing.T) {
	t.Parallel()
	steps := 30
	if testrun.Check {
		steps = 365
	}
	y := newYear(t, 500, 7)
	for range steps {
		y.step()
	}
	y.audit()
	t.Logf("%d renewed, %d by hand, %d reviews, %d lost for want of money", y.renewed, y.byHand, y.reviews, len(y.lost))
	if testrun.Check && (y.renewed < 5000 || y.byHand < 30 || len(y.lost) == 0 || y.ambiguous == 0 || y.refusals == 0 || y.outages == 0) {
		t.Fatalf("the year was too quiet: %+v lost, %d lost replies, %d refusals, %d outages", len(y.lost), y.ambiguous, y.refusals, y.outages)
	}
}

func TestTheSameSeedIsTheSameTrace(t *testing.T) {
	t.Parallel()
	trace := func(seed uint64) []string {
		y := newYear(t, 60, seed)
		for range 20 {
			y.step()
		}
		y.audit()
		return y.trace()
	}
	first, second, other := trace(1), trace(1), trace(2)
	for i := range first {
		if i >= len(second) || first[i] != second[i] {
			t.Fatalf("row %d of the journal:\n %s\n %s", i+1, first[i], slices.Concat(second, []string{"the end"})[min(i, len(second))])
		}
	}
	if len(first) != len(second) || slices.Equal(first, other) {
		t.Fatalf("%d rows, %d of the same seed and %d of another", len(first), len(second), len(other))
	}
}

// audit compares the ledger with the provider's wallet and the referee's lines, and looks for a
// proxy that was renewed before it was due.
func (y *year) audit() {
	y.t.Helper()
	y.down = 0
	y.carryOut()
	byHand := y.auditMoney(24 * fact.Day)
	balance, err := y.ledger.Money.Balance(y.t.Context(), "main")
	check(y.t, err)
	want(y.t, "spent by hand", balance.ExternalCents, byHand)
	_, err = y.ledger.Verify(y.t.Context())
	check(y.t, err)
	y.auditLost()
}

// auditMoney compares the ledger with the provider's wallet and charges. No proxy may be renewed
// twice within apart. It returns what was spent by hand.
func (y *year) auditMoney(apart time.Duration) (byHand int64) {
	y.t.Helper()
	charges, err := y.server.Charges()
	check(y.t, err)
	var taken int64
	net, last := map[string]int64{}, map[string]time.Time{}
	for _, c := range charges {
		cents := c.AmountCents
		if c.Kind == "refund" {
			cents = -cents
		}
		taken += cents
		if y.handKeys[c.IdempotencyKey] {
			byHand += cents
			continue
		}
		net[c.IdempotencyKey+" "+c.ProxyID] += cents
	}
	for _, c := range charges {
		if c.Kind == "refund" || y.handKeys[c.IdempotencyKey] || net[c.IdempotencyKey+" "+c.ProxyID] == 0 {
			continue
		}
		when, err := time.Parse(time.RFC3339, c.Time)
		check(y.t, err)
		if before, ok := last[c.ProxyID]; ok && when.Sub(before) < apart {
			y.t.Errorf("%s was renewed at %s and again at %s", c.ProxyID, before, when)
		}
		last[c.ProxyID] = when
	}
	balance, err := y.ledger.Money.Balance(y.t.Context(), "main")
	check(y.t, err)
	wallet, err := y.client.Wallet(y.t.Context())
	check(y.t, err)
	want(y.t, "wallet", balance.WalletCents, wallet.BalanceCents)
	want(y.t, "charged less refunded, as the referee has it", balance.ChargedCents-balance.RefundedCents, taken-byHand)
	return byHand
}

// auditLost checks that every expired proxy was skipped for lack of money, and that this was
// reported before the expiry.
func (y *year) auditLost() {
	y.t.Helper()
	said := map[time.Time]bool{} // first expiries in sweep.held facts
	for _, f := range factsOf[fact.SweepHeld](y, "sweep.held") {
		if f.FirstLostAt != nil {
			said[*f.FirstLostAt] = true
		}
	}
	for key, reason := range y.lost {
		if !forMoney(reason) {
			y.t.Errorf("%s was lost, and the last sweep said of it: %q", key, reason)
		}
	}
	if len(y.lost) > 0 && len(said) == 0 {
		y.t.Error("proxies were lost and no sweep.held named a date")
	}
	want(y.t, "proxy.expired, once for each that was lost", len(factsOf[fact.ProxyExpired](y, "proxy.expired")), len(y.lost))
}

// factsOf reads the journal's facts of one type.
func factsOf[F fact.Fact](y *year, factType string) (all []F) {
	y.t.Helper()
	y.rows(func(r chain.Row) {
		if r.Type == factType {
			var f F
			check(y.t, json.Unmarshal([]byte(r.Data), &f))
			all = append(all, f)
		}
	})
	return all
}

func (y *year) rows(yield func(chain.Row)) {
	y.t.Helper()
	var after int64
	for {
		rows, err := y.ledger.Rows(y.t.Context(), after, 5000)
		check(y.t, err)
		for _, r := range rows {
			yield(r)
			after = r.Seq
		}
		if len(rows) == 0 {
			return
		}
	}
}

// trace returns the journal without the sandbox's random values.
func (y *year) trace() (lines []string) {
	y.rows(func(r chain.Row) {
		var data map[string]any
		check(y.t, json.Unmarshal([]byte(r.Data), &data))
		delete(data, "trace_id")
		delete(data, "reason") // the reason of a lost connection contains a port
		text, err := json.Marshal(data)
		check(y.t, err)
		lines = append(lines, fmt.Sprintf("%s %s %s %s", r.Type, r.Instant().Format(time.RFC3339Nano), r.Operation, text))
	})
	return lines
}
