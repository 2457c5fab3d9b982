package plans

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"perennial/jobs/command"

	"github.com/dustin/go-humanize/english"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/tables"
)

const (
	// unpricedMost limits a day's renewals whose price and outcome are unknown. At the limit, no
	// run with a budget or an approval limit renews another proxy of unknown price.
	unpricedMost = 3
	maxPlanned   = 10_000
	// maxCommandsBytes limits the size of a plan's commands. The rest of the fact is for its
	// other fields.
	maxCommandsBytes = ledger.MaxFactBytes - 100<<10
	// MaxListed limits how many skipped proxies a plan lists. The plan counts all of them.
	MaxListed = 1000
)

// Reasons why a due proxy is not in a plan.
const (
	ReasonClaimed     = "a renewal of it is open or in review"
	ReasonTaken       = "this run has renewed it already"
	ReasonOnItsWay    = "its renewal is published and not yet started"
	ReasonRenewed     = "a renewal for this expiry was paid, and the expiry has not moved: if it stays so, see `perennial ledger reconcile`; `perennial renew` pays again"
	ReasonNotShown    = "it was renewed within the hour, and the provider may not show the new expiry yet"
	ReasonUnread      = "its last renewal has ended, and its expiry has not been read since"
	ReasonUnconfirmed = "it was renewed, and its new expiry has not been read yet"
	ReasonBackoff     = "its last renewal ended without renewing it: it is tried again 30 minutes later, and after each further failure twice as long, or sooner if it expires soon"
	ReasonInVain      = "a renewal of it was paid, and it has expired all the same: it is in review (`perennial reviews list`)"
	ReasonPerson      = "five renewals ended without renewing it: it is in review (`perennial reviews list`)"
	ReasonUnpriced    = "no renewal of its kind was paid yet: another of its kind is renewed first, to learn the price"
	ReasonOneByOne    = "no renewal of its kind was paid yet: under a budget, one kind at a time is tried"
	ReasonBudget      = "over the budget"
	ReasonDay         = "over the budget of the day"
	ReasonMonth       = "over the budget of the month"
	ReasonLimit       = "over the account's limit of the day"
	ReasonWallet      = "the wallet is too low"
	ReasonBeyond      = "beyond what one run can plan: the next one takes it"
	ReasonBadID       = "its id cannot be put into a command or a request"
	ReasonBadExpiry   = "its expiry cannot be put into a command: in UTC it is outside the years 1 to 9999"
	ReasonRetired     = "it is retired: `perennial proxies retire --undo` takes it back"
	ReasonExcepted    = "it is an exception of the schedule"
	ReasonEnough      = "enough of its group stay without it"
	// ReasonNotText says that a field that the match compares is not text.
	ReasonUnusable = "its entry in the provider's list cannot be read"
	ReasonNotText  = "what the match names of it is not text at the provider, so the match does not fit"
)

// History reads a proxy's earlier renewals from the ledger. HistoryOf returns it.
type History interface {
	Histories(ctx context.Context, proxies []tables.Proxy, now time.Time, excused ...string) ([]tables.History, error)
	CommandEnded(ctx context.Context, id string) (bool, error)
	LastPaid(ctx context.Context, like tables.Proxy) (tables.Paid, error)
}

// HistoryOf returns the History of a ledger's tables.
func HistoryOf(q tables.Queries) History {
	return struct {
		*tables.Operations
		*tables.Fleet
	}{q.Operations, q.Fleet}
}

