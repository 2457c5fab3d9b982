// Facts about what a sweep planned and left out, and about single proxies.

package fact

import (
	"encoding/json"
	"time"
)

// PlannedCommand is what a sweep expects of one of its commands.
type PlannedCommand struct {
	CommandID     string `json:"command_id" doc:"The id of the command, chosen by its producer."`
	Proxies       int    `json:"proxy_count" doc:"The number of proxies."`
	EstimateCents int64  `json:"estimate_cents" doc:"The expected cost, without proxies of unknown price."`
	UnknownPrice  int    `json:"unknown_price,omitempty" doc:"'unknown_price' counts the proxies of the command whose price is unknown."`
	// ListPriceCents is what offers ask for those of unknown price. It is set if a limit of
	// money needed it.
	ListPriceCents int64 `json:"list_price_cents,omitempty" doc:"The list price of the proxies of unknown price, if it counts against a limit."`
}

// SweepLeft is what is due and one plan of a sweep could not take.
type SweepLeft struct {
	Proxies        int        `json:"proxy_count" doc:"The number of proxies."`
	Unpriced       int        `json:"unpriced,omitempty" doc:"'unpriced' counts the proxies that wait for the first proxy of their kind to show the price."`
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty" doc:"'first_expires_at' is when the first living one of these proxies expires; the run must reach it before then."`
}

// ListingShrunk says that a complete listing did not show a large share of the living
// proxies, or not so that they can be read. Absence is no evidence about a proxy: each stays due, is read
// before it is paid for, and is warned about.
type ListingShrunk struct {
	accountFact
	Known     int      `json:"known" doc:"Living proxies before the listing, without retired ones."`
	NotListed int      `json:"not_listed" doc:"How many of 'known' the listing lacks."`
	ProxyIDs  []string `json:"proxy_ids" doc:"'proxy_ids' lists some of the missing proxies; empty if their entries cannot be read."`
}

// FactType implements Fact.
func (ListingShrunk) FactType() string { return "listing.shrunk" }

// ListingUncovered says how many living proxies no schedule renews, as two complete listings
// showed: they expire unless a command renews them. It is published when there are some, when
// there are more or fewer or the first has expired (once a day at most), and with 0 when
// there are none any more.
type ListingUncovered struct {
	accountFact
	Uncovered      int        `json:"uncovered" doc:"How many living proxies are in no schedule; 0 when there are none any more."`
	ProxyIDs       []string   `json:"proxy_ids" doc:"'proxy_ids' lists at most 20 of these proxies, nearest expiry first."`
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty" doc:"'first_expires_at' is when the first of these proxies expires."`
}

// FactType implements Fact.
func (ListingUncovered) FactType() string { return "listing.uncovered" }

// SweepFailed says that a slot's sweep cannot be made, as when the proxies cannot be
// listed, or commands of it were refused as invalid. It is tried again; once it is
// made its sweep.planned follows.
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

// ScheduleConfigured says that a schedule is new, or has another name, cron or zone. It counts
// its slots from Since: no earlier one fires, and those that pass while nothing runs are caught up.
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

// SchedulePaused says that a schedule fires no slot until it is resumed. What it has
// planned before is carried out, and a person's own sweep is made.
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

// ScheduleResumed says that a schedule fires its slots again: those that passed during the
// pause are served by one sweep. Without By the time of the pause was over.
type ScheduleResumed struct {
	accountFact
	Schedule string `json:"schedule" doc:"The name of the schedule."`
	By       string `json:"by,omitempty" doc:"The name of the person, as given in the request."`
	Reason   string `json:"reason" doc:"The reason, for people; the text may change."`
	User     string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// FactType implements Fact.
func (ScheduleResumed) FactType() string { return "schedule.resumed" }

// ProxyRetired says that no sweep renews the proxy any more. It is kept until it expires,
// and a person's own command still renews it.
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

// ProxyReinstated says that sweeps renew the proxy again, and count its endings without a
// renewal from here.
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

// ProxyReplaced says that the provider would not renew the proxy, and by its schedule's
// policy this order buys another in its place. It says that the order is on its
// way, not that anything was bought.
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

// ProxyReview says that so many renewals of the proxy ended without renewing it that
// sweeps leave it to a person. It is about the last of them, and waits in
// v_reviews until the proxy is retired or reinstated, or renewed after all.
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
