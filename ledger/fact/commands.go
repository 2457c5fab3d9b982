// The facts of commands, operations, orders and renewals.

package fact

import (
	"encoding/json"
	"time"
)

// Fact is something that happened to the account. Its JSON is the journal's
// data column and, with the ledger's place added, the data of its event. Once
// appended it never changes; its type and fields are read by others.
type Fact interface {
	// FactType is the entity and the past-tense fact, such as "order.delivered".
	FactType() string
	// Subject is the operation or command id the fact is about, "" for the account.
	Subject() string
}

// Ref is what every fact about a command or an operation carries.
type Ref struct {
	CommandID   string            `json:"command_id,omitempty"`
	OperationID string            `json:"operation_id,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	TraceID     string            `json:"trace_id,omitempty"`
	Trace
}

// Subject is the operation's id, or the command's where there is no operation.
func (r Ref) Subject() string {
	if r.OperationID != "" {
		return r.OperationID
	}
	return r.CommandID
}

// accountFact is embedded by facts that are about the account as a whole.
type accountFact struct{}

// Subject is "": the fact is about the account.
func (accountFact) Subject() string { return "" }

// LedgerOpened binds the file to a provider account and books the opening
// balance. It is always the first fact of an epoch; a restored file goes on
// under its binding, with nothing booked.
type LedgerOpened struct {
	accountFact
	AccountID    string `json:"account_id"`
	Environment  string `json:"environment"`
	BaseURL      string `json:"base_url"`
	Currency     string `json:"currency"`
	OpeningCents int64  `json:"opening_cents"`
	Epoch        string `json:"epoch"`
	// Restored is set where the epoch begins with a restore.
	Restored *Restoration `json:"restored,omitempty"`
	Money
}

// Restoration is what a restored ledger knows of its own gap.
type Restoration struct {
	From string `json:"from"` // backup | events
	// Since is the time of the last row that was restored: what was sent after
	// it may be forgotten.
	Since time.Time `json:"since"`
	// AppID is the key that forgotten sends are taken to have used.
	AppID string `json:"app_id"`
	// Proven: the last row is the last event of the stream.
	Proven bool `json:"proven"`
}

// FactType implements Fact.
func (LedgerOpened) FactType() string { return "ledger.opened" }

// RunnerStarted says that a runner took the account over.
type RunnerStarted struct {
	accountFact
	Version string `json:"version"`
	Holder  string `json:"holder"`
	// Recovered counts the operations that were found in the middle of a send.
	Recovered int `json:"recovered"`
}

// FactType implements Fact.
func (RunnerStarted) FactType() string { return "runner.started" }

// Planned is an operation as its command's acceptance laid it down: the
// membership and the key are frozen here.
type Planned struct {
	OperationID string   `json:"operation_id"`
	Chunk       string   `json:"chunk"`
	Generation  int64    `json:"generation"`
	Key         string   `json:"idempotency_key"`
	ProxyIDs    []string `json:"proxy_ids,omitempty"`
}

// CommandAccepted is the promise that the command will end in a fact.
type CommandAccepted struct {
	Ref
	Kind          Kind            `json:"kind"`
	ContentHash   string          `json:"content_hash"`
	Content       json.RawMessage `json:"content"`
	EstimateCents int64           `json:"estimate_cents,omitempty"`
	DurationDays  int64           `json:"duration_days"`
	Operations    []Planned       `json:"operations"`
	// ReplyTo is the inbox that gets the data of the command's command.finished.
	ReplyTo string `json:"reply_to,omitempty"`
	// StreamSequence is the command's message in the commands stream, as its producer's
	// acknowledgement (PubAck) gave it.
	StreamSequence uint64 `json:"stream_sequence,omitempty"`
}

// FactType implements Fact.
func (CommandAccepted) FactType() string { return "command.accepted" }

// RejectedInvalid is the code of a command whose content the intake refuses.
const RejectedInvalid = "invalid"

// CommandRejected ends a command, or one operation of it, with nothing charged:
// refused before it was accepted, refused by the provider, or never sent.
type CommandRejected struct {
	Ref
	ContentHash string `json:"content_hash,omitempty"`
	Code        string `json:"code"`
	Reason      string `json:"reason"`
	Attempt     int64  `json:"attempt,omitempty"`
	// ShortOfMoney: the wallet could not pay (insufficient_wallet_balance).
	ShortOfMoney bool `json:"short_of_money,omitempty"`
	// SplitInto are the operations that take over ids of a chunk that was refused, or
	// that is divided.
	SplitInto    []Planned `json:"split_into,omitempty"`
	DurationDays int64     `json:"duration_days,omitempty"`
	// ReplyTo is the inbox that gets the data of the command's command.finished, of a
	// command that is refused before it is accepted.
	ReplyTo string `json:"reply_to,omitempty"`
	// StreamSequence is the message of such a command in the commands stream.
	StreamSequence uint64 `json:"stream_sequence,omitempty"`
}

// FactType implements Fact.
func (CommandRejected) FactType() string { return "command.rejected" }

// CommandConflict says that an id came again with other content. The first
// content remains.
type CommandConflict struct {
	Ref
	ContentHash  string `json:"content_hash"`
	AcceptedHash string `json:"accepted_hash"`
	Reason       string `json:"reason"`
	// StreamSequence is the message of the content that came later, in the commands stream.
	StreamSequence uint64 `json:"stream_sequence,omitempty"`
}

// FactType implements Fact.
func (CommandConflict) FactType() string { return "command.conflict" }

// CommandHeld keeps an operation from being sent until it is released.
type CommandHeld struct {
	Ref
	Code          HeldCode `json:"code,omitempty"` // why, for programs; facts of before this field have none
	Reason        string   `json:"reason"`
	EstimateCents int64    `json:"estimate_cents,omitempty"`
	// Until is when it is looked at again; without it only a person releases it.
	Until *time.Time `json:"until,omitempty"`
}

// FactType implements Fact.
func (CommandHeld) FactType() string { return "command.held" }

// CommandReleased lets a held operation go.
type CommandReleased struct {
	Ref
	By     string `json:"by"`
	Reason string `json:"reason"`
	User   string `json:"user,omitempty"` // see UserOf
	// Automatic: its time had come. It may be held again, unlike what a person
	// let go.
	Automatic bool `json:"automatic,omitempty"`
}

// FactType implements Fact.
func (CommandReleased) FactType() string { return "command.released" }

// Codes of operations that end before anything is sent.
const (
	CodeCancelled  = "cancelled"         // a person cancelled it
	CodeDivided    = "divided"           // two others take over its proxies
	CodeDailyLimit = "daily_limit_cents" // it costs more than a whole day's limit
	CodeCeiling    = "max_total_cents"   // it would cost more than its command's ceiling
)

// CommandCancelled withdraws an operation that no attempt may have executed.
type CommandCancelled struct {
	Ref
	By     string `json:"by"`
	Reason string `json:"reason"`
	User   string `json:"user,omitempty"` // see UserOf
}

// FactType implements Fact.
func (CommandCancelled) FactType() string { return "command.cancelled" }

// OperationSending is committed before the first byte of an attempt: the key,
// the exact body and the X-API-Timestamp that will be signed.
type OperationSending struct {
	Ref
	Attempt int64     `json:"attempt"`
	Key     string    `json:"idempotency_key"`
	Body    string    `json:"body"`
	SentAt  time.Time `json:"sent_at"`
	AppID   string    `json:"app_id"`
	// Observed are the expiries that this attempt pays for, as they were last seen or
	// read just before.
	Observed map[string]time.Time `json:"observed_expires_at,omitempty"`
	// EstimateCents is the most this send is expected to cost, where it is known.
	EstimateCents int64 `json:"estimate_cents,omitempty"`
}

// FactType implements Fact.
func (OperationSending) FactType() string { return "operation.sending" }

// OperationOverran says that an operation was charged more than the estimate that it was
// sent with, as when the provider's price rose.
type OperationOverran struct {
	Ref
	EstimateCents int64 `json:"estimate_cents"`
	ChargedCents  int64 `json:"charged_cents"` // before refunds
}

// FactType implements Fact.
func (OperationOverran) FactType() string { return "operation.overran" }

// OperationUnsent says that an attempt surely wrote no byte of its request.
type OperationUnsent struct {
	Ref
	Attempt int64     `json:"attempt"`
	Reason  string    `json:"reason"`
	NextAt  time.Time `json:"next_at"`
}

// FactType implements Fact.
func (OperationUnsent) FactType() string { return "operation.unsent" }

// OperationWaiting says that the operation goes again, with the same key and
// the same bytes, not before NextAt.
type OperationWaiting struct {
	Ref
	Attempt    int64  `json:"attempt"`
	Code       string `json:"code,omitempty"`
	HTTPStatus int    `json:"http_status,omitempty"`
	Reason     string `json:"reason"`
	// Ambiguous: this attempt may have executed.
	Ambiguous bool      `json:"ambiguous"`
	NextAt    time.Time `json:"next_at"`
}

// FactType implements Fact.
func (OperationWaiting) FactType() string { return "operation.waiting" }

// OperationReview hands the operation to a person, with what is known. A
// renewal's lines are booked: unresolved ones to suspense.
type OperationReview struct {
	Ref
	Attempt    int64  `json:"attempt"`
	Code       string `json:"code,omitempty"`
	HTTPStatus int    `json:"http_status,omitempty"`
	Reason     string `json:"reason"`
	Ambiguous  bool   `json:"ambiguous"`
	OrderNo    string `json:"order_no,omitempty"`
	Settlement *Lines `json:"settlement,omitempty"`
	// ProxyIDs and Proxies are those of an order, as the read that led here showed them.
	ProxyIDs []string         `json:"proxy_ids,omitempty"`
	Proxies  []DeliveredProxy `json:"proxies,omitempty"`
	Money
}

// FactType implements Fact.
func (OperationReview) FactType() string { return "operation.review" }

// OperationResolved is a person's answer to a review.
type OperationResolved struct {
	Ref
	By      string `json:"by"`
	Reason  string `json:"reason"`
	User    string `json:"user,omitempty"` // see UserOf
	Outcome string `json:"outcome"`        // charged | not_charged
	ProxyID string `json:"proxy_id,omitempty"`
	// OrderNo is the order that a person found the operation to have made.
	OrderNo      string `json:"order_no,omitempty"`
	ChargedCents int64  `json:"charged_cents"`
	// ProxyIDs and Proxies are what that order delivered, as it was read for the answer.
	ProxyIDs     []string         `json:"proxy_ids,omitempty"`
	Proxies      []DeliveredProxy `json:"proxies,omitempty"`
	SendAgain    []Planned        `json:"send_again,omitempty"`
	DurationDays int64            `json:"duration_days,omitempty"`
	// Lines divide the amount of an answer for a whole renewal among its open lines.
	Lines []AnsweredLine `json:"lines,omitempty"`
	Money
}

// AnsweredLine is the part of an answer's amount that one line of a renewal has.
type AnsweredLine struct {
	ProxyID      string `json:"proxy_id"`
	ChargedCents int64  `json:"charged_cents"` // gross
}

// FactType implements Fact.
func (OperationResolved) FactType() string { return "operation.resolved" }

// OrderAccepted says that the provider took the order (201). It books nothing.
type OrderAccepted struct {
	Ref
	Attempt int64     `json:"attempt"`
	OrderNo string    `json:"order_no"`
	NextAt  time.Time `json:"next_at"`
}

// FactType implements Fact.
func (OrderAccepted) FactType() string { return "order.accepted" }

// OrderState is what a read of the order's detail showed and what it books.
// ChargedCents and RefundedCents are booked by this fact, not running sums.
type OrderState struct {
	Ref
	OrderNo        string `json:"order_no"`
	Status         string `json:"status"`
	ExpectedCount  int64  `json:"expected_count"`
	DeliveredCount int64  `json:"delivered_count"`
	ChargedCents   int64  `json:"charged_cents"`
	RefundedCents  int64  `json:"refunded_cents"`
	// ReadAt is when the detail was last read, this time included.
	ReadAt *time.Time `json:"read_at,omitempty"`
	// UnreadSince is the first of the reads in a row that failed, up to this one.
	UnreadSince *time.Time `json:"unread_since,omitempty"`
	Money
}

// OrderProgressed says that the order is not finished, and is read again at NextAt.
type OrderProgressed struct {
	OrderState
	NextAt time.Time `json:"next_at"`
	Reason string    `json:"reason,omitempty"`
}

// FactType implements Fact.
func (OrderProgressed) FactType() string { return "order.progressed" }

// OrderDelivered says that the provider reports the order as complete and available.
type OrderDelivered struct {
	OrderState
	ProxyIDs []string `json:"proxy_ids"`
	// Proxies are those of ProxyIDs, as the provider showed them.
	Proxies []DeliveredProxy `json:"proxies,omitempty"`
	// Short is set where fewer proxies were delivered than were ordered.
	Short *Shortfall `json:"short,omitempty"`
}

// Shortfall compares what was ordered with what was delivered, in proxies. The provider's
// own figures are the expected_count and delivered_count of the order's state.
type Shortfall struct {
	Ordered int64 `json:"ordered_count"` // by the command
	Listed  int64 `json:"listed_count"`  // entries in the order's list of proxies
}

// Counts are how many proxies the order should have delivered and how many it has: of
// what was ordered and what the provider expects the larger, of what the provider says
// that it delivered and what it lists the smaller.
func (f OrderDelivered) Counts() (expected, delivered int64) {
	if f.Short == nil {
		return f.ExpectedCount, f.DeliveredCount
	}
	return max(f.ExpectedCount, f.Short.Ordered), min(f.DeliveredCount, f.Short.Listed)
}

// FactType implements Fact.
func (OrderDelivered) FactType() string { return "order.delivered" }

// OrderRefunded says that the provider returned money for the order.
type OrderRefunded struct {
	OrderState
	RefundStatus string    `json:"refund_status"`
	Destination  string    `json:"destination"`
	RefundedAt   time.Time `json:"refunded_at"`
	// ProxyIDs and Proxies are what was delivered of it all the same.
	ProxyIDs []string         `json:"proxy_ids,omitempty"`
	Proxies  []DeliveredProxy `json:"proxies,omitempty"`
}

// FactType implements Fact.
func (OrderRefunded) FactType() string { return "order.refunded" }

// OrderListed says that an order which has ended shows proxies that no earlier fact names,
// as after an answer that was given while it could not be read. They carry its labels.
type OrderListed struct {
	Ref
	OrderNo  string   `json:"order_no"`
	ProxyIDs []string `json:"proxy_ids"`
	// Proxies are those of ProxyIDs, as the provider showed them.
	Proxies []DeliveredProxy `json:"proxies,omitempty"`
}

// FactType implements Fact.
func (OrderListed) FactType() string { return "order.listed" }

// LineState is the state of one proxy of a renewal: docs/state-machine.md, Lines of a
// renewal.
type LineState string

// The states of a line.
const (
	LinePending    LineState = "pending"
	LineSkipped    LineState = "skipped"
	LineSucceeded  LineState = "succeeded"
	LineFailed     LineState = "failed"
	LineUnresolved LineState = "unresolved"
	LineCharged    LineState = "charged"
	LineNotCharged LineState = "not_charged"
)

// Line is one proxy of a settled renewal. ChargedCents is gross, before
// refunds; the provider's charged_cents is net (customer-api.md, Renewal result).
type Line struct {
	ProxyID       string    `json:"proxy_id"`
	State         LineState `json:"state"` // succeeded | failed | unresolved
	ChargedCents  int64     `json:"charged_cents"`
	RefundedCents int64     `json:"refunded_cents"`
}

// Lines is a renewal's result, line by line, with its sums in gross cents.
type Lines struct {
	ChargedCents  int64  `json:"charged_cents"`
	RefundedCents int64  `json:"refunded_cents"`
	Items         []Line `json:"items"`
}

// RenewalSettled is the result of a renewal whose lists, lines and sums agree.
// Its fact is named after Status: completed, partial or failed.
type RenewalSettled struct {
	Ref
	Status  string `json:"status"`
	Attempt int64  `json:"attempt"`
	Code    string `json:"code,omitempty"`
	Lines
	Money
}

// FactType implements Fact.
func (f RenewalSettled) FactType() string { return "renewal." + f.Status }