// Inputs has the inputs of a plan, except its history.
type Inputs struct {
	Schedule Schedule
	Lists    Lists           // ids from the schedule's files
	Now      time.Time       // the provider's time
	ByHand   bool            // an operator requested the run, so proxies that the provider refused for lack of money are tried again
	Proxies  []tables.Proxy  // live proxies first, by nearest expiry
	Claimed  map[string]bool // proxies reserved by an operation
	InReview map[string]bool // the proxies of Claimed whose renewal needs review
	// UnderWay has one proxy of each kind that is being renewed. The charge for that proxy will
	// show the kind's price.
	UnderWay []tables.Proxy
	Taken    map[string]bool // proxies that this run has already published
	OnItsWay map[string]bool // proxies that an earlier run published and the runner has not accepted
	// Staying counts the proxies that stay alive without this plan, except those in Proxies. Its
	// keys are the groups of Keep.
	Staying map[string]int
	// SpentCents is the estimated cost of what this run has already published, because
	// budget_cents and approve_over_cents apply to the whole run. SpentTodayCents and
	// SpentMonthCents cover all runs of the schedule, including this one.
	SpentCents, SpentTodayCents, SpentMonthCents int64
	// LimitCents is the account's daily limit. It is 0 if there is no limit. LimitSpentCents is
	// the part that is spent or in progress.
	LimitCents, LimitSpentCents int64
	// WalletCents is the provider's wallet balance. It is nil if the balance is unknown.
	// ReservedCents is the part that operations in progress need.
	WalletCents   *int64
	ReservedCents int64
	// UnpricedOpen counts today's operations whose price and outcome are unknown.
	UnpricedOpen int64
	Beyond       int // number of due proxies that did not fit in Proxies
	// Barred counts, by reason, the due proxies that cannot be renewed now and are not in
	// Proxies.
	Barred map[string]int

	// ListPrice returns the list price of a proxy's renewal. If it is nil, the plan uses no list
	// prices.
	ListPrice func(context.Context, tables.Proxy) fact.Cents
}

// Plan is what a run does or would do. Hash is computed from the schedule's name and
// Commands.
type Plan struct {
	Schedule         string            `json:"schedule" doc:"The name of the schedule."`
	At               time.Time         `json:"at" doc:"When this was read."`
	Until            time.Time         `json:"until" doc:"The end of the period in which proxies are due."`
	Slot             *time.Time        `json:"slot,omitempty" doc:"The scheduled time; omitted for a preview."`
	State            string            `json:"state,omitempty" doc:"The state of the run. For a preview it is omitted, or \"held\" if the same plan already needs approval."`
	Hash             string            `json:"plan" doc:"The hash of the plan."`
	Due              int               `json:"due" doc:"The number of matching proxies that are due; each is either included or skipped."`
	Currency         string            `json:"currency,omitempty" doc:"The currency of the amounts."`
	EstimateCents    fact.Cents        `json:"estimate_cents" doc:"The expected cost, without proxies of unknown price."`
	Unpriced         int               `json:"unpriced,omitempty" doc:"The number of included proxies of unknown price."`
	ListPriceCents   int64             `json:"list_price_cents,omitempty" doc:"The list price of the 'listed' proxies."`
	Listed           int               `json:"listed,omitempty" doc:"The number of 'unpriced' proxies whose kind has an offer with a list price."`
	Included         []Included        `json:"included"`
	LeftOut          []LeftOut         `json:"left_out" doc:"The first 1,000 skipped proxies."`
	LeftOutCounts    map[string]int    `json:"left_out_counts" doc:"The number of skipped proxies, by reason."`
	MatchesNone      string            `json:"matches_none,omitempty" doc:"'matches_none' is a warning if the match selects no listed proxy, else \"\"."`
	Unusable         []Unusable        `json:"unusable,omitempty" doc:"'unusable' has the first 1,000 entries of the account's last listing that could not be read."`
	UnusableCount    int               `json:"unusable_count,omitempty" doc:"'unusable_count' is the number of all entries that could not be read."`
	UnknownIDs       []string          `json:"unknown_ids,omitempty" doc:"The first 1,000 ids of the schedule's lists that no listing has shown."`
	Shortfall        fact.Cents        `json:"shortfall_cents" doc:"The expected cost of the proxies that are skipped because of budget_cents."`
	Shortfalls       []Shortfall       `json:"shortfalls" doc:"One entry for each limit that the plan exceeds."`
	NeedsApproval    bool              `json:"needs_approval" doc:"Whether the plan exceeds approve_over_cents."`
	ApproveOverCents int64             `json:"approve_over_cents,omitempty" doc:"'approve_over_cents' is the schedule's limit that decides 'needs_approval'."`
	WalletCents      *int64            `json:"wallet_cents,omitempty" doc:"'wallet_cents' is the balance of the wallet, 'reserved_cents' what commands in progress need, and 'wallet_after_cents' what is left when both are paid. The first and the last are omitted if the wallet could not be read."`
	ReservedCents    int64             `json:"reserved_cents" doc:"The amount that other commands in progress need."`
	WalletAfterCents *int64            `json:"wallet_after_cents,omitempty" doc:"The balance after everything is paid, if the wallet could be read."`
	SpentTodayCents  int64             `json:"spent_today_cents" doc:"The amount spent today."`
	SpentMonthCents  int64             `json:"spent_month_cents" doc:"The amount spent this month."`
	Commands         []json.RawMessage `json:"commands" doc:"The commands, as published."`
	Left             *fact.SweepLeft   `json:"left,omitempty" doc:"'left' describes the proxies with which the run continues after this plan."`
	RoomCents        *int64            `json:"room_cents,omitempty" doc:"What this plan leaves of the tightest limit: a budget, the account's daily limit or the wallet; omitted if there is none."`
	RoomOf           string            `json:"room_of,omitempty" doc:"The name of that limit."`
}

