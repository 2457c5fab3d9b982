// This file has facts about what a run planned and skipped, and about single proxies.

package fact

import (
	"encoding/json"
	"time"
)

// PlannedCommand describes one command of a run's plan.
type PlannedCommand struct {
	CommandID     string `json:"command_id" doc:"The id of the command, chosen by its producer."`
	Proxies       int    `json:"proxy_count" doc:"The number of proxies."`
	EstimateCents int64  `json:"estimate_cents" doc:"The expected cost, without proxies of unknown price."`
	UnknownPrice  int    `json:"unknown_price,omitempty" doc:"'unknown_price' counts the proxies of the command whose price is unknown."`
	// ListPriceCents is the list price of those proxies whose price is unknown. It is set only
	// if it counts against a money limit.
	ListPriceCents int64 `json:"list_price_cents,omitempty" doc:"The list price of the proxies of unknown price, if it counts against a limit."`
}

// SweepLeft describes the due proxies that one plan of a run could not include.
type SweepLeft struct {
	Proxies        int        `json:"proxy_count" doc:"The number of proxies."`
	Unpriced       int        `json:"unpriced,omitempty" doc:"'unpriced' counts the proxies that wait for the first proxy of their kind to show the price."`
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty" doc:"'first_expires_at' is when the first living one of these proxies expires; the run must reach it before then."`
}

// ListingShrunk records that a complete listing lacked a large share of the live proxies, or
// that their entries could not be read. A missing proxy is not necessarily gone. It stays
// due and is included in warnings, but is read before it is paid for.
type ListingShrunk struct {
	accountFact
	Known     int      `json:"known" doc:"Living proxies before the listing, without retired ones."`
	NotListed int      `json:"not_listed" doc:"How many of 'known' the listing lacks."`
	ProxyIDs  []string `json:"proxy_ids" doc:"'proxy_ids' lists some of the missing proxies; empty if their entries cannot be read."`
}

// FactType implements Fact.
func (ListingShrunk) FactType() string { return "listing.shrunk" }

// ListingUncovered records how many live proxies no schedule renews, as two complete
// listings showed. These proxies expire unless a command renews them. The fact is published
// when there are such proxies, with 0 when none are left, and at most once a day when their
// number changes or the first has expired.
type ListingUncovered struct {
	accountFact
	Uncovered      int        `json:"uncovered" doc:"How many living proxies are in no schedule; 0 when there are none any more."`
	ProxyIDs       []string   `json:"proxy_ids" doc:"'proxy_ids' lists at most 20 of these proxies, nearest expiry first."`
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty" doc:"'first_expires_at' is when the first of these proxies expires."`
}

// FactType implements Fact.
func (ListingUncovered) FactType() string { return "listing.uncovered" }

// SweepFailed records that a scheduled run could not be made, for example because the
// proxies could not be listed, or that the commands of a run were refused as invalid. The
// run is retried; when it succeeds, its sweep.planned follows.
type SweepFailed struct {
	accountFact
	Schedule       string     `json:"schedule" doc:"The name of the schedule."`
	Slot           time.Time  `json:"slot" doc:"The scheduled time."`
	Reason         string     `json:"reason" doc:"The reason, for people; the text may change."`
	Due            int        `json:"due" doc:"'due' counts the due, living proxies of the schedule, as last listed. 'expiring' counts those of them that expire before 'next_slot'."`
	Expiring       int        `json:"expiring" doc:"How many of the due proxies expire before the next scheduled time."`
	NextSlot       *time.Time `json:"next_slot,omitempty" doc:"The next scheduled time."`
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty" doc:"When the first of the due proxies expires."`
}

// FactType implements Fact.
func (SweepFailed) FactType() string { return "sweep.failed" }

// ScheduleConfigured records that a schedule is new, or has another name, cron expression or
// time zone. Scheduled times before Since do not run; later ones that are missed are caught
// up.
type ScheduleConfigured struct {
	accountFact
	Schedule string    `json:"schedule" doc:"The name of the schedule."`
	Cron     string    `json:"cron" doc:"The cron expression."`
	Timezone string    `json:"timezone" doc:"The time zone of the days and scheduled times."`
	Since    time.Time `json:"since" doc:"When the schedule's times begin to count."`
	Was      string    `json:"was,omitempty" doc:"'was' is the schedule's earlier name. The spending, the plan that needs approval and the pause of that name belong to this schedule."`
}

