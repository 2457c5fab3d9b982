package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"perennial/ledger"
)

const (
	// maxPlanned bounds the proxies of one slot.
	maxPlanned = 10_000
	// maxCommandsBytes leaves room in the fact for its other fields.
	maxCommandsBytes = ledger.MaxFactBytes - 100<<10
	// maxListed bounds the proxies that a plan names as left out; all are counted.
	maxListed = 1000
)

// Why a proxy inside the window is not in a plan.
const (
	ReasonClaimed  = "a renewal of it is open or in review"
	ReasonTaken    = "it is already in this sweep"
	ReasonRenewed  = "a renewal for this expiry has succeeded; its new expiry has not been read yet"
	ReasonUnread   = "it has not been read again since its last renewal"
	ReasonBackoff  = "its last renewals ended without renewing it: it is tried again later"
	ReasonPerson   = "needs a person: five renewals ended without renewing it"
	ReasonUnpriced = "its price is not known: another of its kind is renewed first"
	ReasonBudget   = "over the budget"
	ReasonBeyond   = "beyond what one sweep can plan: the next one takes it"
	ReasonBadID    = "its id cannot be put into a command"
)

// Known is what the ledger knows of a proxy's earlier renewals; *ledger.Ledger
// is one. Prices are cents and the days that they bought; ledger.ErrNotFound
// when nothing was ever paid.
type Known interface {
	RenewedAt(ctx context.Context, proxyID string, expiresAt time.Time) (bool, error)
	EndingsWithoutRenewal(ctx context.Context, proxyID string, since time.Time) (int, time.Time, error)
	PaidPerDay(ctx context.Context, proxyID string) (cents, days int64, err error)
	LastPaid(ctx context.Context, like ledger.Proxy) (cents, days int64, err error)
}

// Inputs are what a plan is made from, beside what is Known.
type Inputs struct {
	Schedule Schedule
	Now      time.Time       // the provider's time
	Proxies  []ledger.Proxy  // the nearest expiry first
	Claimed  map[string]bool // proxies that somebody holds the right to renew
	Taken    map[string]bool // proxies that this sweep has published before
	// SpentCents is the estimate of what this sweep has published before: budget
	// and approval limit are of the whole sweep.
	SpentCents int64
	Beyond     int // matching proxies that Proxies was cut by
}

// Plan is what a sweep would do. Its Hash is a function of its Commands.
type Plan struct {
	Schedule      string            `json:"schedule"`
	At            time.Time         `json:"at"`
	Slot          *time.Time        `json:"slot,omitempty"` // nil: it was only looked at
	State         string            `json:"state,omitempty"`
	Hash          string            `json:"plan"`
	Due           int               `json:"due"` // matching proxies inside the window
	EstimateCents int64             `json:"estimate_cents"`
	Included      []Included        `json:"included"`
	LeftOut       []LeftOut         `json:"left_out"` // the first 1,000
	LeftOutCounts map[string]int    `json:"left_out_counts"`
	Shortfall     int64             `json:"shortfall_cents"` // what is left out over the budget is expected to cost
	NeedsApproval bool              `json:"needs_approval"`
	Commands      []json.RawMessage `json:"commands"`

	unpriced map[kind]ledger.Proxy // kinds that wait for their canary, with one of each
}

// Included is one proxy of a plan. A canary is renewed alone to learn the price
// of its kind; its EstimateCents is 0: unknown.
type Included struct {
	ProxyID       string    `json:"proxy_id"`
	ExpiresAt     time.Time `json:"expires_at"`
	EstimateCents int64     `json:"estimate_cents"`
	Canary        bool      `json:"canary,omitempty"`
	// Endings counts its earlier renewals that ended without renewing it.
	Endings int `json:"endings_without_renewal,omitempty"`
}

// LeftOut is one proxy inside the window that a plan leaves out, and why.
type LeftOut struct {
	ProxyID   string    `json:"proxy_id"`
	ExpiresAt time.Time `json:"expires_at"`
	Reason    string    `json:"reason"`
}

// MakePlan plans a sweep. The same inputs and the same knowledge give the same
// plan. Errors are those of known.
func MakePlan(ctx context.Context, in Inputs, known Known) (Plan, error) {
	p := planner{in: in, known: known, prices: map[kind]price{}, until: in.Now.Add(in.Schedule.RenewBefore)}
	p.plan = Plan{
		Schedule: in.Schedule.Name, At: in.Now.UTC(), LeftOutCounts: map[string]int{}, Included: []Included{}, LeftOut: []LeftOut{},
		unpriced: map[kind]ledger.Proxy{},
	}
	for _, proxy := range in.Proxies {
		if proxy.ExpiresAt == nil || proxy.ExpiresAt.After(p.until) || !in.Schedule.Match.Fits(proxy) {
			continue // a null expiry is never due
		}
		p.plan.Due++
		if err := p.add(ctx, proxy); err != nil {
			return Plan{}, fmt.Errorf("plan schedule %s: proxy %s: %w", in.Schedule.Name, proxy.ProxyID, err)
		}
	}
	if in.Beyond > 0 {
		p.plan.Due += in.Beyond
		p.plan.LeftOutCounts[ReasonBeyond] += in.Beyond
	}
	err := p.finish()
	return p.plan, err
}