// Made is a plan with the data that its run needs.
type Made struct {
	Plan

	Planned     []fact.PlannedCommand // expected cost of each command
	Awaited     map[Kind]tables.Proxy // by kind: a proxy that waits for the price of the kind's canary
	ForPerson   []fact.ProxyReview    // reviews of proxies that schedules stop renewing
	SpentBefore int64                 // cost of earlier plans of the run; it counts towards approve_over_cents
}

// Paid reports whether a reason says that a proxy's renewal is already paid or published. Such a
// proxy seems due only because its new expiry is not known yet.
func Paid(reason string) bool {
	return reason == ReasonUnconfirmed || reason == ReasonUnread || reason == ReasonNotShown || reason == ReasonTaken
}

// Unpaid counts the due proxies, except the proxies for which Paid is true.
func (p Plan) Unpaid() int {
	n := p.Due
	for reason, count := range p.LeftOutCounts {
		if Paid(reason) {
			n -= count
		}
	}
	return n
}

// Estimate returns the plan's expected cost.
func (p Plan) Estimate() fact.Sum { return fact.Sum{Cents: p.EstimateCents.Or(0), Lacks: p.Unpriced} }

// EstimateText returns the plan's expected cost as text. It uses list prices for proxies of
// unknown price.
func (p Plan) EstimateText() string { return EstimateText(p.Included, p.Currency) }

// EstimateText returns the expected cost of proxies as text. It uses list prices for
// proxies of unknown price.
func EstimateText(all []Included, currency string) string {
	sum := SumOf(all)
	listed, n := SumListed(all)
	return fact.Sum{Cents: sum.Cents + listed, Lacks: sum.Lacks - n}.ListedText(listed, currency)
}

// WithListed returns the sum of the estimate and the list prices.
func (p Plan) WithListed() fact.Sum {
	return fact.Sum{Cents: p.EstimateCents.Or(0) + p.ListPriceCents, Lacks: p.Unpriced - p.Listed}
}

// WholeText returns the expected cost of the plan together with the proxies that wait for a price, at
// their list prices. It returns "" if no list price of such a proxy is known.
func (p Plan) WholeText() string {
	if p.Left == nil {
		return ""
	}
	listed, n := int64(0), 0
	for _, x := range p.LeftOut {
		if x.ListPriceCents > 0 {
			listed, n = listed+x.ListPriceCents, n+1
		}
	}
	if n == 0 {
		return ""
	}
	whole := p.WithListed()
	whole.Cents, whole.Lacks = whole.Cents+listed, whole.Lacks+p.Left.Proxies-n
	return whole.ListedText(p.ListPriceCents+listed, p.Currency)
}

// ActionOf returns what a run does with a proxy that its plan leaves out: "later" if the run continues
// with it, "none" if its renewal is paid already, and "skip".
func (p Plan) ActionOf(x LeftOut) string {
	switch {
	case Paid(x.Reason):
		return "none"
	case p.Left != nil && (x.AwaitsPrice() || x.Reason == ReasonBeyond):
		return "later"
	}
	return "skip"
}

// uncovered returns the first proxy of the run that the tightest limit is not expected to pay for, by
// nearest expiry and at list prices, and how many it pays for. It returns nil if the limit pays for all,
// or if that cannot be told.
func (p Plan) uncovered() (first *LeftOut, n int) {
	if p.Left == nil || p.RoomCents == nil {
		return nil, 0
	}
	rest := slices.DeleteFunc(slices.Clone(p.LeftOut), func(x LeftOut) bool { return p.ActionOf(x) != "later" && LimitNames[x.Reason] == "" })
	slices.SortStableFunc(rest, func(x, y LeftOut) int { return x.ExpiresAt.Compare(y.ExpiresAt) })
	room := *p.RoomCents
	for n, x := range rest {
		overLimit := LimitNames[x.Reason] != ""
		if x.ListPriceCents == 0 && !overLimit {
			return nil, 0
		}
		if room -= x.ListPriceCents; room < 0 || overLimit {
			return &x, len(p.Included) + n
		}
	}
	return nil, 0
}

