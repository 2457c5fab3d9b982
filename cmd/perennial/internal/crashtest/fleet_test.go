// A standby's proxies, as the holder listed them.

package crashtest

import (
	"testing"

	"perennial/ledger"
)

// TestAStandbyHasTheLastListing: a runner that follows has the proxies as the holder listed
// them, also one that lost its data. It trusts none of their expiries, and lists and reads
// them itself when it holds the account.
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
	p.sameBooks(all.ids())
}

// fleet is what a runner's ledger has of the proxies, up to 1,000, and of their listing.
func (p *pair) fleet(n int) ([]ledger.Proxy, ledger.Listing) {
	p.w.t.Helper()
	l := p.open(pairData[n])
	defer func() { _ = l.Close() }()
	listing, err := l.Listing(p.w.t.Context())
	if err != nil {
		p.w.t.Fatal(err)
	}
	proxies, err := l.Proxies(p.w.t.Context(), "", 1000)
	if err != nil {
		p.w.t.Fatal(err)
	}
	return proxies, listing
}

func (p *pair) proxies(n int) []ledger.Proxy {
	p.w.t.Helper()
	all, _ := p.fleet(n)
	return all
}

// hasFleet waits until a standby has the proxies as the holder listed them.
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
