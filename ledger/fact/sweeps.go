// Facts about what a sweep planned and left out, and about single proxies.

package fact

import (
	"encoding/json"
	"time"
)

// PlannedCommand is what a sweep expects of one of its commands.
type PlannedCommand struct {
	CommandID     string `json:"command_id" doc:"The id of the command, chosen by its producer."`
	Proxies       int    `json:"proxy_count" doc:"How many proxies."`
	EstimateCents int64  `json:"estimate_cents" doc:"Without those of unknown price."`
	UnknownPrice  int    `json:"unknown_price,omitempty" doc:"'unknown_price' counts, of 'proxy_count', those whose price is not known."`
	// ListPriceCents is what offers ask for those of unknown price. It is set if a limit of
	// money needed it.
	ListPriceCents int64 `json:"list_price_cents,omitempty" doc:"What offers ask for those of unknown price, if a limit of money counts it."`
}

// SweepLeft is what is due and one plan of a sweep could not take.
type SweepLeft struct {
	Proxies        int        `json:"proxy_count" doc:"How many proxies."`
	Unpriced       int        `json:"unpriced,omitempty" doc:"'unpriced' counts, of 'proxy_count', those that wait for the first of their kind to tell its price."`
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty" doc:"'first_expires_at' is when the first of them that lives expires: until then the sweep has to have come to it."`
}

// ListingShrunk says that a complete listing did not show a large share of the living
// proxies, or not so that they can be read. Absence is no evidence about a proxy: each stays due, is read
// before it is paid for, and is warned about.
type ListingShrunk struct {
	accountFact
	Known     int      `json:"known" doc:"Living proxies before the listing, without retired ones."`
	NotListed int      `json:"not_listed" doc:"Those of 'known' that it did not show."`
	ProxyIDs  []string `json:"proxy_ids" doc:"'proxy_ids' are some of them; none if their entries cannot be read."`
}

// FactType implements Fact.
func (ListingShrunk) FactType() string { return "listing.shrunk" }

// ListingUncovered says how many living proxies no schedule renews, as two complete listings
// showed: they expire unless a command renews them. It is published when there are some, when
// there are more or fewer or the first has expired (once a day at most), and with 0 when
// there are none any more.
type ListingUncovered struct {
	accountFact
	Uncovered      int        `json:"uncovered" doc:"How many they are; 0: none any more."`
	ProxyIDs       []string   `json:"proxy_ids" doc:"'proxy_ids' are at most 20 of them, those that expire first."`
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty" doc:"'first_expires_at' is when the first of them expires."`
}

// FactType implements Fact.
func (ListingUncovered) FactType() string { return "listing.uncovered" }

// SweepFailed says that a slot's sweep cannot be made, as when the proxies cannot be
// listed, or commands of it were refused as invalid. It is tried again; once it is
// made its sweep.planned follows.
type SweepFailed struct {
	accountFact
	Schedule       string     `json:"schedule" doc:"The name of the schedule."`
	Slot           time.Time  `json:"slot" doc:"The planned firing."`
	Reason         string     `json:"reason" doc:"Why, for people; it may be reworded."`
	Due            int        `json:"due" doc:"'due' counts the living proxies of the schedule, as they were last listed, that the sweep is about; 'expiring', of them, those that expire before 'next_slot'."`
	Expiring       int        `json:"expiring" doc:"How many of them expire before the next slot."`
	NextSlot       *time.Time `json:"next_slot,omitempty" doc:"The slot that follows."`
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty" doc:"When the first of them expires."`
}

// FactType implements Fact.
func (SweepFailed) FactType() string { return "sweep.failed" }

// ScheduleConfigured says that a schedule is new, or has another name, cron or zone. It counts
// its slots from Since: no earlier one fires, and those that pass while nothing runs are caught up.
type ScheduleConfigured struct {
	accountFact
	Schedule string    `json:"schedule" doc:"The name of the schedule."`
	Cron     string    `json:"cron" doc:"When it fires, as cron writes it."`
	Timezone string    `json:"timezone" doc:"The time zone that days and slots are of."`
	Since    time.Time `json:"since" doc:"From when on."`
	Was      string    `json:"was,omitempty" doc:"'was' is its earlier name: what that one has spent, holds and is paused for is the schedule's."`
}

// FactType implements Fact.
func (ScheduleConfigured) FactType() string { return "schedule.configured" }

// SchedulePaused says that a schedule fires no slot until it is resumed. What it has
// planned before is carried out, and a person's own sweep is made.
type SchedulePaused struct {
	accountFact
	Schedule string     `json:"schedule" doc:"The name of the schedule."`
	Until    *time.Time `json:"until,omitempty" doc:"'until' is when it ends automatically; nil: a person resumes it."`
	By       string     `json:"by" doc:"The name of the person, as the request gave it."`
	Reason   string     `json:"reason" doc:"Why, for people; it may be reworded."`
	User     string     `json:"user,omitempty" doc:"The NATS user that asked, if the server authenticated one."` // see UserOf
}

// FactType implements Fact.
func (SchedulePaused) FactType() string { return "schedule.paused" }

// ScheduleResumed says that a schedule fires its slots again: those that passed during the
// pause are served by one sweep. Without By the time of the pause was over.
type ScheduleResumed struct {
	accountFact
	Schedule string `json:"schedule" doc:"The name of the schedule."`
	By       string `json:"by,omitempty" doc:"The name of the person, as the request gave it."`
	Reason   string `json:"reason" doc:"Why, for people; it may be reworded."`
	User     string `json:"user,omitempty" doc:"The NATS user that asked, if the server authenticated one."` // see UserOf
}

// FactType implements Fact.
func (ScheduleResumed) FactType() string { return "schedule.resumed" }

// ProxyRetired says that no sweep renews the proxy any more. It is kept until it expires,
// and a person's own command still renews it.
type ProxyRetired struct {
	ProxyID string `json:"proxy_id" doc:"The provider's id of the proxy."`
	By      string `json:"by" doc:"The name of the person, as the request gave it."`
	Reason  string `json:"reason" doc:"Why, for people; it may be reworded."`
	User    string `json:"user,omitempty" doc:"The NATS user that asked, if the server authenticated one."` // see UserOf
}

// Subject returns the proxy's id.
func (f ProxyRetired) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyRetired) FactType() string { return "proxy.retired" }

// ProxyReinstated says that sweeps renew the proxy again, and count its endings without a
// renewal from here.
type ProxyReinstated struct {
	ProxyID string `json:"proxy_id" doc:"The provider's id of the proxy."`
	By      string `json:"by" doc:"The name of the person, as the request gave it."`
	Reason  string `json:"reason" doc:"Why, for people; it may be reworded."`
	User    string `json:"user,omitempty" doc:"The NATS user that asked, if the server authenticated one."` // see UserOf
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
	Reason        string          `json:"reason" doc:"Why, for people; it may be reworded."`
	ExpiresAt     time.Time       `json:"expires_at" doc:"When it expires."`
	CommandID     string          `json:"command_id" doc:"The id of the command, chosen by its producer."`
	Command       json.RawMessage `json:"command" doc:"The command, as it is published."`
	MaxTotalCents int64           `json:"max_total_cents" doc:"'max_total_cents' is the order's ceiling."`
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
	ExpiresAt time.Time `json:"expires_at" doc:"When it expires."`
	Endings   int       `json:"endings_without_renewal" doc:"How many renewals in a row ended without renewing it."`
	Reason    string    `json:"reason" doc:"Why, for people; it may be reworded."`
}

// FactType implements Fact.
func (ProxyReview) FactType() string { return "proxy.review" }