// CoversText says how many proxies of the run the tightest limit is expected to pay for. It returns ""
// if it pays for all, or if that cannot be told.
func (p Plan) CoversText() string {
	first, n := p.uncovered()
	if first == nil {
		return ""
	}
	return fmt.Sprintf("The %s pays for about %d of the %d; the first that it leaves out is %.80s, which expires at %s",
		limitTexts[p.RoomOf], n, len(p.Included)+p.Left.Proxies+p.OverLimit(), first.ProxyID, first.ExpiresAt.UTC().Format(time.RFC3339))
}

// ReasonsOf returns the reason of each row of LeftOut. Rows that the money is not expected to reach say
// so.
func (p Plan) ReasonsOf() []string {
	first, _ := p.uncovered()
	reasons := make([]string, len(p.LeftOut))
	for i, x := range p.LeftOut {
		if reasons[i] = x.Reason; first != nil && p.ActionOf(x) == "later" && !x.ExpiresAt.Before(first.ExpiresAt) {
			reasons[i] = "likely over the " + limitTexts[p.RoomOf] + ": " + x.Reason
		}
	}
	return reasons
}

// LearnsText says that a plan below the approval limit renews proxies of unknown price first, to
// learn their price. It returns "" if the plan renews no such proxy, or needs approval itself.
func (p Plan) LearnsText() string {
	if p.ApproveOverCents == 0 || p.NeedsApproval || p.Left == nil || p.Unpriced == 0 {
		return ""
	}
	return fmt.Sprintf("%s to learn a price without an approval: this part is not over approve_over_cents (%s). What follows in the run is counted together with it",
		english.PluralWord(p.Unpriced, "1 proxy is renewed", fmt.Sprintf("%d proxies are renewed", p.Unpriced)), fact.Amount(p.ApproveOverCents, p.Currency))
}

// OverLimit counts the proxies skipped by money limits.
func (p Plan) OverLimit() (n int) {
	for _, x := range p.Shortfalls {
		n += x.Proxies
	}
	return n
}

// Included is one proxy of a plan. A canary is renewed alone, so that its charge shows the price
// of its kind.
type Included struct {
	ProxyID        string     `json:"proxy_id" doc:"The provider's id of the proxy."`
	ExpiresAt      time.Time  `json:"expires_at" doc:"When the proxy expires."`
	Reason         string     `json:"reason" doc:"The reason, for people; the text may change."`
	EstimateCents  fact.Cents `json:"estimate_cents" doc:"The expected cost, if known."`
	ListPriceCents int64      `json:"list_price_cents,omitempty" doc:"The list price of an offer of its kind, if no renewal of its kind was paid yet."`
	PriceFrom      string     `json:"price_from" doc:"The source of the estimate."`
	Canary         bool       `json:"canary,omitempty" doc:"Whether the proxy is renewed alone, to learn the price of its kind."`
	Endings        int        `json:"endings_without_renewal,omitempty" doc:"'endings_without_renewal' counts the renewals of the proxy, at this expiry, that ended without renewing it."`

	labels map[string]string // labels of its renewal
}

// LeftOut is one due proxy that a plan skips, and why.
type LeftOut struct {
	ProxyID        string    `json:"proxy_id" doc:"The provider's id of the proxy."`
	ExpiresAt      time.Time `json:"expires_at" doc:"When it expires."`
	Reason         string    `json:"reason" doc:"Why, for people; it may be reworded."`
	ListPriceCents int64     `json:"list_price_cents,omitempty" doc:"The list price, if the proxy waits for a first price of its kind."`
}

// AwaitsPrice reports whether the run renews the proxy later, when the price of its kind is known.
func (x LeftOut) AwaitsPrice() bool { return x.Reason == ReasonUnpriced || x.Reason == ReasonOneByOne }

// Unusable is an unreadable entry of the provider's list. No schedule renews its proxy.
type Unusable struct {
	ProxyID string `json:"proxy_id" doc:"The provider's id of the proxy."`
	Reason  string `json:"reason" doc:"The reason, with the name of the field."`
}

