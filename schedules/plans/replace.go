// This file implements the option replace of a schedule, and chooses the offer.

package plans

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// Replace says whether and how a proxy that the provider refuses to renew is replaced. It is
// off by default, because it buys proxies.
type Replace struct {
	Enabled  bool  `yaml:"enabled" doc:"order a replacement for a proxy that cannot be renewed" json:"enabled,omitempty"`
	MaxCents int64 `yaml:"max_cents" doc:"the most that one replacement may cost (max_total_cents of its order); required if enabled" json:"max_cents,omitempty"`
	PerDay   int   `yaml:"per_day" absent:"10" doc:"the most replacements in a day of timezone" json:"per_day,omitempty"`
	// A proxy that the provider does not know is replaced without waiting for failed renewals.
	After int `yaml:"after" absent:"3" doc:"how many renewals must fail before a proxy is replaced" json:"after,omitempty"`
}

const (
	DefaultReplacePerDay = 10
	DefaultReplaceAfter  = 3
)

func (p Replace) check() error {
	if p.Enabled && p.MaxCents <= 0 {
		return errors.New("replace.max_cents is missing: say what one replacement may cost at most")
	}
	if p.MaxCents < 0 || p.PerDay < 0 || p.After < 0 || p.After > MaxEndings {
		return fmt.Errorf("replace: max_cents and per_day cannot be negative, and after is 1 to %d", MaxEndings)
	}
	return nil
}

// BestOffer returns the cheapest offer of the same country, line, type and protocol that
// costs at most ceiling cents. It prefers offers of the same region, even if they cost more.
func BestOffer(offers []upstream.Offer, p tables.Proxy, days, ceiling int64) (upstream.Offer, bool) {
	cost := func(o upstream.Offer) int64 { return offerCost(o, days) }
	fitting := slices.DeleteFunc(slices.Clone(offers), func(o upstream.Offer) bool {
		return !command.ValidID(o.OfferCode) || !offersLike(o, p, days) || cost(o) > ceiling
	})
	if len(fitting) == 0 {
		return upstream.Offer{}, false
	}
	elsewhere := func(o upstream.Offer) int {
		if o.Region == p.Region {
			return 0
		}
		return 1
	}
	return slices.MinFunc(fitting, func(a, b upstream.Offer) int {
		return cmp.Or(elsewhere(a)-elsewhere(b), cmp.Compare(cost(a), cost(b)), strings.Compare(a.OfferCode, b.OfferCode))
	}), true
}

// ReplacementID returns the id of the order that replaces a proxy. It is a hash of the
// schedule, the proxy and its expiry, so that a schedule replaces a proxy only once per
// expiry.
func ReplacementID(s Schedule, p tables.Proxy) string {
	h := fact.AppendField(newHash(s.Name), p.ProxyID)
	h = binary.BigEndian.AppendUint64(h, uint64(p.ExpiresAt.UnixMicro()))
	return hashedID("replace-"+s.Name+"-", h)
}
