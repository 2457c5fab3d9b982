// This file finds the first forecast run that the wallet cannot pay.

package schedules

import (
	"cmp"
	"slices"
	"time"

	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

// ForecastSweep is one run of a forecast.
type ForecastSweep struct {
	Schedule     string     `json:"schedule" doc:"The name of the schedule."`
	Slot         time.Time  `json:"slot" doc:"The scheduled time."`
	ChargeCents  fact.Cents `json:"charge_cents"`
	Unpriced     int        `json:"unpriced" doc:"The number of its renewals of unknown price; 'charge_cents' does not include them."`
	MissingCents int64      `json:"missing_cents" doc:"The part of 'charge_cents' that is missing after all earlier runs are paid."`
}

// foreseenSweep is a run with the sum of its charges.
type foreseenSweep struct {
	ForecastSweep

	sum fact.Sum
}

// scheduleCharges has the charges of one schedule, by the Unix second of their slot.
type scheduleCharges struct {
	calendar plans.Calendar
	slots    map[int64]time.Time // cache: the first slot at or after each minute
	sums     map[int64]fact.Sum
}

// slot returns the first slot at or after due, where due is rounded up to a minute. Slots
// are cached by minute, because in a large fleet many proxies come due in the same minute.
func (c scheduleCharges) slot(due time.Time) time.Time {
	minute := (due.Unix() + 59) / 60
	slot, known := c.slots[minute]
	if !known {
		slot = c.calendar.Next(time.Unix(minute*60-1, 0))
		c.slots[minute] = slot
	}
	return slot
}

func (c scheduleCharges) add(slot time.Time, charge fact.Sum) {
	c.sums[slot.Unix()] = c.sums[slot.Unix()].Join(charge)
}

// sweeps returns the charges by slot.
func (c scheduleCharges) sweeps() (all []foreseenSweep) {
	for at, sum := range c.sums {
		all = append(all, foreseenSweep{ForecastSweep{Schedule: c.calendar.Name, Slot: time.Unix(at, 0).UTC()}, sum})
	}
	return all
}

// failsFirst returns the first run that costs more than the wallet has left after the
// earlier runs, or nil.
func (o *outlook) failsFirst(left int64) *ForecastSweep {
	var all []foreseenSweep
	for _, c := range o.sweeps {
		all = append(all, c.sweeps()...)
	}
	slices.SortStableFunc(all, func(a, b foreseenSweep) int {
		return cmp.Or(a.Slot.Compare(b.Slot), cmp.Compare(a.Schedule, b.Schedule))
	})
	for _, x := range all {
		if left -= x.sum.Cents; left < 0 {
			x.ChargeCents, x.Unpriced, x.MissingCents = x.sum.Total(), x.sum.Lacks, -left
			return &x.ForecastSweep
		}
	}
	return nil
}