// Make plans a run. The same inputs and history give the same plan. Any error is from known.
func Make(ctx context.Context, in Inputs, known History) (Made, error) {
	p := newPlanner(in, known)
	if err := p.underWay(ctx); err != nil {
		return Made{}, fmt.Errorf("plan schedule %s: %w", in.Schedule.Name, err)
	}
	if err := p.addAll(ctx, in.Proxies); err != nil {
		return Made{}, fmt.Errorf("plan schedule %s: %w", in.Schedule.Name, err)
	}
	if err := p.addLast(ctx); err != nil {
		return Made{}, fmt.Errorf("plan schedule %s: %w", in.Schedule.Name, err)
	}
	p.missing()
	for why, n := range in.Barred {
		p.plan.Due += n
		p.plan.LeftOutCounts[why] += n
	}
	if in.Beyond > 0 {
		p.plan.Due += in.Beyond
		p.plan.LeftOutCounts[ReasonBeyond] += in.Beyond
	}
	if err := p.finish(ctx); err != nil {
		return Made{}, fmt.Errorf("plan schedule %s: %w", in.Schedule.Name, err)
	}
	return p.plan, nil
}

type planner struct {
	in      Inputs
	known   History
	history map[string]tables.History // histories of the proxies that are being added
	filter  *Filter
	limits  []*Limit
	staying map[string]int
	plan    Made
	dear    []tooDear
	short   fact.Sum // the part of dear that exceeds budget_cents
	// last has proxies of unknown price whose renewals failed. They are tried last, so that
	// another proxy of their kind shows the price first.
	last       []tables.Proxy
	addingLast bool
	// frugal says that the schedule has a budget or an approval limit. The wallet and the
	// account's daily limit do not count, because the provider and the runner check them.
	frugal bool
	// learning says that a proxy of unknown price is in progress or in the plan, or that too many
	// such proxies have an unknown outcome.
	learning bool
	// firstLeft is the nearest expiry of the proxies that are left for the run's next plan.
	firstLeft time.Time
	prices    *Prices
	canary    map[Kind]bool
}

func newPlanner(in Inputs, known History) *planner {
	p := &planner{
		in: in, known: known, filter: in.Schedule.Match.Filter(in.Lists), limits: in.Limits(),
		prices: NewPrices(known, in.Schedule.DurationDays), canary: map[Kind]bool{}, staying: maps.Clone(in.Staying),
	}
	p.plan.Plan = Plan{
		Schedule: in.Schedule.Name, At: in.Now.UTC(), Until: in.Now.Add(in.Schedule.RenewBefore).UTC(),
		LeftOutCounts: map[string]int{}, Included: []Included{}, LeftOut: []LeftOut{},
		WalletCents: in.WalletCents, ReservedCents: in.ReservedCents, SpentTodayCents: in.SpentTodayCents, SpentMonthCents: in.SpentMonthCents,
		ApproveOverCents: in.Schedule.ApproveOverCents,
	}
	p.plan.Awaited = map[Kind]tables.Proxy{}
	for _, like := range in.UnderWay {
		p.canary[KindOf(like)] = true
	}
	s := in.Schedule
	p.frugal = max(s.BudgetCents, s.DailyBudgetCents, s.MonthlyBudgetCents, s.ApproveOverCents) > 0
	p.learning = in.UnpricedOpen >= unpricedMost
	if in.Schedule.Keep.AtLeast == 0 {
		return p
	}
	if p.staying == nil {
		p.staying = map[string]int{}
	}
	for _, proxy := range in.Proxies { // all due proxies count, wherever they are in the list
		if p.due(proxy) && in.BeingRenewed(proxy) {
			p.staying[in.Schedule.Keep.Group(proxy)]++
		}
	}
	return p
}

// A proxy without an expiry is never due.
func (p *planner) due(proxy tables.Proxy) bool {
	return proxy.ExpiresAt != nil && !proxy.ExpiresAt.After(p.plan.Until) && (p.filter.About(proxy) || p.filter.Undecided(proxy))
}

const lookedAt = 500

