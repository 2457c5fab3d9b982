// Schedule, one entry of the configuration, and its validation.

package schedules

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"time"
	_ "time/tzdata" // zones must load on machines without a zone database

	"perennial/upstream"
)

// Bounds of a schedule. The provider's are from customer-api.md, Limits.
const (
	defaultChunk = 100
	maxChunk     = 100
	day          = 24 * time.Hour
)

// Schedule says which proxies of an account are renewed, when and for how long.
type Schedule struct {
	Name     string `koanf:"name" json:"name"`         // [a-z0-9-]{1,64}
	Was      string `koanf:"was" json:"was,omitempty"` // its name of before: slots, spending, held plan and pause are carried over
	Account  string `koanf:"account" json:"account"`   // the configured account it sweeps
	Cron     string `koanf:"cron" json:"cron"`         // 5 fields, 6 with seconds first, or a descriptor such as @hourly, @every 10m
	Timezone string `koanf:"timezone" json:"timezone"` // an IANA name; default UTC
	// RenewBefore is how long before its expiry a proxy is due. It must be
	// shorter than DurationDays, or a renewed proxy would be due again at once.
	RenewBefore  time.Duration `koanf:"renew_before" json:"renew_before"`
	DurationDays int64         `koanf:"duration_days" json:"duration_days"` // multiple of 30, at most 1095
	Match        Match         `koanf:"match" json:"match"`
	Keep         Keep          `koanf:"keep" json:"keep"`
	BudgetCents  int64         `koanf:"budget_cents" json:"budget_cents"` // the most one sweep may cost; 0: no limit
	// The most that the sweeps of a day, or of a month, in Timezone may cost; 0: no limit.
	DailyBudgetCents   int64   `koanf:"daily_budget_cents" json:"daily_budget_cents"`
	MonthlyBudgetCents int64   `koanf:"monthly_budget_cents" json:"monthly_budget_cents"`
	ApproveOverCents   int64   `koanf:"approve_over_cents" json:"approve_over_cents"` // a dearer sweep waits for a person; 0: none does
	Replace            Replace `koanf:"replace" json:"replace"`
	// CarryLabels names the labels of the order that bought a proxy which its
	// renewals carry too; default: all of them, [] is none. Proxies of different
	// labels are renewed by different commands.
	CarryLabels []string `koanf:"carry_labels" json:"carry_labels,omitempty"`
	Chunk       int      `koanf:"chunk" json:"chunk"` // proxies in a command, 1 to 100; default 100
}

var scheduleName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// Validate names the first field that cannot work, and the fix. Zero values of
// Timezone and Chunk mean their defaults.
func (s Schedule) Validate() error {
	if !scheduleName.MatchString(s.Name) {
		return fmt.Errorf("schedule %.80q: name must be 1 to 64 of a-z, 0-9 and -", s.Name)
	}
	if s.Was != "" && !scheduleName.MatchString(s.Was) {
		return fmt.Errorf("schedule %s: was is %.80q: it must be 1 to 64 of a-z, 0-9 and -, the name that the schedule had", s.Name, s.Was)
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("schedule %s: %w", s.Name, err)
	}
	return nil
}

func (s Schedule) check() error {
	if s.Account == "" {
		return errors.New("account is empty: name the account whose proxies it renews")
	}
	if _, err := s.calendar(); err != nil {
		return err
	}
	if s.DurationDays <= 0 || s.DurationDays%upstream.DayStep != 0 || s.DurationDays > upstream.MaxRenewDays {
		return fmt.Errorf("duration_days is %d: use a multiple of %d, at most 1080", s.DurationDays, upstream.DayStep)
	}
	if s.RenewBefore < time.Minute {
		return fmt.Errorf("renew_before is %s: use a time before the expiry, a minute at least, such as 72h", s.RenewBefore)
	}
	if s.RenewBefore >= time.Duration(s.DurationDays)*day {
		return fmt.Errorf("renew_before is %s and duration_days %d: a renewed proxy would be due again at once, for ever; make renew_before shorter than the duration",
			s.RenewBefore, s.DurationDays)
	}
	if min(s.BudgetCents, s.DailyBudgetCents, s.MonthlyBudgetCents, s.ApproveOverCents) < 0 {
		return errors.New("budget_cents, daily_budget_cents, monthly_budget_cents and approve_over_cents cannot be negative: use 0 for none")
	}
	if err := errors.Join(s.Match.check(), s.Keep.check(), s.Replace.check(), s.checkLabels()); err != nil {
		return err
	}
	if s.Chunk < 0 || s.Chunk > maxChunk {
		return fmt.Errorf("chunk is %d: use 1 to %d, or leave it out for %d", s.Chunk, maxChunk, defaultChunk)
	}
	return nil
}

// Late says that what comes due between two slots may expire before the second of them; "" where no two slots are so far apart.
func (s Schedule) Late(now time.Time) string {
	c, err := s.calendar()
	if err != nil {
		return ""
	}
	from, until := c.gap(now, s.RenewBefore)
	if from.IsZero() {
		return ""
	}
	const form = "Mon 2006-01-02 15:04 MST"
	return fmt.Sprintf("renew_before is %s, and no slot comes between %s and %s: a proxy that comes due after the first may expire before the second, %s later",
		s.RenewBefore, from.In(c.zone).Format(form), until.In(c.zone).Format(form), until.Sub(from))
}

// CheckRenames names the first schedule of an account whose earlier name cannot be its own.
func CheckRenames(all []Schedule) error {
	names, was := map[string]bool{}, map[string]string{}
	for _, s := range all {
		names[s.Name] = true
	}
	for _, s := range all {
		switch other := was[s.Was]; {
		case s.Was == "":
			continue
		case s.Was == s.Name:
			return fmt.Errorf("schedule %s: was is its own name: remove it", s.Name)
		case names[s.Was]:
			return fmt.Errorf("schedule %s: was is %s, which is configured: only a schedule that was removed can be carried over", s.Name, s.Was)
		case other != "":
			return fmt.Errorf("schedule %s: was is %s, which is that of %s too: one schedule has what another had", s.Name, s.Was, other)
		}
		was[s.Was] = s.Name
	}
	return nil
}

func (s Schedule) chunk() int { return cmp.Or(s.Chunk, defaultChunk) }
