package plans

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones must load on machines without a zone database

	"github.com/dustin/go-humanize/english"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
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
	// Proxies with different labels are in different commands.
	CarryLabels []string `yaml:"carry_labels" absent:"all" doc:"labels that a renewal takes over from the order that bought the proxy; []: no labels" json:"carry_labels,omitempty"`
	Chunk       int      `yaml:"chunk" default:"100" doc:"proxies in one command, 1 to 100" json:"chunk"`
}

var scheduleName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// Validate returns an error that names every fault of the schedule, one on each line. A zero
// Timezone or Chunk means its default.
func (s Schedule) Validate() error { return errors.Join(s.Faults()...) }

// Faults returns the faults of the schedule.
func (s Schedule) Faults() (all []error) {
	if !scheduleName.MatchString(s.Name) {
		return []error{fmt.Errorf("schedule %.80q: name must be 1 to 64 of a-z, 0-9 and -", s.Name)}
	}
	if s.Was != "" && !scheduleName.MatchString(s.Was) {
		all = append(all, fmt.Errorf("schedule %s: was is %.80q: it must be 1 to 64 of a-z, 0-9 and -, the name that the schedule had", s.Name, s.Was))
	}
	for _, err := range s.faults() {
		if err != nil {
			all = append(all, fmt.Errorf("schedule %s: %w", s.Name, err))
		}
	}
	return all
}

func (s Schedule) faults() (all []error) {
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	add(s.Account == "", "account is empty: name the account whose proxies it renews")
	_, err := s.Calendar()
	all = append(all, err)
	days := s.DurationDays > 0 && s.DurationDays%upstream.DayStep == 0 && s.DurationDays <= upstream.MaxRenewDays
	add(!days, "duration_days is %d: use a multiple of %d, at most 1080", s.DurationDays, upstream.DayStep)
	add(s.RenewBefore < time.Minute, "renew_before is %s: use a time before the expiry, a minute at least, such as 72h", s.RenewBefore)
	add(days && s.RenewBefore >= time.Duration(s.DurationDays)*fact.Day, "renew_before is %s and duration_days %d: a renewed proxy would be due again at once; make renew_before shorter than the duration",
		s.RenewBefore, s.DurationDays)
	add(min(s.BudgetCents, s.DailyBudgetCents, s.MonthlyBudgetCents, s.ApproveOverCents) < 0,
		"budget_cents, daily_budget_cents, monthly_budget_cents and approve_over_cents cannot be negative: use 0 for none")
	add(s.Chunk < 0 || s.Chunk > maxChunk, "chunk is %d: use 1 to %d, or leave it out for %d", s.Chunk, maxChunk, defaultChunk)
	return append(all, s.Match.check(), s.Keep.check(), s.Replace.check(), s.checkLabels())
}

// Late returns a warning if a proxy may come due and expire between two runs. Otherwise it
// returns "".
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

// CheckRenames returns an error for the first schedule whose earlier name (Was) is not allowed.
// It must not be the schedule's own name, the name of a configured schedule, or the earlier name
// of another schedule.
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

// Keep limits the renewals of a schedule. In each group, only as many proxies are renewed as are
// needed to keep AtLeast proxies alive. The fields in Per form the groups of the matching
// proxies.
type Keep struct {
	AtLeast int      `yaml:"at_least" doc:"renew only as many proxies of each group as keep this number of them alive; 0: renew all that are due" json:"at_least,omitempty"`
	Per     []string `yaml:"per" absent:"one group" doc:"fields that form the groups: country_code, region, line_name, ip_type, protocol, status" json:"per,omitempty"`
}

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

// BeingRenewed reports whether a due proxy stays alive without this plan, because it is being
// renewed. A renewal in review does not count, because it may never succeed. An earlier run's
// open renewal of an expired proxy does not count either.
func (in *Inputs) BeingRenewed(p tables.Proxy) bool {
	switch {
	case in.InReview[p.ProxyID], p.Retired: // a retired proxy does not count, even if an operator renews it
		return false
	case in.Taken[p.ProxyID] || p.Unread():
		return true
	}
	return (in.Claimed[p.ProxyID] || in.OnItsWay[p.ProxyID]) && p.ExpiresAt.After(in.Now)
}

// Rule is one rule of a schedule, in words.
type Rule struct{ Name, Text string }

