// This file describes the rules of a schedule in words.

package plans

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/ledger/fact"
)

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

// idsNamed is how many ids of a list are shown.
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

// daysOf formats a duration in days if it is a whole number of days, otherwise in hours and
// minutes.
func daysOf(d time.Duration) string {
	if day := 24 * time.Hour; d >= day && d%day == 0 {
		return english.Plural(int(d/day), "day", "")
	}
	text := strings.Replace(d.String(), "m0s", "m", 1)
	return strings.Replace(text, "h0m", "h", 1)
}

// cronWords describes common cron expressions in words, and returns others after the word
// cron.
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

// timesOf describes a cron expression that runs every few minutes, hourly, daily or on
// weekdays. It returns "" for others.
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
