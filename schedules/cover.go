// Which listed proxies no schedule renews, and schedules that match none.

package schedules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"perennial/ledger"
)

// proxyTable is the table of listed proxies; *ledger.Ledger is one.
type proxyTable interface {
	Staying(ctx context.Context, after time.Time, yield func(ledger.Proxy) error) error
}

// set names the fields of the match that narrow it.
func (m Match) set() (names []string) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"country_code", len(m.CountryCode) > 0}, {"region", len(m.Region) > 0}, {"line_name", len(m.LineName) > 0}, {"ip_type", len(m.IPType) > 0},
		{"protocol", len(m.Protocol) > 0}, {"status", len(m.Status) > 0}, {"starts_from", m.StartsFrom != ""}, {"starts_before", m.StartsBefore != ""},
		{"labels", len(m.Labels) > 0}, {"proxy_ids", len(m.ProxyIDs) > 0}, {"proxy_ids_file", m.ProxyIDsFile != ""},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return names
}

// errMatched ends a search.
var errMatched = errors.New("a proxy matches")

// MatchesNone says that a schedule's match fits no listed proxy, which often means a
// misspelt country; "" when it fits one, or nothing is listed. The search ends at the
// first that fits.
func MatchesNone(ctx context.Context, f proxyTable, s Schedule, read func(name string) ([]byte, error)) (string, error) {
	if len(s.Match.set()) == 0 {
		return "", nil
	}
	lists, err := s.Match.readLists(read)
	if err != nil {
		return "", err
	}
	fits, listed := s.Match.filter(lists), 0
	err = f.Staying(ctx, time.Time{}, func(p ledger.Proxy) error {
		if listed++; fits.about(p) {
			return errMatched
		}
		return nil
	})
	if errors.Is(err, errMatched) || err == nil && listed == 0 {
		return "", nil
	}
	return fmt.Sprintf("its match fits none of the %d listed proxies: is %s written right?", listed, strings.Join(s.Match.set(), ", ")), err
}

// Uncovered calls yield for every listed proxy that expires after now and that no
// schedule renews: it will be lost. Retired proxies and those that never expire are left
// out.
func Uncovered(ctx context.Context, f proxyTable, now time.Time, all []Schedule, read func(name string) ([]byte, error), yield func(ledger.Proxy) error) error {
	c, err := NewCoverage(all, nil, read)
	if err != nil {
		return err
	}
	return f.Staying(ctx, now, func(p ledger.Proxy) error {
		if _, covered := c.Of(p); covered || !c.Needs(p) {
			return nil
		}
		return yield(p)
	})
}
