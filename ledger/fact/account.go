// Facts about the account as a whole: sweeps, proxies, pauses, records, reconciliation.

package fact

import (
	"cmp"
	"encoding/json"
	"time"
)

// SweepPlanned says that a slot fired and these commands are its plan.
type SweepPlanned struct {
	accountFact
	Schedule      string            `json:"schedule" doc:"The name of the schedule."`
	Slot          time.Time         `json:"slot" doc:"The planned firing."`
	Missed        []time.Time       `json:"missed,omitempty" doc:"The slots that passed before it while no runner worked."`
	Plan          string            `json:"plan" doc:"The hash of the plan."`
	Due           int               `json:"due" doc:"How many proxies are due, without those that were renewed and not read since."`
	EstimateCents int64             `json:"estimate_cents" doc:"Without those of unknown price."`
	UnknownPrice  int               `json:"unknown_price,omitempty" doc:"'unknown_price' counts the planned proxies whose price is not known."`
	Commands      []json.RawMessage `json:"commands" doc:"The commands, as they are published."`
	Planned       []PlannedCommand  `json:"planned,omitempty" doc:"'planned' says of each of 'commands' what it is expected to cost."`
	Of            *time.Time        `json:"of,omitempty" doc:"'of' is the first slot of the sweep whose rest this slot takes."`
	Left          *SweepLeft        `json:"left,omitempty" doc:"'left' is what the run continues with, in further slots."`
	Unusable      int               `json:"unusable,omitempty" doc:"'unusable' counts the proxies that no sweep renews: those of 'due' whose id or expiry no command can say, and the entries of the listing that could not be read."`
	By            string            `json:"by,omitempty" doc:"Of a sweep that a person asked for, as 'reason' and 'user'."`
	Reason        string            `json:"reason,omitempty" doc:"Why, for people; it may be reworded."`
	User          string            `json:"user,omitempty" doc:"The NATS user that asked, if the server authenticated one."` // see UserOf
}

// FactType implements Fact.
func (SweepPlanned) FactType() string { return "sweep.planned" }

// SweepHeld says that a plan needs approval, or that a limit of money skips a part of it: one
// fact for each limit that the plan exceeds.
type SweepHeld struct {
	accountFact
	Schedule       string        `json:"schedule" doc:"The name of the schedule."`
	Slot           time.Time     `json:"slot" doc:"The planned firing."`
	Plan           string        `json:"plan" doc:"The hash of the plan."`
	Code           SweepHeldCode `json:"code,omitempty" doc:"'code' says for programs what it waits for; older facts have none."`
	Reason         string        `json:"reason" doc:"Why, for people; it may be reworded."`
	LeftOut        int           `json:"left_out" doc:"How many due proxies are left out."`
	ShortfallCents int64         `json:"shortfall_cents" doc:"'shortfall_cents' is what is missing for what is left out: more budget, or money in the wallet."`
	UnknownPrice   int           `json:"unknown_price,omitempty" doc:"'unknown_price' counts, of what is left out or waits, the proxies whose price is not known: they are not in 'shortfall_cents'."`
	FirstLostAt    *time.Time    `json:"first_lost_at,omitempty" doc:"'first_lost_at' is when the first proxy that is left out expires."`
	ProviderCents  *int64        `json:"provider_cents,omitempty" doc:"'provider_cents' is what the provider's wallet held, if that is too low."`
}

// FactType implements Fact.
func (SweepHeld) FactType() string { return "sweep.held" }

// SweepFinished says that every command of the slot's plan is on the commands stream.
type SweepFinished struct {
	accountFact
	Schedule  string    `json:"schedule" doc:"The name of the schedule."`
	Slot      time.Time `json:"slot" doc:"The planned firing."`
	Plan      string    `json:"plan" doc:"The hash of the plan."`
	Published int       `json:"published" doc:"'published' is how many commands it was."`
	OverLimit int       `json:"over_limit,omitempty" doc:"'over_limit' counts the due proxies that a budget, the account's limit or the wallet left out: the slot's 'sweep.held' says which."`
	By        string    `json:"by,omitempty" doc:"'by' and 'reason' are of the person who approved a plan that was held, or with 'abandoned' declined it."`
	Reason    string    `json:"reason,omitempty" doc:"Why, for people; it may be reworded."`
	User      string    `json:"user,omitempty" doc:"The NATS user that asked, if the server authenticated one."` // see UserOf
	Abandoned bool      `json:"abandoned,omitempty" doc:"'abandoned': the slot's commands may not all be published, and never will be; 'reason' says why."`
}

