// Facts about commands, operations, orders and renewals.

package fact

import (
	"encoding/json"
	"time"
)

// Fact is something that happened to the account. Its JSON is the journal's data column
// and, with the ledger's place added, the data of its event. Once appended it never
// changes; other programs read its type and fields.
type Fact interface {
	// FactType returns the entity and a past-tense verb, such as "order.delivered".
	FactType() string
	// Subject returns the id of the operation or command, "" for the account.
	Subject() string
}

// Ref is what every fact about a command or an operation carries.
type Ref struct {
	CommandID   string            `json:"command_id,omitempty" doc:"The id of the command, chosen by its producer."`
	OperationID string            `json:"operation_id,omitempty" doc:"The operation: the command's id, and its part."`
	Labels      map[string]string `json:"labels,omitempty" doc:"The labels of the command, as its producer gave them."`
	TraceID     string            `json:"trace_id,omitempty" doc:"The provider's trace of the request, for its support."`
	Trace
}

// Subject returns the operation's id, or the command's if there is none.
func (r Ref) Subject() string {
	if r.OperationID != "" {
		return r.OperationID
	}
	return r.CommandID
}

// accountFact is embedded in facts about the account as a whole.
type accountFact struct{}

// Subject returns "": the fact is about the account.
func (accountFact) Subject() string { return "" }

// LedgerOpened binds the file to a provider account and books the opening
// balance. It is always the first fact of an epoch; a restored file continues
// under its binding, with nothing booked.
type LedgerOpened struct {
	accountFact
	AccountID    string       `json:"account_id" doc:"The provider's id of the account."`
	Environment  string       `json:"environment" doc:"The provider's environment."`
	BaseURL      string       `json:"base_url" doc:"The provider's address."`
	Currency     string       `json:"currency" doc:"The account's currency, as ISO 4217 has it."`
	OpeningCents int64        `json:"opening_cents" doc:"What the wallet held when the ledger was opened."`
	Epoch        string       `json:"epoch" doc:"The history since the ledger was made, or restored last."`
	Restored     *Restoration `json:"restored,omitempty" doc:"'restored' is set if the epoch begins with a restore."`
	Money
}

// Restoration is what a restored ledger knows of its own gap.
type Restoration struct {
	From   string    `json:"from" doc:"What it was restored from."` // backup | events
	Since  time.Time `json:"since" doc:"'since' is the time of the last row that was restored: what was sent after it may be forgotten."`
	AppID  string    `json:"app_id" doc:"'app_id' is the key that forgotten sends are taken to have used."`
	Proven bool      `json:"proven" doc:"'proven': the last row is the last event of the stream."`
}

// FactType implements Fact.
func (LedgerOpened) FactType() string { return "ledger.opened" }

// RunnerStarted says that a runner took the account over.
type RunnerStarted struct {
	accountFact
	Version   string `json:"version" doc:"The program's version."`
	Holder    string `json:"holder" doc:"The process that works on the account."`
	Recovered int    `json:"recovered" doc:"'recovered' counts the operations that were found in the middle of a send."`
}

// FactType implements Fact.
func (RunnerStarted) FactType() string { return "runner.started" }

// Planned is an operation as its command was accepted: its members and its key
// are frozen here.
type Planned struct {
	OperationID string   `json:"operation_id" doc:"The operation: the command's id, and its part."`
	Chunk       string   `json:"chunk" doc:"The part of the command, such as 0001."`
	Generation  int64    `json:"generation" doc:"How often this part of the command was sent again under a new key, from 1."`
	Key         string   `json:"idempotency_key" doc:"The key under which the provider does the operation once."`
	ProxyIDs    []string `json:"proxy_ids,omitempty" doc:"The provider's ids of the proxies."`
}

