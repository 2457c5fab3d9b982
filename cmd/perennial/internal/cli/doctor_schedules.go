// The doctor's check of schedules without proxies and of proxies without a schedule.

package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"perennial/ledger"
	"perennial/schedules"
	"perennial/schedules/plans"
)

// uncoveredNamed is how many proxies that no schedule covers are named.
const uncoveredNamed = 5

// lists says which list of a schedule is not there: no sweep of it can be made, and no
// run starts.
func (d *doctor) lists() {
	if err := d.config.CheckLists(d.account); err != nil {
		d.bad("lists", err, "put the list where the configuration says: runs that need it fail, and `perennial run` does not start without it")
	}
}

// schedules says which schedules fit no proxy, and which proxies no schedule.
func (d *doctor) schedules(ctx context.Context, l *ledger.Ledger) {
	own := d.config.SchedulesOf(d.account)
	d.removed(ctx, l, own)
	d.slots(ctx, l, own)
	if d.config.CheckLists(d.account) != nil { // lists has said it
		return
	}
	if last, err := l.Listing(ctx); err == nil && last.Finished.IsZero() {
		d.warn("schedules", "no listing of the proxies has ended yet, so what no schedule renews is not known", "start `perennial run`, and look again")
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
	case count == 0 && len(own) == 0:
		d.ok("schedules", "none, and no living proxy was listed")
	case count == 0:
		d.ok("schedules", "%d, which cover every living proxy that was listed", len(own))
	case len(own) == 0:
		d.warn("schedules", fmt.Sprintf("none is configured: %d living proxies will not be renewed, such as %s", count, strings.Join(named, ", ")),
			"see `perennial proxies list --uncovered`, and add a schedule")
	default: // it may be meant so
		d.warn("schedules", fmt.Sprintf("%d living proxies are in no schedule and will not be renewed, such as %s", count, strings.Join(named, ", ")),
			"see `perennial proxies list --uncovered`, and widen a schedule's match, or retire them")
	}
}

// slots says where slots are too seldom, and where they pass without a sweep.
func (d *doctor) slots(ctx context.Context, l *ledger.Ledger, own []plans.Schedule) {
	for _, s := range own {
		if late := s.Late(time.Now()); late != "" {
			d.warn("schedule "+s.Name, late, "lengthen renew_before, or run more often")
		}
		if silent, err := schedules.Silent(ctx, l, time.Now(), s); err == nil && silent != "" {
			d.warn("schedule "+s.Name, silent, "start `perennial run`; where it runs, `/readyz` and `perennial schedules list` say what is in the way")
		}
	}
}

// removed says what still counts of schedules that are not configured any more.
func (d *doctor) removed(ctx context.Context, l *ledger.Ledger, own []plans.Schedule) {
	all, err := schedules.RemovedOf(ctx, l, time.Now(), own)
	if err != nil {
		d.bad("schedules", err, "run `perennial ledger verify`")
	}
	for _, x := range all {
		d.warn("schedule "+x.Schedule, x.Text, x.Advice)
	}
}
