package schedules

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

// In random fleets, about half of the proxies have no price. No plan or forecast may show an
// unknown amount as 0, and each sum says how many amounts it lacks.
func TestWhatIsNotKnownIsNull(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(52, 1))
	for range 12 {
		s := keepalive()
		if random.IntN(2) == 0 {
			s.BudgetCents = 300
		}
		l := openLedger(t, filepath.Join(t.TempDir(), "main.ledger.db"), func() time.Time { return noon })
		wallet := random.Int64N(900)
		in := plans.Inputs{Schedule: s, Now: noon, WalletCents: &wallet}
		for i := range 1 + random.IntN(5) {
			p := px(fmt.Sprintf("px_%d", i), time.Duration(1+i)*time.Hour)
			p.Region = fmt.Sprintf("region %d", i)
			in.Proxies = append(in.Proxies, p)
		}
		check(t, l.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Observe(1, in.Proxies...) }))
		priced := map[string]bool{}
		for _, p := range in.Proxies {
			if priced[p.ProxyID] = random.IntN(2) == 0; priced[p.ProxyID] {
				paid(t, l, p.ProxyID, 300)
			}
		}
		p, err := plans.Make(t.Context(), in, plans.HistoryOf(l.Queries))
		check(t, err)
		var included, left fact.Sum
		for _, x := range p.Included {
			included = included.Add(x.EstimateCents)
			want(t, x.ProxyID, x.EstimateCents.Known(), priced[x.ProxyID])
		}
		want(t, "the plan", p.Estimate(), included)
		for _, x := range p.Shortfalls {
			left = left.Join(x.Missing())
		}
		calendar, err := s.Calendar()
		check(t, err)
		o, c := newOutlook(noon, 3), &Config{Ledger: l}
		check(t, (&forecaster{c, &reader{Config: c}, &listPrices{Config: c}, nil, newDueCounts()}).foresee(t.Context(), &scheduleRunner{Schedule: s, calendar: calendar}, o))
		f := o.forecast(in)
		want(t, "the forecast", f.Charge(), fact.Sum{Cents: 300 * int64(len(in.Proxies)-f.Unpriced), Lacks: f.Unpriced})
		for what, x := range map[string]any{"plan": p.Plan, "forecast": f} {
			data, err := json.Marshal(x)
			check(t, err)
			if said := string(data); included.Lacks+left.Lacks+f.Unpriced > 0 && !strings.Contains(said, `"unpriced":`) {
				t.Errorf("the %s does not say what it lacks: %s", what, said)
			}
			wantNulls(t, what, data)
		}
	}
}

// wantNulls fails the test for each object with unpriced proxies and a sum of 0.
func wantNulls(t *testing.T, at string, data []byte) {
	t.Helper()
	var object map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case json.Unmarshal(data, &object) == nil:
		lacks := string(object["unpriced"])
		for name, x := range object {
			sum := name == "estimate_cents" || name == "charge_cents" || name == "shortfall_cents" && at != "plan"
			if sum && lacks != "" && lacks != "0" && string(x) == "0" {
				t.Errorf("%s: %s is 0, and %s are not known", at, name, lacks)
			}
			wantNulls(t, at+"."+name, x)
		}
	case json.Unmarshal(data, &list) == nil:
		for n, x := range list {
			wantNulls(t, fmt.Sprintf("%s[%d]", at, n), x)
		}
	}
}