// CommandAccepted is the promise that the command will end in a fact.
type CommandAccepted struct {
	Ref
	Kind           Kind            `json:"kind" doc:"What the command asks for."`
	ContentHash    string          `json:"content_hash" doc:"SHA-256 of the content."`
	Content        json.RawMessage `json:"content" doc:"The command, read and normalised."`
	EstimateCents  int64           `json:"estimate_cents,omitempty" doc:"What it is expected to cost, if known."`
	DurationDays   int64           `json:"duration_days" doc:"For how many days: a multiple of 30."`
	Operations     []Planned       `json:"operations" doc:"The operations of the command."`
	ReplyTo        string          `json:"reply_to,omitempty" doc:"'reply_to' is the inbox that gets the data of the command's command.finished."`
	StreamSequence uint64          `json:"stream_sequence,omitempty" doc:"'stream_sequence' is the command's message in the commands stream, as its producer's acknowledgement (PubAck) gave it."`
}

// FactType implements Fact.
func (CommandAccepted) FactType() string { return "command.accepted" }

// RejectedInvalid is the code of a command with content that the intake refuses.
const RejectedInvalid = "invalid"

// CommandRejected ends a command, or one operation of it, with nothing charged:
// refused before it was accepted, refused by the provider, or never sent.
type CommandRejected struct {
	Ref
	ContentHash    string    `json:"content_hash,omitempty" doc:"SHA-256 of the content."`
	Code           string    `json:"code" doc:"Why, as a code: the provider's, or one of Perennial's."`
	Reason         string    `json:"reason" doc:"Why, for people; it may be reworded."`
	Attempt        int64     `json:"attempt,omitempty" doc:"Which send of the operation it was, from 1."`
	ShortOfMoney   bool      `json:"short_of_money,omitempty" doc:"'short_of_money': the wallet could not pay (insufficient_wallet_balance)."`
	SplitInto      []Planned `json:"split_into,omitempty" doc:"'split_into' are the operations that take over ids of a chunk that was refused, or that is divided."`
	DurationDays   int64     `json:"duration_days,omitempty" doc:"For how many days: a multiple of 30."`
	ReplyTo        string    `json:"reply_to,omitempty" doc:"'reply_to' is the inbox that gets the data of the command's command.finished, of a command that is refused before it is accepted."`
	StreamSequence uint64    `json:"stream_sequence,omitempty" doc:"'stream_sequence' is the message of such a command in the commands stream."`
}

// FactType implements Fact.
func (CommandRejected) FactType() string { return "command.rejected" }

// CommandConflict says that an id came again with other content. The first
// content remains.
type CommandConflict struct {
	Ref
	ContentHash    string `json:"content_hash" doc:"SHA-256 of the content."`
	AcceptedHash   string `json:"accepted_hash" doc:"SHA-256 of the content that was accepted first."`
	Reason         string `json:"reason" doc:"Why, for people; it may be reworded."`
	StreamSequence uint64 `json:"stream_sequence,omitempty" doc:"'stream_sequence' is the message of the content that came later, in the commands stream."`
}

// FactType implements Fact.
func (CommandConflict) FactType() string { return "command.conflict" }

// CommandHeld keeps an operation from being sent until it is released.
type CommandHeld struct {
	Ref
	Code          HeldCode   `json:"code,omitempty" doc:"Why, for programs; older facts have none."`
	Reason        string     `json:"reason" doc:"Why, for people; it may be reworded."`
	EstimateCents int64      `json:"estimate_cents,omitempty" doc:"What it is expected to cost, if known."`
	Until         *time.Time `json:"until,omitempty" doc:"'until' is when it is looked at again; without it only a person releases it."`
}

// FactType implements Fact.
func (CommandHeld) FactType() string { return "command.held" }

// CommandReleased allows a held operation to be sent.
type CommandReleased struct {
	Ref
	By        string `json:"by" doc:"The name of the person, as the request gave it."`
	Reason    string `json:"reason" doc:"Why, for people; it may be reworded."`
	User      string `json:"user,omitempty" doc:"The NATS user that asked, if the server authenticated one."` // see UserOf
	Automatic bool   `json:"automatic,omitempty" doc:"'automatic': its time had come. It may be held again, unlike what a person let go."`
}