type planner struct {
	in     Inputs
	known  Known
	until  time.Time
	plan   Plan
	prices map[kind]price
	canary map[kind]bool
}

// add puts one due proxy in or leaves it out.
func (p *planner) add(ctx context.Context, proxy ledger.Proxy) error {
	if len(p.plan.Included) == maxPlanned {
		p.leaveOut(proxy, ReasonBeyond)
		return nil
	}
	endings, why, err := p.barred(ctx, proxy)
	if err != nil {
		return err
	}
	if why != "" && why != ReasonTaken {
		p.leaveOut(proxy, why)
		return nil
	}
	cost, err := p.price(ctx, proxy)
	if err != nil {
		return err
	}
	one := Included{ProxyID: proxy.ProxyID, ExpiresAt: proxy.ExpiresAt.UTC(), EstimateCents: cost.cents, Canary: !cost.known, Endings: endings}
	switch {
	case why == ReasonTaken:
		p.markCanary(proxy, cost)
		p.leaveOut(proxy, why)
	case !cost.known && p.canary[kindOf(proxy)]:
		p.plan.unpriced[kindOf(proxy)] = proxy
		p.leaveOut(proxy, ReasonUnpriced)
	case p.in.Schedule.BudgetCents > 0 && p.in.SpentCents+p.plan.EstimateCents+cost.cents > p.in.Schedule.BudgetCents:
		p.plan.Shortfall += cost.cents
		p.leaveOut(proxy, ReasonBudget)
	default:
		p.markCanary(proxy, cost)
		p.plan.EstimateCents += cost.cents
		p.plan.Included = append(p.plan.Included, one)
	}
	return nil
}

func (p *planner) markCanary(proxy ledger.Proxy, cost price) {
	if cost.known {
		return
	}
	if p.canary == nil {
		p.canary = map[kind]bool{}
	}
	p.canary[kindOf(proxy)] = true
}

func (p *planner) leaveOut(proxy ledger.Proxy, why string) {
	p.plan.LeftOutCounts[why]++
	if len(p.plan.LeftOut) < maxListed {
		p.plan.LeftOut = append(p.plan.LeftOut, LeftOut{ProxyID: proxy.ProxyID, ExpiresAt: proxy.ExpiresAt.UTC(), Reason: why})
	}
}

const (
	maxEndings = 5
	backoff    = 15 * time.Minute
)

// barred says why a proxy is not to be renewed now, whatever it costs.
func (p *planner) barred(ctx context.Context, proxy ledger.Proxy) (endings int, why string, err error) {
	switch {
	case p.in.Taken[proxy.ProxyID]:
		return 0, ReasonTaken, nil
	case p.in.Claimed[proxy.ProxyID]:
		return 0, ReasonClaimed, nil
	case !usableID(proxy.ProxyID):
		return 0, ReasonBadID, nil
	case proxy.SeenAt.UnixMicro() <= 0:
		return 0, ReasonUnread, nil
	}
	renewed, err := p.known.RenewedAt(ctx, proxy.ProxyID, *proxy.ExpiresAt)
	if err != nil || renewed {
		return 0, ReasonRenewed, err
	}
	// Endings of this expiry lie inside its window; earlier ones are of another.
	window := proxy.ExpiresAt.Add(-p.in.Schedule.RenewBefore)
	endings, last, err := p.known.EndingsWithoutRenewal(ctx, proxy.ProxyID, window)
	if err != nil || endings == 0 || last.Before(window) {
		return 0, "", err
	}
	if endings >= maxEndings {
		return endings, ReasonPerson, nil
	}
	if p.in.Now.Before(last.Add(backoff << endings)) {
		return endings, ReasonBackoff, nil
	}
	return endings, "", nil
}

// kind is what proxies of one price have in common.
type kind struct{ country, region, line, ipType string }

func kindOf(p ledger.Proxy) kind {
	return kind{country: p.CountryCode, region: p.Region, line: p.LineName, ipType: p.IPType}
}

type price struct {
	cents int64 // for the schedule's duration
	known bool
}

// price is what was last paid per day for this proxy, or for one of its kind.
func (p *planner) price(ctx context.Context, proxy ledger.Proxy) (price, error) {
	cents, days, err := p.known.PaidPerDay(ctx, proxy.ProxyID)
	if err == nil {
		return price{ledger.ScalePrice(cents, days, p.in.Schedule.DurationDays), true}, nil
	}
	if !errors.Is(err, ledger.ErrNotFound) {
		return price{}, err
	}
	k := kindOf(proxy)
	if known, ok := p.prices[k]; ok {
		return known, nil
	}
	cents, days, err = p.known.LastPaid(ctx, proxy)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return price{}, err
	}
	if err == nil {
		p.prices[k] = price{ledger.ScalePrice(cents, days, p.in.Schedule.DurationDays), true}
	} else {
		p.prices[k] = price{}
	}
	return p.prices[k], nil
}
