// The facts of the account as a whole: sweeps, proxies, pauses, records, reconciliation.

package fact

import (
	"encoding/json"
	"time"
)

// SweepPlanned says that a slot fired and these commands are its plan.
type SweepPlanned struct {
	accountFact
	Schedule      string      `json:"schedule"`
	Slot          time.Time   `json:"slot"`
	Missed        []time.Time `json:"missed,omitempty"`
	Plan          string      `json:"plan"`
	Due           int         `json:"due"`
	EstimateCents int64       `json:"estimate_cents"` // without those of unknown price
	// UnknownPrice counts the planned proxies whose price is not known.
	UnknownPrice int               `json:"unknown_price,omitempty"`
	Commands     []json.RawMessage `json:"commands"`
	// Planned says of each of Commands what it is expected to cost.
	Planned []PlannedCommand `json:"planned,omitempty"`
	// Of is the first slot of the sweep whose rest this slot takes.
	Of *time.Time `json:"of,omitempty"`
	// Left is what the sweep goes on with by itself, under further slots.
	Left *SweepLeft `json:"left,omitempty"`
	// Unusable counts the proxies that no sweep renews: those of Due whose id or expiry no
	// command can say, and the entries of the listing that could not be read.
	Unusable int    `json:"unusable,omitempty"`
	By       string `json:"by,omitempty"` // of a sweep that a person asked for, as Reason and User
	Reason   string `json:"reason,omitempty"`
	User     string `json:"user,omitempty"` // see UserOf
}

// FactType implements Fact.
func (SweepPlanned) FactType() string { return "sweep.planned" }

// SweepHeld says that a plan waits for an approval, or a part of it for money: one fact
// for each limit that the plan exceeds.
type SweepHeld struct {
	accountFact
	Schedule string    `json:"schedule"`
	Slot     time.Time `json:"slot"`
	Plan     string    `json:"plan"`
	// Code says for programs what it waits for; facts of before this field have none.
	Code    SweepHeldCode `json:"code,omitempty"`
	Reason  string        `json:"reason"`
	LeftOut int           `json:"left_out"`
	// ShortfallCents is what is missing for what is left out: more budget, or
	// money in the wallet.
	ShortfallCents int64 `json:"shortfall_cents"`
	// UnknownPrice counts, of what is left out or waits, the proxies whose price is
	// not known: they are not in ShortfallCents.
	UnknownPrice int `json:"unknown_price,omitempty"`
	// FirstLostAt is when the first proxy that is left out expires.
	FirstLostAt *time.Time `json:"first_lost_at,omitempty"`
	// ProviderCents is what the provider's wallet held, where that is too low.
	ProviderCents *int64 `json:"provider_cents,omitempty"`
}

// FactType implements Fact.
func (SweepHeld) FactType() string { return "sweep.held" }

// SweepFinished says that every command of the slot's plan is on the commands stream.
type SweepFinished struct {
	accountFact
	Schedule string    `json:"schedule"`
	Slot     time.Time `json:"slot"`
	Plan     string    `json:"plan"`
	// Published is how many commands it was.
	Published int `json:"published"`
	// By and Reason are of the person who approved a plan that was held.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	User   string `json:"user,omitempty"` // see UserOf
	// Abandoned: the slot's commands may not all be published, and never will be;
	// Reason says why.
	Abandoned bool `json:"abandoned,omitempty"`
}

// FactType implements Fact.
func (SweepFinished) FactType() string { return "sweep.finished" }

// SweepMissed says that slots passed while no runner worked, or the schedule was paused;
// the next sweep serves all.
type SweepMissed struct {
	accountFact
	Schedule string      `json:"schedule"`
	Slots    []time.Time `json:"slots"`
	ServedBy time.Time   `json:"served_by"`
}

// FactType implements Fact.
func (SweepMissed) FactType() string { return "sweep.missed" }

// ProxyExpiring warns, once for each expiry and threshold, that a proxy expires
// soon and has not been renewed.
type ProxyExpiring struct {
	ProxyID   string    `json:"proxy_id"`
	ExpiresAt time.Time `json:"expires_at"`
	// ThresholdSeconds is how long before the expiry the account wants to know.
	ThresholdSeconds int64 `json:"threshold_seconds,omitempty"`
}

// Subject is the proxy.
func (f ProxyExpiring) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyExpiring) FactType() string { return "proxy.expiring" }

// ProxyExpired says, once for each expiry, that a proxy's time ran out.
type ProxyExpired struct {
	ProxyID   string    `json:"proxy_id"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Subject is the proxy.
func (f ProxyExpired) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyExpired) FactType() string { return "proxy.expired" }

// ProxyGone says that the provider does not know a proxy any more that had not expired: its
// own read was answered with proxy_not_found. Nothing renews it, and no proxy.expired follows.
type ProxyGone struct {
	ProxyID   string     `json:"proxy_id"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // as it was last shown
}