// FactType implements Fact.
func (CommandReleased) FactType() string { return "command.released" }

// Codes of operations that end before anything is sent.
const (
	CodeCancelled  = "cancelled"         // an operator cancelled it
	CodeDivided    = "divided"           // two others take over its proxies
	CodeDailyLimit = "daily_limit_cents" // it costs more than a whole day's limit
	CodeCeiling    = "max_total_cents"   // it would cost more than its command's limit
)

// CommandCancelled cancels an operation that no attempt may have executed.
type CommandCancelled struct {
	Ref
	By     string `json:"by" doc:"The name of the person, as the request gave it."`
	Reason string `json:"reason" doc:"Why, for people; it may be reworded."`
	User   string `json:"user,omitempty" doc:"The NATS user that asked, if the server authenticated one."` // see UserOf
}

// FactType implements Fact.
func (CommandCancelled) FactType() string { return "command.cancelled" }

// OperationSending is committed before the first byte of an attempt: the key,
// the exact body and the X-API-Timestamp that will be signed.
type OperationSending struct {
	Ref
	Attempt       int64                `json:"attempt" doc:"Which send of the operation it was, from 1."`
	Key           string               `json:"idempotency_key" doc:"The key under which the provider does the operation once."`
	Body          string               `json:"body" doc:"The exact body of the request."`
	SentAt        time.Time            `json:"sent_at" doc:"When it was signed."`
	AppID         string               `json:"app_id" doc:"The id of the API key that signed, without its secret."`
	Observed      map[string]time.Time `json:"observed_expires_at,omitempty" doc:"'observed_expires_at' are the expiries that this attempt pays for, as they were last seen or read just before."`
	EstimateCents int64                `json:"estimate_cents,omitempty" doc:"'estimate_cents' is the most this send is expected to cost, if known."`
}

// FactType implements Fact.
func (OperationSending) FactType() string { return "operation.sending" }

// OperationOverran says that an operation was charged more than the estimate that it was
// sent with, as when the provider's price rose.
type OperationOverran struct {
	Ref
	EstimateCents int64 `json:"estimate_cents" doc:"What it is expected to cost, if known."`
	ChargedCents  int64 `json:"charged_cents" doc:"Before refunds."`
}

// FactType implements Fact.
func (OperationOverran) FactType() string { return "operation.overran" }

// OperationUnsent says that an attempt certainly wrote no byte of its request.
type OperationUnsent struct {
	Ref
	Attempt int64     `json:"attempt" doc:"Which send of the operation it was, from 1."`
	Reason  string    `json:"reason" doc:"Why, for people; it may be reworded."`
	NextAt  time.Time `json:"next_at" doc:"When it continues, at the earliest."`
}

// FactType implements Fact.
func (OperationUnsent) FactType() string { return "operation.unsent" }

// OperationWaiting says that the operation goes again, with the same key and
// the same bytes, not before NextAt.
type OperationWaiting struct {
	Ref
	Attempt    int64     `json:"attempt" doc:"Which send of the operation it was, from 1."`
	Code       string    `json:"code,omitempty" doc:"Why, as a code: the provider's, or one of Perennial's."`
	HTTPStatus int       `json:"http_status,omitempty" doc:"The HTTP status of the reply."`
	Reason     string    `json:"reason" doc:"Why, for people; it may be reworded."`
	Ambiguous  bool      `json:"ambiguous" doc:"'ambiguous': this attempt may have executed."`
	NextAt     time.Time `json:"next_at" doc:"When it continues, at the earliest."`
}

// FactType implements Fact.
func (OperationWaiting) FactType() string { return "operation.waiting" }

