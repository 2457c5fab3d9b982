package plans

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// Limit is a money limit of a plan.
type Limit struct {
	Reason  string // why it skips proxies
	Cents   int64  // amount of the limit
	Room    int64  // amount left
	aside   int64  // the part of Room for proxies that wait for their price, at list prices
	missing fact.Sum
	refused fact.Sum  // cost of proxies that the provider refused for lack of money
	first   time.Time // expiry of the first skipped proxy
	left    int       // number of skipped proxies
	listed  int       // skipped proxies that count at a list price
	no      int       // skipped proxies that the provider refused
}

// Shortfall describes the proxies that one limit skips.
type Shortfall struct {
	Reason      string     `json:"reason" doc:"The reason, for people; the text may change."`
	Proxies     int        `json:"proxies" doc:"The number of proxies."`
	LimitCents  int64      `json:"limit_cents" doc:"'limit_cents' is the budget, or the balance of the wallet."`
	Cents       fact.Cents `json:"shortfall_cents" doc:"'shortfall_cents' is by how much the limit is too low for all these proxies, without proxies of unknown price; omitted if those alone exceed the limit."`
	Refused     int        `json:"refused,omitempty" doc:"'refused' counts the proxies that the provider refused for lack of money within the last 15 minutes, whatever the wallet shows."`
	Unpriced    int        `json:"unpriced,omitempty" doc:"'unpriced' counts the proxies of unknown price."`
	Listed      int        `json:"listed,omitempty" doc:"'listed' counts the proxies for which no renewal was paid yet, so that their list price counts."`
	FirstLostAt time.Time  `json:"first_lost_at" doc:"'first_lost_at' is when the first of these proxies expires."`
}

// Limits returns the limits of the schedule, the account and the wallet. If a proxy exceeds
// several limits, only the first is reported.
func (in *Inputs) Limits() (all []*Limit) {
	s := in.Schedule
	for _, b := range []struct {
		reason        string
		budget, spent int64
	}{
		{ReasonBudget, s.BudgetCents, in.SpentCents},
		{ReasonDay, s.DailyBudgetCents, in.SpentTodayCents},
		{ReasonMonth, s.MonthlyBudgetCents, in.SpentMonthCents},
	} {
		if b.budget > 0 {
			all = append(all, &Limit{Reason: b.reason, Cents: b.budget, Room: b.budget - b.spent})
		}
	}
	if in.LimitCents > 0 {
		all = append(all, &Limit{Reason: ReasonLimit, Cents: in.LimitCents, Room: in.LimitCents - in.LimitSpentCents})
	}
	if in.WalletCents != nil {
		all = append(all, &Limit{Reason: ReasonWallet, Cents: *in.WalletCents, Room: *in.WalletCents - in.ReservedCents})
	}
	return all
}

func (p *planner) limitOf(why string) *Limit {
	for _, l := range p.limits {
		if l.Reason == why {
			return l
		}
	}
	return nil
}

// Returns the first limit that a cost exceeds. It returns nil if the cost exceeds no limit. An
// unknown cost exceeds a limit if nothing is left of the limit.
func over(limits []*Limit, cost Price) *Limit {
	for _, l := range limits {
		if l.takes(cost) > l.Room-l.aside || (!cost.Cents.Known() && l.Room-l.aside <= 0) {
			return l
		}
	}
	return nil
}

// setAside sets aside the list price of a proxy that waits for its price, so that a proxy that expires
// later does not get the money. It sets nothing aside if the list price is unknown or exceeds a limit, or if the
// price is learned only after a review is answered.
func (p *planner) setAside(ctx context.Context, proxy tables.Proxy) {
	if p.in.UnpricedOpen >= unpricedMost {
		return
	}
	cost := Price{list: p.limitedListPrice(ctx, proxy)}
	if !cost.list.Known() || over(p.limits, cost) != nil {
		return
	}
	for _, l := range p.limits {
		l.aside += l.takes(cost)
	}
}

// limitedListPrice returns the list price of a proxy if it counts against a limit.
func (p *planner) limitedListPrice(ctx context.Context, proxy tables.Proxy) (price fact.Cents) {
	if p.in.ListPrice != nil && (p.frugal || p.in.LimitCents > 0) {
		price = p.in.ListPrice(ctx, proxy)
	}
	return price
}

// Returns how much of the limit a cost uses. A list price does not count against the wallet,
// because the provider checks the wallet with its own price.
func (l *Limit) takes(cost Price) int64 {
	if l.Reason == ReasonWallet {
		return cost.Cents.Or(0)
	}
	return cost.counts().Or(0)
}