// Subject is the proxy.
func (f ProxyGone) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyGone) FactType() string { return "proxy.gone" }

// AccountPaused says that the account, or one kind of its operations, sends nothing.
// With Until set it ends by itself, as a Retry-After does.
type AccountPaused struct {
	accountFact
	Scope   string     `json:"scope"` // account | order | renewal
	Cause   string     `json:"cause"`
	Detail  string     `json:"detail"`
	TraceID string     `json:"trace_id,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	User    string     `json:"user,omitempty"` // see UserOf
}

// FactType implements Fact.
func (AccountPaused) FactType() string { return "account.paused" }

// AccountResumed ends a pause.
type AccountResumed struct {
	accountFact
	Scope  string `json:"scope"`
	Cause  string `json:"cause"`
	Detail string `json:"detail,omitempty"`
	User   string `json:"user,omitempty"` // see UserOf
	// PresumeSentBy ends the pause of a restored ledger whose gap no read has
	// explained: everything that has not ended may have been sent, by this key.
	PresumeSentBy string `json:"presume_sent_by,omitempty"`
}

// FactType implements Fact.
func (AccountResumed) FactType() string { return "account.resumed" }

// Movements of a LedgerRecorded.
const (
	MovementTopUp    = "top-up"   // into the wallet
	MovementExternal = "external" // spent outside Perennial
	MovementCharge   = "charge"   // of an operation, which its replies did not show
	MovementRefund   = "refund"   // of an operation, which its replies did not show
)

// LedgerRecorded books money that moved outside Perennial, or that the replies for an
// operation did not show, in a person's name. The Ref of a charge and a refund names the
// operation.
type LedgerRecorded struct {
	Ref
	Movement    string `json:"movement"` // top-up | external | charge | refund
	AmountCents int64  `json:"amount_cents"`
	By          string `json:"by"`
	Reason      string `json:"reason"`
	User        string `json:"user,omitempty"` // see UserOf
	// OrderNo is the order that the money went on or came back from, where a
	// person knows it.
	OrderNo string `json:"order_no,omitempty"`
	ProxyID string `json:"proxy_id,omitempty"` // the line of a renewal
	// ID is the person's own: the same one books once.
	ID string `json:"id,omitempty"`
	// Corrects is the journal sequence of the record, or of the answer to a review, that
	// this one takes back or corrects.
	Corrects int64 `json:"corrects_seq,omitempty"`
	Money
}

// Subject is the operation of a charge or a refund. Else it names the record, so that its
// id is found again; "" without an id.
func (f LedgerRecorded) Subject() string {
	switch {
	case f.OperationID != "":
		return f.OperationID
	case f.ID == "":
		return ""
	}
	return recordPrefix + f.ID
}

// Opposite is the movement that takes this one back.
func (f LedgerRecorded) Opposite() string {
	return map[string]string{
		MovementTopUp: MovementExternal, MovementExternal: MovementTopUp, MovementCharge: MovementRefund, MovementRefund: MovementCharge,
	}[f.Movement]
}

// recordPrefix tells the subjects of records from those of commands.
const recordPrefix = "record:"

// FactType implements Fact.
func (LedgerRecorded) FactType() string { return "ledger.recorded" }

// LedgerUncompared says that the wallet could not be compared with the books, from this
// pass on: operations are open whose cost is not known and has no bound. It is published
// once, until a pass can compare again.
type LedgerUncompared struct {
	accountFact
	WalletCents   int64 `json:"wallet_cents"`   // by the books
	ProviderCents int64 `json:"provider_cents"` // by the provider
	// OperationIDs are those of unknown cost, the first 20 of OperationsTotal.
	OperationIDs    []string `json:"operation_ids"`
	OperationsTotal int      `json:"operations_total"`
}

// FactType implements Fact.
func (LedgerUncompared) FactType() string { return "ledger.uncompared" }

// LedgerReconciled says that the books were compared with the provider and agreed.
type LedgerReconciled struct {
	accountFact
	WalletCents   int64 `json:"wallet_cents"`
	ProviderCents int64 `json:"provider_cents"`
	Quiet         bool  `json:"quiet"`
}

// FactType implements Fact.
func (LedgerReconciled) FactType() string { return "ledger.reconciled" }

// LedgerDiscrepancy is a difference between the books and the provider that
// no record explains. It corrects nothing.
type LedgerDiscrepancy struct {
	Ref
	Finding     string `json:"finding"`
	AmountCents int64  `json:"amount_cents"`
	OrderNo     string `json:"order_no,omitempty"`
	ProxyID     string `json:"proxy_id,omitempty"`
	Explanation string `json:"explanation"`
}

// FactType implements Fact.
func (LedgerDiscrepancy) FactType() string { return "ledger.discrepancy" }