// OperationReview says that the operation needs review, with what is known. A
// renewal's lines are booked, unresolved ones to suspense.
type OperationReview struct {
	Ref
	Attempt    int64            `json:"attempt" doc:"Which send of the operation it was, from 1."`
	Code       string           `json:"code,omitempty" doc:"Why, as a code: the provider's, or one of Perennial's."`
	HTTPStatus int              `json:"http_status,omitempty" doc:"The HTTP status of the reply."`
	Reason     string           `json:"reason" doc:"Why, for people; it may be reworded."`
	Ambiguous  bool             `json:"ambiguous" doc:"The send may have been carried out."`
	OrderNo    string           `json:"order_no,omitempty" doc:"The provider's number of the order."`
	Settlement *Lines           `json:"settlement,omitempty" doc:"The lines that are known."`
	ProxyIDs   []string         `json:"proxy_ids,omitempty" doc:"'proxy_ids' and 'proxies' are those of an order, as the read that led here showed them."`
	Proxies    []DeliveredProxy `json:"proxies,omitempty" doc:"How many proxies."`
	Money
}

// FactType implements Fact.
func (OperationReview) FactType() string { return "operation.review" }

// OperationResolved is a person's answer to a review.
type OperationResolved struct {
	Ref
	By           string           `json:"by" doc:"The name of the person, as the request gave it."`
	Reason       string           `json:"reason" doc:"Why, for people; it may be reworded."`
	User         string           `json:"user,omitempty" doc:"The NATS user that asked, if the server authenticated one."` // see UserOf
	Outcome      string           `json:"outcome" doc:"What the person found."`                                            // charged | not_charged
	ProxyID      string           `json:"proxy_id,omitempty" doc:"The provider's id of the proxy."`
	OrderNo      string           `json:"order_no,omitempty" doc:"'order_no' is the order that a person found the operation to have made."`
	ChargedCents int64            `json:"charged_cents" doc:"What was charged, gross: before refunds."`
	ProxyIDs     []string         `json:"proxy_ids,omitempty" doc:"'proxy_ids' and 'proxies' are what that order delivered, as it was read for the answer."`
	Proxies      []DeliveredProxy `json:"proxies,omitempty" doc:"How many proxies."`
	SendAgain    []Planned        `json:"send_again,omitempty"`
	DurationDays int64            `json:"duration_days,omitempty" doc:"For how many days: a multiple of 30."`
	Lines        []AnsweredLine   `json:"lines,omitempty" doc:"'lines' divide the amount of an answer for a whole renewal among its open lines."`
	Money
}

// AnsweredLine is the part of an answer's amount that one line of a renewal has.
type AnsweredLine struct {
	ProxyID      string `json:"proxy_id" doc:"The provider's id of the proxy."`
	ChargedCents int64  `json:"charged_cents" doc:"Gross."`
}

// FactType implements Fact.
func (OperationResolved) FactType() string { return "operation.resolved" }

// OrderAccepted says that the provider took the order (201). It books nothing.
type OrderAccepted struct {
	Ref
	Attempt int64     `json:"attempt" doc:"Which send of the operation it was, from 1."`
	OrderNo string    `json:"order_no" doc:"The provider's number of the order."`
	NextAt  time.Time `json:"next_at" doc:"When it continues, at the earliest."`
}

// FactType implements Fact.
func (OrderAccepted) FactType() string { return "order.accepted" }

// OrderState is what a read of the order's detail showed and what it books.
// ChargedCents and RefundedCents are booked by this fact, not running sums.
type OrderState struct {
	Ref
	OrderNo        string     `json:"order_no" doc:"The provider's number of the order."`
	Status         string     `json:"status" doc:"The status, as the provider says."`
	ExpectedCount  int64      `json:"expected_count" doc:"How many proxies the order is for."`
	DeliveredCount int64      `json:"delivered_count" doc:"How many proxies are available."`
	ChargedCents   int64      `json:"charged_cents" doc:"What was charged, gross: before refunds."`
	RefundedCents  int64      `json:"refunded_cents" doc:"What came back."`
	ReadAt         *time.Time `json:"read_at,omitempty" doc:"'read_at' is when the detail was last read, this time included."`
	UnreadSince    *time.Time `json:"unread_since,omitempty" doc:"'unread_since' is the first of the reads in a row that failed, up to this one."`
	Money
}

