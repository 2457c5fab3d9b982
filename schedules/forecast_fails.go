// The first sweep of a forecast that the wallet does not pay for.

package schedules

import (
	"slices"
	"time"
)

// ForecastSweep is one sweep of a forecast.
type ForecastSweep struct {
	Schedule string `json:"schedule"`
	// Slot is the first one at or after the minute in which its proxies come due.
	Slot         time.Time `json:"slot"`
	ChargeCents  int64     `json:"charge_cents"`
	MissingCents int64     `json:"missing_cents"` // of ChargeCents, when all before it is paid
}

// scheduleCharges are the charges of one schedule, by the minute in which they come due.
type scheduleCharges struct {
	calendar calendar
	cents    map[int64]int64
}

func (c scheduleCharges) add(at time.Time, cents int64) {
	minute := (at.Unix() + 59) / 60
	c.cents[minute] += cents
}

// sweeps are the charges by slot.
func (c scheduleCharges) sweeps() (all []ForecastSweep) {
	minutes := make([]int64, 0, len(c.cents))
	for m := range c.cents {
		minutes = append(minutes, m)
	}
	slices.Sort(minutes)
	for _, m := range minutes {
		due := time.Unix(m*60, 0)
		if n := len(all); n == 0 || all[n-1].Slot.Before(due) {
			slot := c.calendar.Next(due.Add(-time.Second))
			if slot.IsZero() {
				break
			}
			all = append(all, ForecastSweep{Schedule: c.calendar.name, Slot: slot})
		}
		all[len(all)-1].ChargeCents += c.cents[m]
	}
	return all
}

// failsFirst is the first sweep that does not fit into what the wallet has left; nil where
// each does, by its slot.
func (o *outlook) failsFirst(left int64) *ForecastSweep {
	var all []ForecastSweep
	for _, c := range o.sweeps {
		all = append(all, c.sweeps()...)
	}
	slices.SortStableFunc(all, func(a, b ForecastSweep) int { return a.Slot.Compare(b.Slot) })
	for _, x := range all {
		if left -= x.ChargeCents; left < 0 {
			x.MissingCents = -left
			return &x
		}
	}
	return nil
}