// FactType implements Fact.
func (ScheduleConfigured) FactType() string { return "schedule.configured" }

// SchedulePaused records that a schedule makes no scheduled runs until it is resumed.
// Commands that were planned before are still published, and an operator can still start a
// run.
type SchedulePaused struct {
	accountFact
	Schedule string     `json:"schedule" doc:"The name of the schedule."`
	Until    *time.Time `json:"until,omitempty" doc:"'until' is when the pause ends automatically; null if only a person resumes the schedule."`
	By       string     `json:"by" doc:"The name of the person, as given in the request."`
	Reason   string     `json:"reason" doc:"The reason, for people; the text may change."`
	User     string     `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// FactType implements Fact.
func (SchedulePaused) FactType() string { return "schedule.paused" }

// ScheduleResumed records that a schedule makes its scheduled runs again. One run replaces
// all runs that the pause has skipped. If By is empty, the pause ended at its time.
type ScheduleResumed struct {
	accountFact
	Schedule string `json:"schedule" doc:"The name of the schedule."`
	By       string `json:"by,omitempty" doc:"The name of the person, as given in the request."`
	Reason   string `json:"reason" doc:"The reason, for people; the text may change."`
	User     string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// FactType implements Fact.
func (ScheduleResumed) FactType() string { return "schedule.resumed" }

// ProxyRetired records that schedules no longer renew the proxy. The proxy stays listed
// until it expires, and an operator's command can still renew it.
type ProxyRetired struct {
	ProxyID string `json:"proxy_id" doc:"The provider's id of the proxy."`
	By      string `json:"by" doc:"The name of the person, as given in the request."`
	Reason  string `json:"reason" doc:"The reason, for people; the text may change."`
	User    string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// Subject returns the proxy's id.
func (f ProxyRetired) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyRetired) FactType() string { return "proxy.retired" }

// ProxyReinstated records that schedules renew the proxy again. From this fact on, renewals
// that end without renewing the proxy are counted anew.
type ProxyReinstated struct {
	ProxyID string `json:"proxy_id" doc:"The provider's id of the proxy."`
	By      string `json:"by" doc:"The name of the person, as given in the request."`
	Reason  string `json:"reason" doc:"The reason, for people; the text may change."`
	User    string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// Subject returns the proxy's id.
func (f ProxyReinstated) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyReinstated) FactType() string { return "proxy.reinstated" }

// ProxyReplaced records that the provider would not renew the proxy. An order for a
// replacement is published, as its schedule allows. The fact does not say that the
// replacement was bought.
type ProxyReplaced struct {
	ProxyID       string          `json:"proxy_id" doc:"The provider's id of the proxy."`
	Schedule      string          `json:"schedule" doc:"The name of the schedule."`
	Reason        string          `json:"reason" doc:"The reason, for people; the text may change."`
	ExpiresAt     time.Time       `json:"expires_at" doc:"When the proxy expires."`
	CommandID     string          `json:"command_id" doc:"The id of the command, chosen by its producer."`
	Command       json.RawMessage `json:"command" doc:"The command, as published."`
	MaxTotalCents int64           `json:"max_total_cents" doc:"'max_total_cents' is the limit of the order."`
}

// Subject returns the proxy's id.
func (f ProxyReplaced) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyReplaced) FactType() string { return "proxy.replaced" }

// ProxyReview records that several renewals of the proxy ended without renewing it, so that
// schedules skip it until it is reviewed. OperationID is the last of these renewals. The
// review stays in v_reviews until the proxy is retired, reinstated or renewed.
type ProxyReview struct {
	Ref
	ProxyID   string    `json:"proxy_id" doc:"The provider's id of the proxy."`
	Schedule  string    `json:"schedule" doc:"The name of the schedule."`
	ExpiresAt time.Time `json:"expires_at" doc:"When the proxy expires."`
	Endings   int       `json:"endings_without_renewal" doc:"How many renewals in a row did not renew the proxy."`
	Reason    string    `json:"reason" doc:"The reason, for people; the text may change."`
}

// FactType implements Fact.
func (ProxyReview) FactType() string { return "proxy.review" }
