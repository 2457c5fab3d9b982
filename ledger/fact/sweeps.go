// What a sweep planned and left out, and the facts of single proxies.

package fact

import (
	"encoding/json"
	"time"
)

// PlannedCommand is what a sweep expects of one of its commands.
type PlannedCommand struct {
	CommandID     string `json:"command_id"`
	Proxies       int    `json:"proxy_count"`
	EstimateCents int64  `json:"estimate_cents"` // without those of unknown price
	// UnknownPrice counts, of Proxies, those whose price is not known.
	UnknownPrice int `json:"unknown_price,omitempty"`
}

// SweepLeft is what is due and one plan of a sweep could not take.
type SweepLeft struct {
	Proxies int `json:"proxy_count"`
	// Unpriced counts, of Proxies, those that wait for the first of their kind to
	// tell its price.
	Unpriced int `json:"unpriced,omitempty"`
	// FirstExpiresAt is when the first of them that lives expires: until then the
	// sweep has to have come to it.
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty"`
}

// ListingShrunk says that a complete listing did not show a large share of the living
// proxies, or not so that they can be read. Absence is no evidence about a proxy: each stays due, is read
// before it is paid for, and is warned about.
type ListingShrunk struct {
	accountFact
	Known     int `json:"known"`      // living proxies before the listing, without retired ones
	NotListed int `json:"not_listed"` // those of Known that it did not show
	// ProxyIDs are some of them; none where their entries cannot be read.
	ProxyIDs []string `json:"proxy_ids"`
}

// FactType implements Fact.
func (ListingShrunk) FactType() string { return "listing.shrunk" }

// ListingUncovered says how many living proxies no schedule renews, as two complete listings
// showed: they expire unless a command renews them. It is published when there are some, when
// there are more (once a day at most), and with 0 when there are none any more.
type ListingUncovered struct {
	accountFact
	Uncovered int `json:"uncovered"` // how many they are; 0: none any more
	// ProxyIDs are at most 20 of them, those that expire first.
	ProxyIDs []string `json:"proxy_ids"`
	// FirstExpiresAt is when the first of them expires.
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty"`
}

// FactType implements Fact.
func (ListingUncovered) FactType() string { return "listing.uncovered" }

// SweepFailed says that a slot's sweep cannot be made, as when the proxies cannot be
// listed, or commands of it were refused as invalid. It is tried again; once it is
// made its sweep.planned follows.
type SweepFailed struct {
	accountFact
	Schedule string    `json:"schedule"`
	Slot     time.Time `json:"slot"`
	Reason   string    `json:"reason"`
	// Due counts the living proxies of the schedule, as they were last listed, that
	// the sweep is about; Expiring, of them, those that expire before NextSlot.
	Due            int        `json:"due"`
	Expiring       int        `json:"expiring"`
	NextSlot       *time.Time `json:"next_slot,omitempty"`
	FirstExpiresAt *time.Time `json:"first_expires_at,omitempty"`
}

// FactType implements Fact.
func (SweepFailed) FactType() string { return "sweep.failed" }

// ScheduleConfigured says that a schedule is new, or has another name, cron or zone. It counts
// its slots from Since: none of before fires, and those that pass while nothing runs are caught up.
type ScheduleConfigured struct {
	accountFact
	Schedule string    `json:"schedule"`
	Cron     string    `json:"cron"`
	Timezone string    `json:"timezone"`
	Since    time.Time `json:"since"`
	// Was is its name of before: what that has spent, holds and is paused for is the schedule's.
	Was string `json:"was,omitempty"`
}

// FactType implements Fact.
func (ScheduleConfigured) FactType() string { return "schedule.configured" }

// SchedulePaused says that a schedule fires no slot until it is resumed. What it has
// planned before is carried out, and a person's own sweep is made.
type SchedulePaused struct {
	accountFact
	Schedule string `json:"schedule"`
	// Until is when it ends by itself; nil: a person resumes it.
	Until  *time.Time `json:"until,omitempty"`
	By     string     `json:"by"`
	Reason string     `json:"reason"`
	User   string     `json:"user,omitempty"` // see UserOf
}

// FactType implements Fact.
func (SchedulePaused) FactType() string { return "schedule.paused" }

// ScheduleResumed says that a schedule fires its slots again: those that passed during the
// pause are served by one sweep. Without By the time of the pause was over.
type ScheduleResumed struct {
	accountFact
	Schedule string `json:"schedule"`
	By       string `json:"by,omitempty"`
	Reason   string `json:"reason"`
	User     string `json:"user,omitempty"` // see UserOf
}

// FactType implements Fact.
func (ScheduleResumed) FactType() string { return "schedule.resumed" }

// ProxyRetired says that no sweep renews the proxy any more. It is kept until it expires,
// and a person's own command still renews it.
type ProxyRetired struct {
	ProxyID string `json:"proxy_id"`
	By      string `json:"by"`
	Reason  string `json:"reason"`
	User    string `json:"user,omitempty"` // see UserOf
}

// Subject is the proxy.
func (f ProxyRetired) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyRetired) FactType() string { return "proxy.retired" }

// ProxyReinstated says that sweeps renew the proxy again, and count its endings without a
// renewal from here.
type ProxyReinstated struct {
	ProxyID string `json:"proxy_id"`
	By      string `json:"by"`
	Reason  string `json:"reason"`
	User    string `json:"user,omitempty"` // see UserOf
}

// Subject is the proxy.
func (f ProxyReinstated) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyReinstated) FactType() string { return "proxy.reinstated" }

// ProxyReplaced says that the provider would not renew the proxy, and by its schedule's
// policy this order buys another in its place. It says that the order is on its
// way, not that anything was bought.
type ProxyReplaced struct {
	ProxyID   string          `json:"proxy_id"`
	Schedule  string          `json:"schedule"`
	Reason    string          `json:"reason"`
	ExpiresAt time.Time       `json:"expires_at"`
	CommandID string          `json:"command_id"`
	Command   json.RawMessage `json:"command"`
	// MaxTotalCents is the order's ceiling.
	MaxTotalCents int64 `json:"max_total_cents"`
}

// Subject is the proxy.
func (f ProxyReplaced) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyReplaced) FactType() string { return "proxy.replaced" }

// ProxyReview says that so many renewals of the proxy ended without renewing it that
// sweeps leave it to a person. It is about the last of them, and waits in
// v_reviews until the proxy is retired or reinstated, or renewed after all.
type ProxyReview struct {
	Ref
	ProxyID   string    `json:"proxy_id"`
	Schedule  string    `json:"schedule"`
	ExpiresAt time.Time `json:"expires_at"`
	Endings   int       `json:"endings_without_renewal"`
	Reason    string    `json:"reason"`
}

// FactType implements Fact.
func (ProxyReview) FactType() string { return "proxy.review" }
