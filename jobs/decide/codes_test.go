package decide

import (
	"slices"
	"testing"
	"time"

	"perennial/ledger/fact"
)

// Programs read the code; people read the text.
func TestEveryProxyThatIsLeftOutHasACode(t *testing.T) {
	expiry, other := noon.Add(time.Hour), noon.Add(2*time.Hour)
	h := Prechecked{Guarded: true, DueBefore: &expiry, ExpectExpiresAt: map[string]time.Time{"moved": noon.Add(25 * time.Hour)}}
	rows := map[fact.SkipCode]Seen{
		fact.SkipNotFound:   {NotFound: true},
		fact.SkipNoExpiry:   {},
		fact.SkipMoved:      {ProxyID: "moved", ExpiresAt: &expiry},
		fact.SkipNotDue:     {ExpiresAt: &other},
		fact.SkipRenewed:    {ExpiresAt: &expiry, Paid: true},
		fact.SkipNotShown:   {ExpiresAt: &expiry, Paid: true, Behind: &fact.Renewal{DurationDays: 30}},
		fact.SkipRetired:    {ExpiresAt: &expiry, Retired: true},
		fact.SkipUnreadable: {Unread: &PrecheckFailed{Code: "proxy_endpoint_unavailable", Reason: "x"}},
	}
	for code, seen := range rows {
		op := renewalOf("a")
		next := noon.Add(time.Hour)
		op.NextAt, op.UpdatedAt, op.Reason = &next, noon, "unread" // for so long
		if seen.ProxyID == "" {
			seen.ProxyID = "a"
		}
		h.Seen = []Seen{seen}
		skipped, ok := Decide(op, h).Facts[0].(fact.ProxySkipped)
		if !ok || skipped.Code != code || skipped.Reason == "" {
			t.Errorf("%s: %+v", code, skipped)
		}
	}
	for _, code := range fact.SkipCodes { // the others are given elsewhere
		if _, ok := rows[code]; !ok && code != fact.SkipClaimed && code != fact.SkipOther {
			t.Errorf("no proxy is left out with %s", code)
		}
	}
}

func TestEveryOperationThatIsHeldHasACode(t *testing.T) {
	var got []fact.HeldCode
	restored := renewalOf("a", "b")
	restored.Ambiguous = 1
	for _, x := range []struct {
		op        Operation
		happening Happened
	}{
		{order(), Priced{Prices: []Price{{Of: "a", Cents: fact.Known(300)}}, LimitCents: 1}},
		{restored, Priced{Prices: []Price{{Of: "a"}, {Of: "b"}}, LimitCents: 1}},
		{order(), Prechecked{NamesCIDRs: true}},
	} {
		held, _ := Decide(x.op, x.happening).Facts[0].(fact.CommandHeld)
		got = append(got, held.Code)
	}
	if !slices.Equal(got, fact.HeldCodes) {
		t.Errorf("%v", got)
	}
}
