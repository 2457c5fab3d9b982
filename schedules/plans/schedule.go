// This file has Schedule, an entry of the configuration, and its validation.

package plans

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"time"
	_ "time/tzdata" // zones must load on machines without a zone database

	"perennial/ledger/fact"
	"perennial/upstream"
)

// Limits of a schedule. The provider's limits are in customer-api.md, Limits.
const (
	defaultChunk = 100
	maxChunk     = 100
)

// Schedule says which proxies of an account are renewed, when and for how long.
type Schedule struct {
	Name     string `yaml:"name" absent:"required" doc:"name of the schedule: 1 to 64 of a-z, 0-9 and -" json:"name"`
	Was      string `yaml:"was" doc:"previous name; its spending, plan that needs approval and pause are carried over" json:"was,omitempty"`
	Account  string `yaml:"account" default:"main" doc:"the account whose proxies the schedule renews" json:"account"`
	Cron     string `yaml:"cron" absent:"required" doc:"when it runs: five fields, six with seconds first, or a word such as @hourly or @every 15m" json:"cron"`
	Timezone string `yaml:"timezone" default:"UTC" doc:"IANA name, for cron and the budgets" json:"timezone"`
	// RenewBefore must be shorter than DurationDays. Otherwise a proxy would still be due
	// right after its renewal.
	RenewBefore  time.Duration `yaml:"renew_before" absent:"required" doc:"how long before its expiry a proxy is due; shorter than duration_days" json:"renew_before"`
	DurationDays int64         `yaml:"duration_days" absent:"required" doc:"how many days a renewal adds: a multiple of 30, at most 1080" json:"duration_days"`
	Match        Match         `yaml:"match" json:"match"`
	Keep         Keep          `yaml:"keep" json:"keep"`
	BudgetCents  int64         `yaml:"budget_cents" doc:"the most that one run may cost; 0: no limit" json:"budget_cents"`
	// Days and months are in Timezone.
	DailyBudgetCents   int64   `yaml:"daily_budget_cents" doc:"the most that all runs of a day may cost; 0: no limit" json:"daily_budget_cents"`
	MonthlyBudgetCents int64   `yaml:"monthly_budget_cents" doc:"the most that all runs of a month may cost; 0: no limit" json:"monthly_budget_cents"`
	ApproveOverCents   int64   `yaml:"approve_over_cents" doc:"a plan that costs more needs approval; 0: no plan needs approval" json:"approve_over_cents"`
	Replace            Replace `yaml:"replace" json:"replace"`
	// Proxies with different labels are renewed by different commands.
	CarryLabels []string `yaml:"carry_labels" absent:"all" doc:"labels that a renewal takes over from the order that bought the proxy; []: no labels" json:"carry_labels,omitempty"`
	Chunk       int      `yaml:"chunk" default:"100" doc:"proxies in one command, 1 to 100" json:"chunk"`
}

var scheduleName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// Validate returns an error that names the invalid field and says what to do. A zero
// Timezone or Chunk means its default.
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
	if _, err := s.Calendar(); err != nil {
		return err
	}
	if s.DurationDays <= 0 || s.DurationDays%upstream.DayStep != 0 || s.DurationDays > upstream.MaxRenewDays {
		return fmt.Errorf("duration_days is %d: use a multiple of %d, at most 1080", s.DurationDays, upstream.DayStep)
	}
	if s.RenewBefore < time.Minute {
		return fmt.Errorf("renew_before is %s: use a time before the expiry, a minute at least, such as 72h", s.RenewBefore)
	}
	if s.RenewBefore >= time.Duration(s.DurationDays)*fact.Day {
		return fmt.Errorf("renew_before is %s and duration_days %d: a renewed proxy would be due again at once; make renew_before shorter than the duration",
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

// Late returns a warning if a proxy may come due and expire between two runs, otherwise "".
func (s Schedule) Late(now time.Time) string {
	c, err := s.Calendar()
	if err != nil {
		return ""
	}
	from, until := c.Gap(now, s.RenewBefore)
	if from.IsZero() {
		return ""
	}
	const form = "Mon 2006-01-02 15:04 MST"
	return fmt.Sprintf("renew_before is %s, and no run comes between %s and %s: a proxy that becomes due after the first may expire before the second, %s later",
		s.RenewBefore, from.In(c.Zone).Format(form), until.In(c.Zone).Format(form), until.Sub(from))
}

// CheckRenames returns an error for the first schedule of an account whose earlier name
// (was) is not allowed.
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
