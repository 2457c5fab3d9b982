package schedules

import (
	"testing"

	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

func TestMatchNarrowsAScheduleToSomeProxies(t *testing.T) {
	p := tables.Proxy{ProxyID: "px_1", CountryCode: "US", Region: "Dallas", LineName: "premium", IPType: "isp"}
	for name, test := range map[string]struct {
		match plans.Match
		fits  bool
	}{
		"everything":   {plans.Match{}, true},
		"country":      {plans.Match{CountryCode: []string{"de", "us"}}, true},
		"other":        {plans.Match{CountryCode: []string{"DE"}}, false},
		"all of them":  {plans.Match{Region: []string{"Dallas"}, LineName: []string{"premium"}, IPType: []string{"isp"}}, true},
		"one does not": {plans.Match{Region: []string{"Dallas"}, IPType: []string{"residential"}}, false},
		"named":        {plans.Match{ProxyIDs: []string{"px_1"}}, true},
		"not named":    {plans.Match{ProxyIDs: []string{"px_2"}}, false},
		"excepted":     {plans.Match{ProxyIDs: []string{"px_1"}, ExceptProxyIDs: []string{"px_1"}}, false},
	} {
		if test.match.Filter(plans.Lists{}).Fits(p) != test.fits {
			t.Errorf("%s: fits is %v", name, !test.fits)
		}
	}
}