// FactType implements Fact.
func (SweepFinished) FactType() string { return "sweep.finished" }

// SweepMissed says that slots passed while no runner worked, or while the schedule was paused.
// The next run replaces them all.
type SweepMissed struct {
	accountFact
	Schedule string      `json:"schedule" doc:"The name of the schedule."`
	Slots    []time.Time `json:"slots" doc:"The slots that passed."`
	ServedBy time.Time   `json:"served_by" doc:"The slot that serves those that were missed."`
}

// FactType implements Fact.
func (SweepMissed) FactType() string { return "sweep.missed" }

// ProxyExpiring warns, once for each expiry and threshold, that a proxy expires
// soon and has not been renewed.
type ProxyExpiring struct {
	ProxyID          string    `json:"proxy_id" doc:"The provider's id of the proxy."`
	ExpiresAt        time.Time `json:"expires_at" doc:"When it expires."`
	ThresholdSeconds int64     `json:"threshold_seconds,omitempty" doc:"'threshold_seconds' is how long before the expiry the account wants to know."`
}

// Subject returns the proxy's id.
func (f ProxyExpiring) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyExpiring) FactType() string { return "proxy.expiring" }

// ProxyExpired says, once for each expiry, that a proxy has expired.
type ProxyExpired struct {
	ProxyID   string    `json:"proxy_id" doc:"The provider's id of the proxy."`
	ExpiresAt time.Time `json:"expires_at" doc:"When it expires."`
}

// Subject returns the proxy's id.
func (f ProxyExpired) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyExpired) FactType() string { return "proxy.expired" }

// ProxyGone says that the provider no longer knows a proxy that had not expired: its own read
// was answered with proxy_not_found. Nothing renews it, and no proxy.expired follows.
type ProxyGone struct {
	ProxyID   string     `json:"proxy_id" doc:"The provider's id of the proxy."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"As it was last shown."`
}

// Subject returns the proxy's id.
func (f ProxyGone) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyGone) FactType() string { return "proxy.gone" }

// AccountPaused says that the account, or one kind of its operations, sends nothing.
// With Until set it ends automatically, as a Retry-After does.
type AccountPaused struct {
	accountFact
	Scope   string     `json:"scope" doc:"What is paused: the account, or one kind of operation."` // account | order | renewal
	Cause   string     `json:"cause" doc:"Why, in one word: rate_limited, insufficient_wallet_balance, …"`
	Detail  string     `json:"detail" doc:"Why, for people."`
	TraceID string     `json:"trace_id,omitempty" doc:"The provider's trace of the request, for its support."`
	Until   *time.Time `json:"until,omitempty" doc:"Until when."`
	User    string     `json:"user,omitempty" doc:"The NATS user that asked, if the server authenticated one."` // see UserOf
}

// FactType implements Fact.
func (AccountPaused) FactType() string { return "account.paused" }

// AccountResumed ends a pause.
type AccountResumed struct {
	accountFact
	Scope         string `json:"scope" doc:"What is paused: the account, or one kind of operation."`
	Cause         string `json:"cause" doc:"Why, in one word: rate_limited, insufficient_wallet_balance, …"`
	Detail        string `json:"detail,omitempty" doc:"Why, for people."`
	User          string `json:"user,omitempty" doc:"The NATS user that asked, if the server authenticated one."` // see UserOf
	PresumeSentBy string `json:"presume_sent_by,omitempty" doc:"'presume_sent_by' ends the pause of a restored ledger whose gap no read has explained: everything that has not ended may have been sent, by this key."`
}

// FactType implements Fact.
func (AccountResumed) FactType() string { return "account.resumed" }

// Movements of a LedgerRecorded.
const (
	MovementTopUp    = "top-up"   // into the wallet
	MovementExternal = "external" // spent outside Perennial
	MovementCharge   = "charge"   // of an operation, missing from its replies
	MovementRefund   = "refund"   // of an operation, missing from its replies
)

