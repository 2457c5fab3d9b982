// How the provider answered in the last minutes.

package daemon

import (
	"time"

	"perennial/jobs"
	"perennial/upstream"
)

// exchanged hears of every request to the provider that has ended.
func (a *account) exchanged(x upstream.Exchange) {
	a.counts.request(x)
	a.recent.Add(x, time.Now())
}

// heardLately is how the provider answered in the last minutes.
func (a *account) heardLately() jobs.ProviderRecent {
	r := a.recent.Recent(time.Now())
	if skew, heard := a.clockSkew(); heard {
		ms := skew.Milliseconds()
		r.SkewMillis = &ms
	}
	return r
}
