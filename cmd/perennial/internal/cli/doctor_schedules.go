// The doctor's check of schedules without proxies and proxies without a schedule.

package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/ledger"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
)

// uncoveredNamed limits how many unscheduled proxies a finding lists.
const uncoveredNamed = 5

// lists reports a missing list of proxies that a schedule refers to. Without the list, the
// schedule cannot run and `perennial run` does not start.
func (d *doctor) lists() {
	if err := d.config.CheckLists(d.account); err != nil {
		d.bad("lists", err, "put the list where the configuration says: runs that need it fail, and `perennial run` does not start without it")
	}
}

// schedules reports schedules that match no proxy and proxies that no schedule matches.
func (d *doctor) schedules(ctx context.Context, l *ledger.Ledger) {
	own := d.config.SchedulesOf(d.account)
	d.removed(ctx, l, own)
	d.slots(ctx, l, own)
	if d.config.CheckLists(d.account) != nil { // lists reports the missing list
		return
	}
	if last, err := l.Fleet.Listing(ctx); err == nil && last.Finished.IsZero() {
		d.warn("schedules", "no listing of the proxies has ended yet, so what no schedule renews is not known", "start `perennial run`, and look again")
		return
	}
	for _, s := range own {
		none, err := schedules.MatchesNone(ctx, l.Fleet, s, d.config.ReadListFile)
		if err != nil {
			d.bad("schedule "+s.Name, err, "put the list where the configuration says")
			return
		}
		if none != "" {
			d.bad("schedule "+s.Name, none, "compare its match with `perennial proxies list`")
		}
	}
	count, named := 0, []string{}
	err := schedules.Uncovered(ctx, l.Fleet, time.Now(), own, d.config.ReadListFile, func(p tables.Proxy) error {
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
		d.warn("schedules", fmt.Sprintf("none is configured: %s will not be renewed, such as %s", english.Plural(count, "living proxy", "living proxies"), strings.Join(named, ", ")),
			"see `perennial proxies list --uncovered`, and add a schedule")
	default: // only a warning, because the operator may want this
		d.warn("schedules", fmt.Sprintf("%s in no schedule and will not be renewed, such as %s", english.Plural(count, "living proxy is", "living proxies are"), strings.Join(named, ", ")),
			"see `perennial proxies list --uncovered`, and widen a schedule's match, or retire them")
	}
}

// slots reports schedules that run too rarely, or that did not run at their scheduled times.
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

// removed reports plans and pauses of schedules that are no longer configured.
func (d *doctor) removed(ctx context.Context, l *ledger.Ledger, own []plans.Schedule) {
	all, err := schedules.RemovedOf(ctx, l, time.Now(), own)
	if err != nil {
		d.bad("schedules", err, "run `perennial ledger verify`")
	}
	for _, x := range all {
		d.warn("schedule "+x.Schedule, x.Text, x.Advice)
	}
}