func (l *Limit) leaveOut(one tooDear) {
	if at := one.proxy.ExpiresAt.UTC(); l.left == 0 || at.Before(l.first) {
		l.first = at
	}
	l.left++
	if one.cost.list.Known() {
		l.listed++
	}
	if one.refused {
		l.no++
		l.refused = l.refused.Add(one.cost.counts())
		return
	}
	l.missing = l.missing.Add(one.cost.counts())
}

// Returns the shortfall of each limit that skipped proxies. What is left of the limit is
// subtracted from the cost of the skipped proxies.
func shortfalls(limits []*Limit) []Shortfall {
	all := []Shortfall{}
	for _, l := range limits {
		if l.left == 0 {
			continue
		}
		missing := l.missing
		missing.Cents = max(missing.Cents-l.Room+l.aside, 0) + l.refused.Cents
		missing.Lacks += l.refused.Lacks
		all = append(all, Shortfall{Reason: l.Reason, Proxies: l.left, LimitCents: l.Cents, Cents: missing.Total(), Unpriced: missing.Lacks, Listed: l.listed, Refused: l.no, FirstLostAt: l.first})
	}
	return all
}

// LimitNames maps the reason of a skip to the name of its limit.
var LimitNames = map[string]string{
	ReasonBudget: "budget_cents", ReasonDay: "daily_budget_cents", ReasonMonth: "monthly_budget_cents", ReasonLimit: "daily_limit_cents", ReasonWallet: "the wallet",
}

// limitTexts maps the name of a limit to a text for people.
var limitTexts = map[string]string{
	"budget_cents": "budget of a run", "daily_budget_cents": "budget of the day", "monthly_budget_cents": "budget of the month",
	"daily_limit_cents": "account's daily limit", "the wallet": "wallet",
}

// HeldCodes maps the reason of a skip to the code in a sweep.held fact.
var HeldCodes = map[string]fact.SweepHeldCode{
	ReasonBudget: fact.SweepHeldBudget, ReasonDay: fact.SweepHeldDay, ReasonMonth: fact.SweepHeldMonth, ReasonLimit: fact.SweepHeldDailyLimit, ReasonWallet: fact.SweepHeldWallet,
}

// Limit returns the limit's name and amount as text.
func (x Shortfall) Limit(currency string) string {
	return fmt.Sprintf("%s (%s)", LimitNames[x.Reason], fact.Amount(x.LimitCents, currency))
}

// Missing returns how much the limit must be raised.
func (x Shortfall) Missing() fact.Sum { return fact.Sum{Cents: x.Cents.Or(0), Lacks: x.Unpriced} }

// ListedText says how many of the proxies count at their list price, or returns "".
func (x Shortfall) ListedText() string {
	if x.Listed == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s at the list price, no renewal paid yet)", english.Plural(x.Listed, "proxy", "proxies"))
}

// Text describes the shortfall.
func (x Shortfall) Text(currency string) string {
	again := "the next run plans them again"
	switch x.Reason {
	case ReasonDay, ReasonLimit:
		again = "a run of the next day plans them again, or one after the limit was raised"
	case ReasonMonth:
		again = "a run of the next month plans them again, or one after the limit was raised"
	}
	if x.Refused > 0 {
		again = fmt.Sprintf("the provider has refused %d of them for want of money, and is asked again a quarter of an hour later, or at once by `perennial schedules run`", x.Refused)
	}
	return fmt.Sprintf("%s exceeded: %s skipped, %s short%s; the first of them expires at %s; %s",
		x.Limit(currency), english.Plural(x.Proxies, "proxy", ""), x.Missing().Text(currency), x.ListedText(), x.FirstLostAt.Format(time.RFC3339), again)
}

type tooDear struct {
	proxy   tables.Proxy
	cost    Price
	tooLow  *Limit
	refused bool // the provider refused the renewal, even if the limit has room for it
}

// reasonDear marks a proxy that a limit skips. The method missing replaces it with the limit's
// reason.
const reasonDear = "too dear"

// Skips the proxies that were too expensive. If the schedule keeps a number of proxies per group,
// it counts only as many as the group lacks, because the run would not renew the others anyway.
func (p *planner) missing() {
	keep := p.in.Schedule.Keep
	for _, one := range p.dear {
		if keep.AtLeast > 0 {
			group := keep.Group(one.proxy)
			if p.staying[group] >= keep.AtLeast {
				p.leaveOut(one.proxy, ReasonEnough)
				continue
			}
			p.staying[group]++
		}
		one.tooLow.leaveOut(one)
		if one.tooLow.Reason == ReasonBudget {
			p.short = p.short.Add(one.cost.counts())
		}
		p.leaveOut(one.proxy, one.tooLow.Reason)
	}
}