func (p *planner) addAll(ctx context.Context, proxies []tables.Proxy) error {
	for some := range slices.Chunk(proxies, lookedAt) {
		if err := p.look(ctx, some); err != nil {
			return err
		}
		for _, proxy := range some {
			if !p.due(proxy) {
				continue
			}
			if !p.addingLast {
				p.plan.Due++
			}
			if err := p.add(ctx, proxy); err != nil {
				return fmt.Errorf("proxy %s: %w", proxy.ProxyID, err)
			}
		}
	}
	return nil
}

// Reads the histories of proxies, unless the plan is full.
func (p *planner) look(ctx context.Context, proxies []tables.Proxy) error {
	if p.full(ctx) {
		return nil
	}
	proxies = slices.DeleteFunc(slices.Clone(proxies), func(proxy tables.Proxy) bool {
		return proxy.ExpiresAt == nil || p.in.BarredBy(p.filter, proxy) != ""
	})
	all, err := p.known.Histories(ctx, proxies, p.in.Now, excused...)
	p.history = make(map[string]tables.History, len(all))
	for i, h := range all {
		p.history[proxies[i].ProxyID] = h
	}
	return err
}

func (p *planner) full(ctx context.Context) bool {
	return len(p.plan.Included) == int(failpoint.Size(ctx, "plan.most", maxPlanned))
}

func (p *planner) add(ctx context.Context, proxy tables.Proxy) error {
	if p.full(ctx) && p.in.BarredBy(p.filter, proxy) == "" {
		p.leaveOut(proxy, ReasonBeyond)
		return nil
	}
	endings, why, err := p.barred(proxy)
	if err == nil {
		err = p.awaitsPrice(ctx, proxy, why)
	}
	if err != nil {
		return err
	}
	wallet := p.limitOf(why)
	if why != "" && wallet == nil {
		p.leaveOut(proxy, why)
		return nil
	}
	cost, err := p.prices.By(ctx, proxy, p.history[proxy.ProxyID].Paid)
	if err != nil {
		return err
	}
	if wallet != nil {
		p.dear = append(p.dear, tooDear{proxy, cost, wallet, true})
		return nil
	}
	if !cost.Cents.Known() && endings > 0 && !p.addingLast {
		p.last = append(p.last, proxy)
		return nil
	}
	switch why = p.unaffordable(ctx, proxy, &cost); why {
	case reasonDear:
		return nil
	case "":
		p.include(proxy, cost, endings)
	default:
		p.leaveOut(proxy, why)
	}
	return nil
}

// awaitsPrice marks the kind of a proxy that this run has published or that is on its way. If
// the proxy's price is unknown, the other proxies of its kind wait for the price.
func (p *planner) awaitsPrice(ctx context.Context, proxy tables.Proxy, why string) error {
	if why != ReasonTaken && why != ReasonOnItsWay {
		return nil
	}
	cost, err := p.prices.OfKind(ctx, proxy)
	if err == nil {
		p.markCanary(proxy, cost)
	}
	return err
}

func (p *planner) addLast(ctx context.Context) error {
	p.addingLast = true
	return p.addAll(ctx, p.last)
}

// unaffordable returns why the proxy is not included: its group is complete, a price must be
// known first, or a limit is exceeded. It returns "" if the proxy can be included. If money is
// limited and cost is unknown, it sets the list price in cost.
func (p *planner) unaffordable(ctx context.Context, proxy tables.Proxy, cost *Price) string {
	keep := p.in.Schedule.Keep
	if keep.AtLeast > 0 && p.staying[keep.Group(proxy)] >= keep.AtLeast {
		return ReasonEnough
	}
	if !cost.Cents.Known() && p.canary[KindOf(proxy)] {
		p.plan.Awaited[KindOf(proxy)] = proxy
		p.setAside(ctx, proxy)
		return ReasonUnpriced
	}
	if !cost.Cents.Known() && p.frugal && p.learning { // each proxy of unknown price may cost more than is left
		p.plan.Awaited[KindOf(proxy)] = proxy
		p.setAside(ctx, proxy)
		return ReasonOneByOne
	}
	if !cost.Cents.Known() {
		cost.list = p.limitedListPrice(ctx, proxy)
	}
	tooLow := over(p.limits, *cost)
	if tooLow == nil {
		return ""
	}
	p.dear = append(p.dear, tooDear{proxy, *cost, tooLow, false})
	return reasonDear
}

