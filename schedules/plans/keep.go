// This file implements the option keep: how many proxies of each group must stay alive.

package plans

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"perennial/ledger/tables"
)

// Keep makes a schedule renew only as many proxies as are required for AtLeast proxies of
// each group to stay alive. The matching proxies are grouped by the fields in Per.
type Keep struct {
	AtLeast int      `yaml:"at_least" doc:"renew only as many proxies of each group as keep this number of them alive; 0: renew all that are due" json:"at_least,omitempty"`
	Per     []string `yaml:"per" absent:"one group" doc:"fields that form the groups: country_code, region, line_name, ip_type, protocol, status" json:"per,omitempty"`
}

// groupFields has the fields that Per may contain.
var groupFields = map[string]func(tables.Proxy) string{
	"country_code": func(p tables.Proxy) string { return p.CountryCode },
	"region":       func(p tables.Proxy) string { return p.Region },
	"line_name":    func(p tables.Proxy) string { return p.LineName },
	"ip_type":      func(p tables.Proxy) string { return p.IPType },
	"protocol":     func(p tables.Proxy) string { return p.Protocol },
	"status":       func(p tables.Proxy) string { return p.Status },
}

func (k Keep) check() error {
	if k.AtLeast < 0 {
		return errors.New("keep.at_least cannot be negative: use 0 to renew everything that is due")
	}
	if k.AtLeast == 0 && len(k.Per) > 0 {
		return errors.New("keep.per without keep.at_least: say how many of each group stay")
	}
	for i, name := range k.Per {
		if groupFields[name] == nil || slices.Contains(k.Per[:i], name) {
			return fmt.Errorf("keep.per: %q is unknown or appears twice: use country_code, region, line_name, ip_type, protocol or status", name)
		}
	}
	return nil
}

// Group returns the key of a proxy's group.
func (k Keep) Group(p tables.Proxy) string {
	parts := make([]string, 0, len(k.Per))
	for _, name := range k.Per {
		parts = append(parts, groupFields[name](p))
	}
	return strings.Join(parts, "\x00")
}

// BeingRenewed reports whether a due proxy stays alive without this plan, because it is
// being renewed. A renewal in review does not count, because it may never succeed. Nor does
// an earlier run's open renewal of a proxy that has already expired.
func (in *Inputs) BeingRenewed(p tables.Proxy) bool {
	switch {
	case in.InReview[p.ProxyID], p.Retired: // a retired proxy does not count, even if an operator renews it
		return false
	case in.Taken[p.ProxyID] || p.Unread():
		return true
	}
	return (in.Claimed[p.ProxyID] || in.OnItsWay[p.ProxyID]) && p.ExpiresAt.After(in.Now)
}
