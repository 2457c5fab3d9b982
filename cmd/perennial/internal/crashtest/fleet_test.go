//go:build check

// A standby's proxies, as the leader listed them.

package crashtest

import (
	"testing"
	"time"

	"perennial/ledger/tables"
)

// A standby has the proxies of the leader's last listing and later reads, also after it lost its
// data. It trusts none of their expiries: when it becomes the leader, it lists and reads the
// proxies itself.
func TestAStandbyHasTheLastListing(t *testing.T) {
	t.Parallel()
	p := newPair(t, 60)
	p.w.configure(p.nats.url(), "    warn_before: [1h]\n") // an account without schedules and warnings lists nothing
	p.start(0, "")
	p.awaitRole(0, "active")
	p.start(1, "")
	p.hasFleet(1, 60)
	all := load()[:10]
	all.publish(t, p.nats.url())
	all.await(t, p.nats.url())
	again := crashed{{id: "again", subject: "perennial.commands.main.proxy.renew", body: []byte(`{"id":"again","proxy_ids":["px_1"],"duration_days":30}`)}}
	listed := p.expiry(1, "px_1")
	again.publish(t, p.nats.url())
	again.await(t, p.nats.url())
	p.awaitOf(1, "what the holder read since comes along", func() bool { return p.expiry(1, "px_1").After(listed) })
	_, taken := p.fleet(1)
	p.handOver(0, 1)
	p.awaitOf(1, "the new holder lists", func() bool {
		_, listing := p.fleet(1)
		return listing.Finished.After(taken.Finished)
	})
	for _, x := range p.proxies(1) {
		if x.SeenAt.Unix() <= 0 {
			t.Errorf("the holder has not seen %+v", x)
		}
	}
	p.runs[0] = nil
	p.sameBooks(append(all, again...).ids())
}

// fleet returns the proxies, at most 1,000, and the listing in a runner's ledger.
func (p *pair) fleet(n int) ([]tables.Proxy, tables.Listing) {
	p.w.t.Helper()
	l := p.open(pairData[n])
	defer func() { _ = l.Close() }()
	listing, err := l.Fleet.Listing(p.w.t.Context())
	if err != nil {
		p.w.t.Fatal(err)
	}
	proxies, err := l.Fleet.Proxies(p.w.t.Context(), "", 1000)
	if err != nil {
		p.w.t.Fatal(err)
	}
	return proxies, listing
}

func (p *pair) proxies(n int) []tables.Proxy {
	p.w.t.Helper()
	all, _ := p.fleet(n)
	return all
}

// expiry returns the expiry of a proxy in a runner's ledger.
func (p *pair) expiry(n int, proxy string) time.Time {
	p.w.t.Helper()
	for _, x := range p.proxies(n) {
		if x.ProxyID == proxy && x.ExpiresAt != nil {
			return *x.ExpiresAt
		}
	}
	p.w.t.Fatalf("%s has no expiry of %s", pairData[n], proxy)
	return time.Time{}
}

// hasFleet waits until a standby has the proxies of the leader's listing.
func (p *pair) hasFleet(n, proxies int) {
	p.w.t.Helper()
	await(p.w.t, "the last listing comes to "+pairData[n], func() bool {
		_, listing := p.fleet(n)
		return !listing.Finished.IsZero()
	})
	have := p.proxies(n)
	if len(have) != proxies {
		p.w.t.Errorf("%s has %d proxies of %d", pairData[n], len(have), proxies)
	}
	for _, x := range have {
		if x.ExpiresAt == nil || x.SeenAt.Unix() > 0 {
			p.w.t.Errorf("%s has %+v", pairData[n], x)
		}
	}
}