// OrderProgressed says that the order is not finished, and is read again at NextAt.
type OrderProgressed struct {
	OrderState
	NextAt time.Time `json:"next_at" doc:"When it continues, at the earliest."`
	Reason string    `json:"reason,omitempty" doc:"Why, for people; it may be reworded."`
}

// FactType implements Fact.
func (OrderProgressed) FactType() string { return "order.progressed" }

// OrderDelivered says that the provider reports the order as complete and available.
type OrderDelivered struct {
	OrderState
	ProxyIDs []string         `json:"proxy_ids" doc:"The provider's ids of the proxies."`
	Proxies  []DeliveredProxy `json:"proxies,omitempty" doc:"'proxies' are those of 'proxy_ids', as the provider showed them."`
	Short    *Shortfall       `json:"short,omitempty" doc:"'short' is set if fewer proxies were delivered than were ordered."`
}

// Shortfall compares what was ordered with what was delivered, in proxies. The provider's
// own figures are the expected_count and delivered_count of the order's state.
type Shortfall struct {
	Ordered int64 `json:"ordered_count" doc:"By the command."`
	Listed  int64 `json:"listed_count" doc:"Entries in the order's list of proxies."`
}

// Counts returns how many proxies the order should have delivered and how many it has.
// expected is the larger of the ordered number and the provider's expected one. delivered
// is the smaller of the provider's delivered number and the listed one.
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
	RefundStatus string           `json:"refund_status" doc:"The state of the refund, as the provider says."`
	Destination  string           `json:"destination" doc:"Where the money went, as the provider says."`
	RefundedAt   time.Time        `json:"refunded_at" doc:"When the money came back."`
	ProxyIDs     []string         `json:"proxy_ids,omitempty" doc:"'proxy_ids' and 'proxies' are what was delivered of it all the same."`
	Proxies      []DeliveredProxy `json:"proxies,omitempty" doc:"How many proxies."`
}

// FactType implements Fact.
func (OrderRefunded) FactType() string { return "order.refunded" }

// OrderListed says that an order which has ended shows proxies that no earlier fact names,
// as after an answer that was given while it could not be read. They carry its labels.
type OrderListed struct {
	Ref
	OrderNo  string           `json:"order_no" doc:"The provider's number of the order."`
	ProxyIDs []string         `json:"proxy_ids" doc:"The provider's ids of the proxies."`
	Proxies  []DeliveredProxy `json:"proxies,omitempty" doc:"'proxies' are those of 'proxy_ids', as the provider showed them."`
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
	ProxyID       string    `json:"proxy_id" doc:"The provider's id of the proxy."`
	State         LineState `json:"state" doc:"The state."` // succeeded | failed | unresolved
	ChargedCents  int64     `json:"charged_cents" doc:"What was charged, gross: before refunds."`
	RefundedCents int64     `json:"refunded_cents" doc:"What came back."`
}

// Lines is a renewal's result, line by line, with its sums in gross cents.
type Lines struct {
	ChargedCents  int64  `json:"charged_cents" doc:"What was charged, gross: before refunds."`
	RefundedCents int64  `json:"refunded_cents" doc:"What came back."`
	Items         []Line `json:"items" doc:"The lines."`
}

// RenewalSettled is the result of a renewal whose lists, lines and sums agree.
// Its fact is named after Status: completed, partial or failed.
type RenewalSettled struct {
	Ref
	Status  string `json:"status" doc:"The status, as the provider says."`
	Attempt int64  `json:"attempt" doc:"Which send of the operation it was, from 1."`
	Code    string `json:"code,omitempty" doc:"Why, as a code: the provider's, or one of Perennial's."`
	Lines
	Money
}

// FactType implements Fact.
func (f RenewalSettled) FactType() string { return "renewal." + f.Status }