// LedgerRecorded books money that moved outside Perennial, or that the replies for an
// operation did not show, in a person's name. The Ref of a charge and a refund names the
// operation.
type LedgerRecorded struct {
	Ref
	Movement    string `json:"movement" doc:"What moved: money into the wallet, or out of it for something that was bought elsewhere."` // top-up | external | charge | refund
	AmountCents int64  `json:"amount_cents" doc:"The difference."`
	By          string `json:"by" doc:"The name of the person, as the request gave it."`
	Reason      string `json:"reason" doc:"Why, for people; it may be reworded."`
	User        string `json:"user,omitempty" doc:"The NATS user that asked, if the server authenticated one."` // see UserOf
	OrderNo     string `json:"order_no,omitempty" doc:"'order_no' is the order that the money went on or came back from, if a person knows it."`
	ProxyID     string `json:"proxy_id,omitempty" doc:"The line of a renewal."`
	ID          string `json:"id,omitempty" doc:"'id' is the person's own: the same one books once."`
	// Account is the account of the books that a reversal returns to, "" if the movement
	// names it: external for a top-up that takes spending back, funding for spending that
	// takes a top-up back.
	Account  string `json:"account,omitempty" doc:"'account' is external for a top-up that takes recorded spending back, and funding for spending that takes a top-up back: the sums of that account fall."` // external | funding
	Corrects int64  `json:"corrects_seq,omitempty" doc:"'corrects_seq' is the journal sequence of the record, or of the answer to a review, that this one takes back or corrects."`
	Money
}

// Subject returns the operation of a charge or refund. Otherwise it names the record by its
// id, so that it can be found again; "" without an id.
func (f LedgerRecorded) Subject() string {
	switch {
	case f.OperationID != "":
		return f.OperationID
	case f.ID == "":
		return ""
	}
	return recordPrefix + f.ID
}

// BookAccount returns the account of the books on the other side of the wallet, for a
// top-up or spending outside Perennial.
func (f LedgerRecorded) BookAccount() string {
	if f.Movement == MovementExternal {
		return cmp.Or(f.Account, "external")
	}
	return cmp.Or(f.Account, "funding")
}

// Opposite returns the movement that takes this one back.
func (f LedgerRecorded) Opposite() string {
	return map[string]string{
		MovementTopUp: MovementExternal, MovementExternal: MovementTopUp, MovementCharge: MovementRefund, MovementRefund: MovementCharge,
	}[f.Movement]
}

// recordPrefix distinguishes the subjects of records from command ids.
const recordPrefix = "record:"

// FactType implements Fact.
func (LedgerRecorded) FactType() string { return "ledger.recorded" }

// LedgerUncompared says that the wallet could not be compared with the books, from this
// pass on: operations are open whose cost is not known and has no bound. It is published
// once, until a pass can compare again.
type LedgerUncompared struct {
	accountFact
	WalletCents     int64    `json:"wallet_cents" doc:"By the books."`
	ProviderCents   int64    `json:"provider_cents" doc:"By the provider."`
	OperationIDs    []string `json:"operation_ids" doc:"'operation_ids' are those of unknown cost, the first 20 of 'operations_total'."`
	OperationsTotal int      `json:"operations_total" doc:"How many operations there are."`
}

// FactType implements Fact.
func (LedgerUncompared) FactType() string { return "ledger.uncompared" }

// LedgerReconciled says that the books were compared with the provider and agreed.
type LedgerReconciled struct {
	accountFact
	WalletCents   int64 `json:"wallet_cents" doc:"What the book says that the wallet holds."`
	ProviderCents int64 `json:"provider_cents" doc:"What the provider says that the wallet holds."`
	Quiet         bool  `json:"quiet" doc:"Nothing was in progress when the wallet was read."`
}

// FactType implements Fact.
func (LedgerReconciled) FactType() string { return "ledger.reconciled" }

// LedgerDiscrepancy is a difference between the books and the provider that
// no record explains. It corrects nothing.
type LedgerDiscrepancy struct {
	Ref
	Finding     string `json:"finding" doc:"What differs, in one word: docs/operations.md, Findings."`
	AmountCents int64  `json:"amount_cents" doc:"The difference."`
	OrderNo     string `json:"order_no,omitempty" doc:"The provider's number of the order."`
	ProxyID     string `json:"proxy_id,omitempty" doc:"The provider's id of the proxy."`
	Explanation string `json:"explanation" doc:"The difference, for people."`
}

// FactType implements Fact.
func (LedgerDiscrepancy) FactType() string { return "ledger.discrepancy" }
