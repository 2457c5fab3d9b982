package plans

import (
	"strings"
	"testing"
	"time"

	"perennial/ledger/tables"
)

func TestNoMoreIsRenewedThanAGroupNeeds(t *testing.T) {
	s := keepalive()
	s.Keep = Keep{AtLeast: 3, Per: []string{"country_code"}}
	german := func(id string, in time.Duration) tables.Proxy {
		p := px(id, in)
		p.CountryCode = "DE"
		return p
	}
	w := newWorld(t, s, px("px_1", time.Hour), px("px_2", 2*time.Hour), german("px_de_1", 3*time.Hour), px("px_busy", 4*time.Hour), px("px_3", 5*time.Hour))
	paid(t, w.ledger, "px_1", 300)
	paid(t, w.ledger, "px_de_1", 300)
	renewal(t, w.ledger, 1, "px_busy", "claimed", 0, noon)
	w.Staying = map[string]int{"US": 1}
	p := w.plan(t)
	want(t, "one stays, one is being renewed, one is missing; all of the other group", p.ids(), []string{"px_1", "px_de_1"})
	want(t, "left out", p.LeftOutCounts, map[string]int{ReasonEnough: 2, ReasonClaimed: 1})
	w.Staying["US"] = 7
	want(t, "enough stay", w.plan(t).ids(), []string{"px_de_1"})
}

func TestKeepIsCheckedWithTheConfiguration(t *testing.T) {
	for _, k := range []Keep{{AtLeast: -1}, {Per: []string{"region"}}, {AtLeast: 1, Per: []string{"city"}}, {AtLeast: 1, Per: []string{"region", "region"}}} {
		s := keepalive()
		s.Keep = k
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "keep.") {
			t.Errorf("%+v: %v", k, err)
		}
	}
}