// Rules describes what the schedule renews, when, and what it may spend.
func (s Schedule) Rules(currency string) []Rule {
	all := []Rule{
		{"Renews", s.Match.words()},
		{"Due", daysOf(s.RenewBefore) + " before a proxy expires"},
		{"For", english.Plural(int(s.DurationDays), "day", "")},
		{"Runs", cronWords(s.Cron) + ", " + s.zone()},
		{"Budget", s.budgetWords(currency)},
		{"Approval", "not needed"},
	}
	if s.ApproveOverCents > 0 {
		all[len(all)-1].Text = "needed over " + fact.Amount(s.ApproveOverCents, currency) + " a run"
	}
	if s.Keep.AtLeast > 0 {
		of := "of them"
		if len(s.Keep.Per) > 0 {
			of = "of each " + english.WordSeries(s.Keep.Per, "and")
		}
		all = append(all, Rule{"Keeps", fmt.Sprintf("renews only as many as it takes for %d %s to stay", s.Keep.AtLeast, of)})
	}
	if s.Replace.Enabled {
		all = append(all, Rule{"Replaces", "orders another one, for at most " + fact.Amount(s.Replace.MaxCents, currency) + ", for a proxy that is not renewed"})
	}
	return all
}

func (s Schedule) zone() string {
	if s.Timezone == "" {
		return "UTC"
	}
	return s.Timezone
}

func (s Schedule) budgetWords(currency string) string {
	var all []string
	for _, x := range []struct {
		cents int64
		of    string
	}{{s.BudgetCents, "a run"}, {s.DailyBudgetCents, "a day"}, {s.MonthlyBudgetCents, "a month"}} {
		if x.cents > 0 {
			all = append(all, fact.Amount(x.cents, currency)+" "+x.of)
		}
	}
	if len(all) == 0 {
		return "no limit"
	}
	return "at most " + english.WordSeries(all, "and")
}

const idsNamed = 5

func (m Match) words() string {
	var all []string
	for _, x := range []struct {
		name string
		list []string
	}{{"country", m.CountryCode}, {"region", m.Region}, {"line", m.LineName}, {"IP type", m.IPType}, {"protocol", m.Protocol}, {"status", m.Status}} {
		if len(x.list) > 0 {
			all = append(all, x.name+" "+english.WordSeries(x.list, "or"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		all = append(all, "label "+name+"="+m.Labels[name])
	}
	if m.StartsFrom != "" {
		all = append(all, "started from "+m.StartsFrom+" on")
	}
	if m.StartsBefore != "" {
		all = append(all, "started before "+m.StartsBefore)
	}
	if ids := idsWords(m.ProxyIDs, m.ProxyIDsFile); ids != "" {
		all = append(all, "only "+ids)
	}
	if ids := idsWords(m.ExceptProxyIDs, m.ExceptProxyIDsFile); ids != "" {
		all = append(all, "except "+ids)
	}
	if len(all) == 0 {
		return "every proxy of the account"
	}
	return "proxies: " + strings.Join(all, "; ")
}

func idsWords(ids []string, file string) string {
	all := slices.Clone(ids[:min(len(ids), idsNamed)])
	if more := len(ids) - idsNamed; more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	if file != "" {
		all = append(all, "those in "+file)
	}
	return english.WordSeries(all, "and")
}

func daysOf(d time.Duration) string {
	if day := 24 * time.Hour; d >= day && d%day == 0 {
		return english.Plural(int(d/day), "day", "")
	}
	text := strings.Replace(d.String(), "m0s", "m", 1)
	return strings.Replace(text, "h0m", "h", 1)
}

// cronWords describes common cron expressions in words. For other expressions it returns the word
// "cron" and the expression.
func cronWords(text string) string {
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		return "every " + every
	}
	if word, ok := map[string]string{"@hourly": "every hour", "@daily": "every day at 00:00", "@midnight": "every day at 00:00", "@weekly": "every Sunday at 00:00"}[text]; ok {
		return word
	}
	f := strings.Fields(text)
	if len(f) == 6 && f[0] == "0" {
		f = f[1:]
	}
	if len(f) == 5 && f[2] == "*" && f[3] == "*" {
		if words := timesOf(f); words != "" {
			return words
		}
	}
	return "cron " + text
}

// timesOf describes a cron expression that runs every few minutes, hourly, daily or on weekdays.
// It returns "" for any other.
func timesOf(f []string) string {
	minute, err := strconv.Atoi(f[0])
	hour, errHour := strconv.Atoi(f[1])
	day, errDay := strconv.Atoi(f[4])
	at := fmt.Sprintf("%02d:%02d", hour, minute)
	steps, stepped := strings.CutPrefix(f[0], "*/")
	switch {
	case stepped && f[1] == "*" && f[4] == "*":
		return "every " + steps + " minutes"
	case err != nil:
	case f[1] == "*" && f[4] == "*":
		return fmt.Sprintf("every hour at minute %d", minute)
	case errHour != nil:
	case f[4] == "*":
		return "every day at " + at
	case f[4] == "1-5":
		return "Monday to Friday at " + at
	case errDay == nil:
		return "every " + time.Weekday(day%7).String() + " at " + at
	}
	return ""
}