func (p *planner) underWay(ctx context.Context) error {
	for _, like := range p.in.UnderWay {
		cost, err := p.prices.OfKind(ctx, like)
		if err != nil {
			return err
		}
		p.markCanary(like, cost)
	}
	return nil
}

func (p *planner) include(proxy tables.Proxy, cost Price, endings int) {
	p.markCanary(proxy, cost)
	for _, l := range p.limits {
		l.Room -= l.takes(cost)
	}
	if keep := p.in.Schedule.Keep; keep.AtLeast > 0 {
		p.staying[keep.Group(proxy)]++
	}
	one := Included{
		ProxyID: proxy.ProxyID, ExpiresAt: proxy.ExpiresAt.UTC(), Reason: p.dueSince(proxy),
		EstimateCents: cost.Cents, PriceFrom: cost.From, Canary: !cost.Cents.Known(), Endings: endings, labels: p.in.Schedule.carried(proxy),
	}
	one.SetList(cost.list)
	p.plan.Included = append(p.plan.Included, one)
}

// dueSince returns why a proxy is included. The text does not contain the current time, because
// the same plan must have the same text.
func (p *planner) dueSince(proxy tables.Proxy) string {
	if proxy.ExpiresAt.Before(p.in.Now) {
		return "it has expired and is still listed"
	}
	return "due since " + proxy.ExpiresAt.Add(-p.in.Schedule.RenewBefore).UTC().Format(time.RFC3339)
}

func (p *planner) markCanary(proxy tables.Proxy, cost Price) {
	if !cost.Cents.Known() {
		p.canary[KindOf(proxy)], p.learning = true, true
	}
}

func (p *planner) leaveOut(proxy tables.Proxy, why string) {
	p.noteLeft(*proxy.ExpiresAt, why)
	p.plan.LeftOutCounts[why]++
	if len(p.plan.LeftOut) < MaxListed {
		p.plan.LeftOut = append(p.plan.LeftOut, LeftOut{ProxyID: proxy.ProxyID, ExpiresAt: proxy.LastsUntil().UTC(), Reason: why})
	}
}

// Describes the proxies that this plan leaves for the next plan of the run, which follows
// automatically. It returns nil if there are none.
func (p *planner) left() *fact.SweepLeft {
	counts := p.plan.LeftOutCounts
	full := counts[ReasonBeyond] > 0 && len(p.plan.Included) > 0
	if !full && len(p.plan.Awaited) == 0 {
		return nil
	}
	unpriced := counts[ReasonUnpriced] + counts[ReasonOneByOne]
	x := fact.SweepLeft{Proxies: counts[ReasonBeyond] + unpriced, Unpriced: unpriced}
	if !p.firstLeft.IsZero() {
		x.FirstExpiresAt = &p.firstLeft
	}
	return &x
}

func (p *planner) noteLeft(expires time.Time, why string) {
	goesOn := why == ReasonBeyond || why == ReasonUnpriced || why == ReasonOneByOne
	if goesOn && expires.After(p.in.Now) && (p.firstLeft.IsZero() || expires.Before(p.firstLeft)) {
		p.firstLeft = expires.UTC()
	}
}

// PlannedProxies returns the proxies of a recorded plan, by nearest expiry. In a plan without
// prices, each has the average cost of the proxies in its command.
func PlannedProxies(f fact.SweepPlanned) (all []Included) {
	for n, raw := range f.Commands {
		var c command.RenewalCommand
		if json.Unmarshal(raw, &c) != nil {
			continue
		}
		var planned fact.PlannedCommand
		if n < len(f.Planned) {
			planned = f.Planned[n]
		}
		for i, id := range c.ProxyIDs {
			one := Included{ProxyID: id, ExpiresAt: c.ExpectExpiresAt[id]}
			switch priced := planned.Proxies - planned.UnknownPrice; {
			case i < len(planned.PricesCents):
				one.EstimateCents = fact.Known(planned.PricesCents[i])
			case priced > 0:
				one.EstimateCents = fact.Known(fact.Share(planned.EstimateCents, i, priced))
				if planned.EstimateCents%int64(priced) != 0 {
					one.PriceFrom = PriceAverage
				}
			case planned.ListPriceCents > 0: // the proxy is alone in its command
				one.SetList(fact.Known(planned.ListPriceCents))
			}
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(x, y Included) int { return x.ExpiresAt.Compare(y.ExpiresAt) })
	return all
}
