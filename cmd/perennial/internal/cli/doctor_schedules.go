// The doctor's check of schedules without proxies and of proxies without a schedule.

package cli

import (
	"context"
	"strings"
	"time"

	"perennial/ledger"
	"perennial/schedules"
)

// uncoveredNamed is how many proxies that no schedule covers are named.
const uncoveredNamed = 5

// lists says which list of a schedule is not there: no sweep of it can be made, and no
// run starts.
func (d *doctor) lists() {
	if err := d.config.CheckLists(d.account); err != nil {
		d.bad("lists", err, "put the list where the configuration says: sweeps that need it are not made, and `perennial run` does not start without it")
	}
}

// schedules says which schedules fit no proxy, and which proxies no schedule.
func (d *doctor) schedules(ctx context.Context, l *ledger.Ledger) {
	own := d.config.SchedulesOf(d.account)
	if len(own) == 0 || d.config.CheckLists(d.account) != nil { // lists has said it
		return
	}
	for _, s := range own {
		none, err := schedules.MatchesNone(ctx, l, s, d.config.ReadListFile)
		if err != nil {
			d.bad("schedule "+s.Name, err, "put the list where the configuration says")
			return
		}
		if none != "" {
			d.bad("schedule "+s.Name, none, "compare its match with `perennial proxies list`")
		}
	}
	count, named := 0, []string{}
	err := schedules.Uncovered(ctx, l, time.Now(), own, d.config.ReadListFile, func(p ledger.Proxy) error {
		if count++; count <= uncoveredNamed {
			named = append(named, printable(p.ProxyID))
		}
		return nil
	})
	switch {
	case err != nil:
		d.bad("schedules", err, "run `perennial ledger verify`")
	case count == 0:
		d.ok("schedules", "%d, which cover every living proxy that was listed", len(own))
	default: // it may be meant so
		d.ok("schedules", "%d living proxies are covered by none and will not be renewed, such as %s: see `perennial proxies list --uncovered`", count, strings.Join(named, ", "))
	}
}
