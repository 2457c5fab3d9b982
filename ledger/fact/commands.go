package fact

import (
	"encoding/json"
	"slices"
	"time"
)

// Fact is something that happened to the account. Its JSON is stored in the journal. The data of
// the published event is the same JSON, with the fact's place in the ledger added. A fact never
// changes after it was appended. Other programs depend on its type and fields.
type Fact interface {
	// FactType returns the entity and a past-tense verb, such as "order.delivered".
	FactType() string
	// Subject returns the id of what the fact is about, such as an operation, a command or a
	// proxy. It returns "" if the fact is about the account.
	Subject() string
}

// Ref has the fields that all facts about a command or an operation share.
type Ref struct {
	CommandID   string            `json:"command_id,omitempty" doc:"The id of the command, chosen by its producer."`
	OperationID string            `json:"operation_id,omitempty" doc:"The id of the operation: the command's id and the part, such as restock-7/1."`
	Labels      map[string]string `json:"labels,omitempty" doc:"The labels of the command, as given by its producer."`
	TraceID     string            `json:"trace_id,omitempty" doc:"The provider's trace id of the request, for its support."`
	Trace
}

// Subject returns the operation's id. If there is no operation, it returns the command's id.
func (r Ref) Subject() string {
	if r.OperationID != "" {
		return r.OperationID
	}
	return r.CommandID
}

type accountFact struct{}

// Subject returns "", because the fact is about the account.
func (accountFact) Subject() string { return "" }

// LedgerOpened binds the ledger to a provider account and books the opening balance. It is
// the first fact of an epoch. After a restore the binding stays the same, and nothing is
// booked.
type LedgerOpened struct {
	accountFact
	AccountID    string       `json:"account_id" doc:"The provider's id of the account."`
	Environment  string       `json:"environment" doc:"The provider's environment."`
	BaseURL      string       `json:"base_url" doc:"The provider's address."`
	Currency     string       `json:"currency" doc:"The account's currency, an ISO 4217 code."`
	OpeningCents int64        `json:"opening_cents" doc:"The balance of the wallet when the ledger was opened."`
	Epoch        string       `json:"epoch" doc:"The id of this history; each restore begins a new history."`
	Restored     *Restoration `json:"restored,omitempty" doc:"'restored' is set if this history begins with a restore."`
	Money
}

// Restoration describes the restore at the start of an epoch, and the period that the ledger may
// lack.
type Restoration struct {
	From   string    `json:"from" doc:"The source of the restore."` // backup | events
	Since  time.Time `json:"since" doc:"'since' is the time of the last restored row. Requests that were sent later may be unknown to the ledger."`
	AppID  string    `json:"app_id" doc:"'app_id' is the App ID that unknown requests are assumed to have used."`
	Proven bool      `json:"proven" doc:"'proven' says that the last row is the last event of the stream."`
}

// RunnerStarted records that a runner started to lead the account.
type RunnerStarted struct {
	accountFact
	Version   string `json:"version" doc:"The program's version."`
	Holder    string `json:"holder" doc:"The process that leads the account."`
	Recovered int    `json:"recovered" doc:"'recovered' counts the operations that were interrupted during a send."`
}

// Planned is an operation of an accepted command. Its proxies and its idempotency key never
// change.
type Planned struct {
	OperationID string   `json:"operation_id" doc:"The id of the operation: the command's id and the part, such as restock-7/1."`
	Chunk       string   `json:"chunk" doc:"The part of the command, such as 0001."`
	Generation  int64    `json:"generation" doc:"The number of the idempotency key for this part of the command, from 1. Each --send-again or retry makes a new key."`
	Key         string   `json:"idempotency_key" doc:"The idempotency key, under which the provider carries out the operation once."`
	ProxyIDs    []string `json:"proxy_ids,omitempty" doc:"The provider's ids of the proxies."`
}

// CommandAccepted records that a command was accepted. Another fact records the end of every
// accepted command.
type CommandAccepted struct {
	Ref
	Kind           Kind            `json:"kind" doc:"The kind of the command."`
	ContentHash    string          `json:"content_hash" doc:"The SHA-256 of the content."`
	Content        json.RawMessage `json:"content" doc:"The command, as read and normalised."`
	EstimateCents  int64           `json:"estimate_cents,omitempty" doc:"The expected cost, if known."`
	DurationDays   int64           `json:"duration_days" doc:"The duration in days, a multiple of 30."`
	Operations     []Planned       `json:"operations" doc:"The operations of the command."`
	ReplyTo        string          `json:"reply_to,omitempty" doc:"'reply_to' is the inbox that receives the data of the command's command.finished."`
	StreamSequence uint64          `json:"stream_sequence,omitempty" doc:"'stream_sequence' is the sequence of the command's message in the commands stream, as in the producer's acknowledgement (PubAck)."`
	Presumed
}

// Presumed says that new operations may have been sent before the ledger was restored. It is empty
// if they were not.
type Presumed struct {
	PresumeSentBy  string     `json:"presume_sent_by,omitempty" doc:"'presume_sent_by' says that the new operations may have been sent before the ledger was restored, with this App ID."`
	PresumedSentAt *time.Time `json:"presumed_sent_at,omitempty" doc:"The earliest time from which 'presume_sent_by' counts."`
}

// Apply counts an attempt of unknown outcome for an operation that may have been sent.
func (p Presumed) Apply(o *Operation) {
	if p.PresumeSentBy != "" && p.PresumedSentAt != nil {
		o.Ambiguous, o.FirstAmbiguousAt, o.AppID = 1, new(p.PresumedSentAt.Truncate(time.Microsecond).UTC()), p.PresumeSentBy
	}
}

// RejectedInvalid is the code of a command whose content is not valid.
const RejectedInvalid = "invalid"

// CommandRejected ends a command, or one operation of a command, without a charge. The command or
// operation was refused on arrival, refused by the provider, or never sent.
type CommandRejected struct {
	Ref
	ContentHash    string    `json:"content_hash,omitempty" doc:"The SHA-256 of the content."`
	Code           string    `json:"code" doc:"The reason, as a code of the provider or of Perennial."`
	Reason         string    `json:"reason" doc:"The reason, for people; the text may change."`
	Attempt        int64     `json:"attempt,omitempty" doc:"The number of the attempt, from 1."`
	ShortOfMoney   bool      `json:"short_of_money,omitempty" doc:"'short_of_money' says that the wallet could not pay (insufficient_wallet_balance)."`
	SplitInto      []Planned `json:"split_into,omitempty" doc:"'split_into' lists the operations that replace a refused or divided chunk."`
	DurationDays   int64     `json:"duration_days,omitempty" doc:"The duration in days, a multiple of 30."`
	ReplyTo        string    `json:"reply_to,omitempty" doc:"'reply_to' is the inbox that receives the data of command.finished, if the command was refused before it was accepted."`
	StreamSequence uint64    `json:"stream_sequence,omitempty" doc:"'stream_sequence' is the sequence of the message in the commands stream, if the command was refused before it was accepted."`
}

// CommandConflict records that a command arrived under an id for which other content was accepted
// before. The first content stays in force.
type CommandConflict struct {
	Ref
	ContentHash    string `json:"content_hash" doc:"The SHA-256 of the content."`
	AcceptedHash   string `json:"accepted_hash" doc:"The SHA-256 of the content that was accepted first."`
	Reason         string `json:"reason" doc:"The reason, for people; the text may change."`
	StreamSequence uint64 `json:"stream_sequence,omitempty" doc:"'stream_sequence' is the sequence, in the commands stream, of the message that came later."`
}

// CommandHeld puts an operation on hold, so that it is not sent until it is released.
type CommandHeld struct {
	Ref
	Code          HeldCode   `json:"code,omitempty" doc:"The reason, for programs; older facts have none."`
	Reason        string     `json:"reason" doc:"The reason, for people; the text may change."`
	EstimateCents int64      `json:"estimate_cents,omitempty" doc:"The expected cost, if known."`
	Until         *time.Time `json:"until,omitempty" doc:"'until' is when the hold ends automatically; if omitted, only an operator can release it."`
}

// CommandReleased ends the hold of an operation, so that it can be sent.
type CommandReleased struct {
	Ref
	By        string `json:"by" doc:"The name of the person, as given in the request."`
	Reason    string `json:"reason" doc:"The reason, for people; the text may change."`
	User      string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
	Automatic bool   `json:"automatic,omitempty" doc:"'automatic' says that the hold ended at its time. The operation may be put on hold again, unlike after a release by a person."`
}

// Codes of operations that end without having been sent.
const (
	CodeCancelled  = "cancelled"         // an operator cancelled it
	CodeDivided    = "divided"           // two other operations take over its proxies
	CodeDailyLimit = "daily_limit_cents" // it costs more than a whole day's limit
	CodeCeiling    = "max_total_cents"   // its cost would exceed the command's limit
)

// CommandCancelled cancels an operation that the provider cannot have executed.
type CommandCancelled struct {
	Ref
	By     string `json:"by" doc:"The name of the person, as given in the request."`
	Reason string `json:"reason" doc:"The reason, for people; the text may change."`
	User   string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// OperationSending is stored before the first byte of an attempt is sent. It contains the
// idempotency key, the exact body and the signed X-API-Timestamp.
type OperationSending struct {
	Ref
	Attempt       int64                `json:"attempt" doc:"The number of the attempt, from 1."`
	Key           string               `json:"idempotency_key" doc:"The idempotency key, under which the provider carries out the operation once."`
	Body          string               `json:"body" doc:"The exact body of the request."`
	SentAt        time.Time            `json:"sent_at" doc:"When the request was signed."`
	AppID         string               `json:"app_id" doc:"The App ID of the API key that signed the request, without its secret."`
	Observed      map[string]time.Time `json:"observed_expires_at,omitempty" doc:"'observed_expires_at' has the expiries that this attempt pays for, as last seen or just read."`
	EstimateCents int64                `json:"estimate_cents,omitempty" doc:"'estimate_cents' is the highest expected cost of this attempt, if known."`
}

// OperationOverran records that an operation was charged more than its estimate, for
// example because the provider's price rose.
type OperationOverran struct {
	Ref
	EstimateCents int64 `json:"estimate_cents" doc:"The expected cost, if known."`
	ChargedCents  int64 `json:"charged_cents" doc:"The amount charged, before refunds."`
}

// OperationUnsent records that no byte of an attempt's request was sent.
type OperationUnsent struct {
	Ref
	Attempt int64     `json:"attempt" doc:"The number of the attempt, from 1."`
	Reason  string    `json:"reason" doc:"The reason, for people; the text may change."`
	NextAt  time.Time `json:"next_at" doc:"The earliest time of the next step."`
}

// OperationWaiting records that the operation will be sent again, at NextAt or later. The key and
// the body stay the same.
type OperationWaiting struct {
	Ref
	Attempt    int64     `json:"attempt" doc:"The number of the attempt, from 1."`
	Code       string    `json:"code,omitempty" doc:"The reason, as a code of the provider or of Perennial."`
	HTTPStatus int       `json:"http_status,omitempty" doc:"The HTTP status of the reply."`
	Reason     string    `json:"reason" doc:"The reason, for people; the text may change."`
	Ambiguous  bool      `json:"ambiguous" doc:"'ambiguous' says that the provider may have carried out this attempt."`
	NextAt     time.Time `json:"next_at" doc:"The earliest time of the next step."`
}

// OperationReview records that the operation needs review, with the results known so far.
// The known lines of a renewal are booked; unresolved lines are booked to suspense.
type OperationReview struct {
	Ref
	Attempt    int64            `json:"attempt" doc:"The number of the attempt, from 1."`
	Code       string           `json:"code,omitempty" doc:"The reason, as a code of the provider or of Perennial."`
	HTTPStatus int              `json:"http_status,omitempty" doc:"The HTTP status of the reply."`
	Reason     string           `json:"reason" doc:"The reason, for people; the text may change."`
	Ambiguous  bool             `json:"ambiguous" doc:"Whether the provider may have carried out the request."`
	OrderNo    string           `json:"order_no,omitempty" doc:"The provider's number of the order."`
	Settlement *Lines           `json:"settlement,omitempty" doc:"The known lines."`
	ProxyIDs   []string         `json:"proxy_ids,omitempty" doc:"'proxy_ids' and 'proxies' are those of the order, as shown by the read that caused the review."`
	Proxies    []DeliveredProxy `json:"proxies,omitempty" doc:"The proxies that the order delivered."`
	Money
}

// OperationResolved is an operator's answer to a review.
type OperationResolved struct {
	Ref
	By           string           `json:"by" doc:"The name of the person, as given in the request."`
	Reason       string           `json:"reason" doc:"The reason, for people; the text may change."`
	User         string           `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
	Outcome      string           `json:"outcome" doc:"The person's answer."`                                                              // charged | not_charged
	ProxyID      string           `json:"proxy_id,omitempty" doc:"The provider's id of the proxy."`
	OrderNo      string           `json:"order_no,omitempty" doc:"'order_no' is the order that the operation made, as the person found."`
	ChargedCents int64            `json:"charged_cents" doc:"The amount charged, before refunds."`
	ProxyIDs     []string         `json:"proxy_ids,omitempty" doc:"'proxy_ids' and 'proxies' are what that order delivered, as read for the answer."`
	Proxies      []DeliveredProxy `json:"proxies,omitempty" doc:"The proxies that the order delivered."`
	SendAgain    []Planned        `json:"send_again,omitempty" doc:"The operations that replace this one, if it is sent again under a new key."`
	DurationDays int64            `json:"duration_days,omitempty" doc:"The duration in days, a multiple of 30."`
	Lines        []AnsweredLine   `json:"lines,omitempty" doc:"'lines' divide the amount of an answer for a whole renewal among its open lines."`
	Presumed
	Money
}

// AnsweredLine is the part of an answer's amount for one line of a renewal.
type AnsweredLine struct {
	ProxyID      string `json:"proxy_id" doc:"The provider's id of the proxy."`
	ChargedCents int64  `json:"charged_cents" doc:"The amount charged, before refunds."`
}

// OrderAccepted records that the provider accepted the order (HTTP 201). It books nothing.
type OrderAccepted struct {
	Ref
	Attempt int64     `json:"attempt" doc:"The number of the attempt, from 1."`
	OrderNo string    `json:"order_no" doc:"The provider's number of the order."`
	NextAt  time.Time `json:"next_at" doc:"The earliest time of the next step."`
}

// OrderState is what a read of the order's details showed, and the amounts that it books.
// ChargedCents and RefundedCents are the amounts that this fact books, not totals.
type OrderState struct {
	Ref
	OrderNo        string     `json:"order_no" doc:"The provider's number of the order."`
	Status         string     `json:"status" doc:"The status, in the provider's words."`
	ExpectedCount  int64      `json:"expected_count" doc:"How many proxies were ordered."`
	DeliveredCount int64      `json:"delivered_count" doc:"How many proxies were delivered."`
	ChargedCents   int64      `json:"charged_cents" doc:"The amount charged, before refunds."`
	RefundedCents  int64      `json:"refunded_cents" doc:"The amount refunded."`
	ReadAt         *time.Time `json:"read_at,omitempty" doc:"'read_at' is when the order was last read, including this read."`
	UnreadSince    *time.Time `json:"unread_since,omitempty" doc:"'unread_since' is the first of the consecutive failed reads, up to this one."`
	Money
}

// OrderProgressed records that the order has not ended, and is read again at NextAt.
type OrderProgressed struct {
	OrderState
	NextAt time.Time `json:"next_at" doc:"The earliest time of the next step."`
	Reason string    `json:"reason,omitempty" doc:"The reason, for people; the text may change."`
}

// OrderDelivered records that the provider reports the order as complete and available.
type OrderDelivered struct {
	OrderState
	ProxyIDs []string         `json:"proxy_ids" doc:"The provider's ids of the proxies."`
	Proxies  []DeliveredProxy `json:"proxies,omitempty" doc:"'proxies' has the details of 'proxy_ids', as the provider showed them."`
	Short    *Shortfall       `json:"short,omitempty" doc:"'short' is set if fewer proxies were delivered than ordered."`
}

// Shortfall compares the number of ordered proxies with the number of delivered ones. The
// provider's own figures are expected_count and delivered_count of the order's state.
type Shortfall struct {
	Ordered int64 `json:"ordered_count" doc:"The number of ordered proxies."`
	Listed  int64 `json:"listed_count" doc:"The number of entries in the order's list of proxies."`
}

// Counts returns how many proxies the order should have delivered, and how many it has.
// expected is the larger of the ordered number and the provider's expected number.
// delivered is the smaller of the provider's delivered number and the number of listed
// proxies.
func (f OrderDelivered) Counts() (expected, delivered int64) {
	if f.Short == nil {
		return f.ExpectedCount, f.DeliveredCount
	}
	return max(f.ExpectedCount, f.Short.Ordered), min(f.DeliveredCount, f.Short.Listed)
}

// OrderRefunded records that the provider refunded the order.
type OrderRefunded struct {
	OrderState
	RefundStatus string           `json:"refund_status" doc:"The status of the refund, in the provider's words."`
	Destination  string           `json:"destination" doc:"Where the refund went, in the provider's words."`
	RefundedAt   time.Time        `json:"refunded_at" doc:"When the money was refunded."`
	ProxyIDs     []string         `json:"proxy_ids,omitempty" doc:"'proxy_ids' and 'proxies' are what the order delivered nevertheless."`
	Proxies      []DeliveredProxy `json:"proxies,omitempty" doc:"The proxies that the order delivered."`
}

// OrderListed records that an ended order shows proxies that no earlier fact contains. This
// happens if a review was answered while the order could not be read. The proxies get the
// order's labels.
type OrderListed struct {
	Ref
	OrderNo  string           `json:"order_no" doc:"The provider's number of the order."`
	ProxyIDs []string         `json:"proxy_ids" doc:"The provider's ids of the proxies."`
	Proxies  []DeliveredProxy `json:"proxies,omitempty" doc:"'proxies' has the details of 'proxy_ids', as the provider showed them."`
}

// LineState is the state of one proxy of a renewal. See docs/state-machine.md, Lines of a
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

// Line is one proxy of a settled renewal. ChargedCents is before refunds, whereas the
// provider's charged_cents is after refunds (customer-api.md, Renewal result).
type Line struct {
	ProxyID       string    `json:"proxy_id" doc:"The provider's id of the proxy."`
	State         LineState `json:"state" doc:"The state."` // succeeded | failed | unresolved
	ChargedCents  int64     `json:"charged_cents" doc:"The amount charged, before refunds."`
	RefundedCents int64     `json:"refunded_cents" doc:"The amount refunded."`
}

// Lines is a renewal's result, line by line, with its totals. ChargedCents is before
// refunds.
type Lines struct {
	ChargedCents  int64  `json:"charged_cents" doc:"The amount charged, before refunds."`
	RefundedCents int64  `json:"refunded_cents" doc:"The amount refunded."`
	Items         []Line `json:"items" doc:"The lines."`
}

// RenewalSettled is the result of a renewal whose lists, lines and sums agree. The type of
// the fact depends on Status: completed, partial or failed.
type RenewalSettled struct {
	Ref
	Status  string `json:"status" doc:"The status, in the provider's words."`
	Attempt int64  `json:"attempt" doc:"The number of the attempt, from 1."`
	Code    string `json:"code,omitempty" doc:"The reason, as a code of the provider or of Perennial."`
	Lines
	Money
}

// Booked is money in the books. As in the account's balance, ChargedCents is before refunds and
// includes suspense.
type Booked struct {
	ChargedCents  int64  `json:"charged_cents" doc:"The amount charged, before refunds."`
	RefundedCents int64  `json:"refunded_cents" doc:"The amount refunded."`
	Currency      string `json:"currency" doc:"The account's currency, an ISO 4217 code."`
}

// Plus returns the sum of b and other, in the currency of b.
func (b Booked) Plus(other Booked) Booked {
	b.ChargedCents += other.ChargedCents
	b.RefundedCents += other.RefundedCents
	return b
}

// Money is the money that a fact books. The ledger sets it when it appends the fact. The
// sums of Booked over all events are the charged and refunded cents of the account's
// balance. Facts of older versions lack this field.
type Money struct {
	Booked *Booked `json:"booked,omitempty" doc:"What this fact booked."`
	Totals *Booked `json:"totals,omitempty" doc:"The totals of the operation, including this fact."`
}

// WithMoney returns a fact with its Money set.
func WithMoney(f Fact, m Money) Fact {
	switch f := f.(type) {
	case LedgerOpened:
		f.Money = m
		return f
	case LedgerRecorded:
		f.Money = m
		return f
	case OrderProgressed:
		f.Money = m
		return f
	case OrderDelivered:
		f.Money = m
		return f
	case OrderRefunded:
		f.Money = m
		return f
	case RenewalSettled:
		f.Money = m
		return f
	case OperationReview:
		f.Money = m
		return f
	case OperationResolved:
		f.Money = m
		return f
	}
	return f
}

// Books returns the amounts that a read of the order adds to the books.
func (s OrderState) Books() Booked {
	return Booked{ChargedCents: s.ChargedCents, RefundedCents: s.RefundedCents}
}

// Books returns the amounts that a renewal's result adds to the books, including suspense.
func (l Lines) Books() (b Booked) {
	for _, x := range l.Items {
		b.ChargedCents += x.ChargedCents
		b.RefundedCents += x.RefundedCents
	}
	return b
}

// DeliveredProxy is a proxy that an order delivered, without its credentials.
type DeliveredProxy struct {
	ProxyID      string     `json:"proxy_id" doc:"The provider's id of the proxy."`
	OfferCode    string     `json:"offer_code,omitempty" doc:"The code of the offer, if the order has only one offer."`
	CountryCode  string     `json:"country_code,omitempty" doc:"The country of the address, as the provider says."`
	Region       string     `json:"region,omitempty" doc:"The region of the address, as the provider says."`
	LineName     string     `json:"line_name,omitempty" doc:"The product line, in the provider's words."`
	IPType       string     `json:"ip_type,omitempty" doc:"The IP type, such as residential or data centre, in the provider's words."`
	Protocol     string     `json:"protocol,omitempty" doc:"The protocol, in the provider's words."`
	ExpiresAt    *time.Time `json:"expires_at,omitempty" doc:"When the proxy expires."`
	ChargedCents *int64     `json:"charged_cents,omitempty" doc:"'charged_cents' is the proxy's share of the order's total, if the order has only one offer. The provider gives no prices of single proxies."`
}

// FinishedLine is one proxy of a command that has ended.
type FinishedLine struct {
	DeliveredProxy

	State             string     `json:"state" doc:"delivered, or the state of a renewal's line."`
	PreviousExpiresAt *time.Time `json:"previous_expires_at,omitempty" doc:"'previous_expires_at' is the expiry that the renewal paid for. If it was in the future, 'expires_at' adds the paid days to it; the next listing reads what the provider shows."`
	RefundedCents     int64      `json:"refunded_cents" doc:"The amount refunded."`
}

// FinishedOperation is one operation of a command that has ended.
type FinishedOperation struct {
	OperationID    string `json:"operation_id" doc:"The id of the operation: the command's id and the part, such as restock-7/1."`
	State          State  `json:"state" doc:"The state."`
	OrderNo        string `json:"order_no,omitempty" doc:"The provider's number of the order."`
	ExpectedCount  int64  `json:"expected_count,omitempty" doc:"For an order with missing proxies: the number ordered; 'delivered_count' is the number delivered."`
	DeliveredCount int64  `json:"delivered_count,omitempty" doc:"How many proxies were delivered."`
}

// Limits of the lists in one CommandFinished. The service's verb lines returns all lines.
const (
	MaxFinishedLines      = 200
	MaxFinishedOperations = 200
)

// CommandFinished records the results of a command once none of its operations is in progress or
// in review. The ledger appends it with the fact that ends the command's last operation or
// refuses the command. A command may be opened again, for example because an operator sends an
// operation again. In that case it finishes once more, with the next revision.
type CommandFinished struct {
	Ref
	Revision        int64               `json:"revision" doc:"How often the command has ended, from 1."`
	State           string              `json:"state" doc:"The state of the command."`
	Code            string              `json:"code,omitempty" doc:"The reason, as a code of the provider or of Perennial."`
	Reason          string              `json:"reason,omitempty" doc:"The reason, for people; the text may change."`
	Totals          Booked              `json:"totals" doc:"The running totals; do not sum them."`
	Lines           []FinishedLine      `json:"lines" doc:"'lines' has the proxies that an order delivered, or that a renewal contains: at most 200 of 'lines_total'."`
	LinesTotal      int                 `json:"lines_total" doc:"The number of all lines."`
	Operations      []FinishedOperation `json:"operations" doc:"'operations' has at most 200 of 'operations_total'."`
	OperationsTotal int                 `json:"operations_total" doc:"The number of all operations."`
	Attempts        int64               `json:"attempts" doc:"How many attempts the command's operations had."`
	Reviews         int64               `json:"reviews" doc:"How often an operation of the command needed review."`
	ReplyTo         string              `json:"reply_to,omitempty" doc:"The inbox that receives this data."`
	StreamSequence  uint64              `json:"stream_sequence,omitempty" doc:"'stream_sequence' is the sequence of the command's message in the commands stream; omitted once its acceptance is archived."`
}

// Limits of the reasons in one ProxySkipped. They are needed because producers choose the number
// of proxies in a command. The reasons contain the ids of the operations that reserve proxies,
// and producers choose these ids too.
const (
	maxSkipReasons     = 16
	maxSkipReasonBytes = 1 << 10 // of all reasons together
)

// ProxySkipped records that proxies were left out of a renewal, and why. For a single proxy, the
// fields ProxyID, Code, Reason and ExpiresAt are set. For several proxies, Skipped is set
// instead.
type ProxySkipped struct {
	Ref
	ProxyID   string       `json:"proxy_id,omitempty" doc:"The provider's id of the proxy."`
	Code      SkipCode     `json:"code,omitempty" doc:"The reason, for programs; older facts have none."`
	Reason    string       `json:"reason,omitempty" doc:"The reason, for people; the text may change."`
	ExpiresAt *time.Time   `json:"expires_at,omitempty" doc:"When the proxy expires."`
	Skipped   []SkippedFor `json:"skipped,omitempty"`
}

// SkippedFor is a list of proxies that were left out for the same reason.
type SkippedFor struct {
	Code      SkipCode             `json:"code,omitempty" doc:"The reason, for programs; older facts have none."`
	Reason    string               `json:"reason" doc:"The reason, for people; the text may change."`
	ProxyIDs  []string             `json:"proxy_ids" doc:"The provider's ids of the proxies."`
	ExpiresAt map[string]time.Time `json:"read_expires_at,omitempty" doc:"'read_expires_at' has the expiries that were read, by proxy."`
}

// SkippedProxy is one proxy that was left out of a renewal.
type SkippedProxy struct {
	ProxyID   string
	Code      SkipCode
	Reason    string
	ExpiresAt *time.Time
}

// Skipped returns the fact that proxies were left out. It returns nil if left is empty. The fact
// has at most maxSkipReasons different reasons, with maxSkipReasonBytes in total. The remaining
// proxies get the code SkipOther and the text of otherwise as the reason.
func Skipped(ref Ref, left []SkippedProxy, otherwise string) []Fact {
	switch len(left) {
	case 0:
		return nil
	case 1:
		return []Fact{ProxySkipped{Ref: ref, ProxyID: left[0].ProxyID, Code: left[0].Code, Reason: left[0].Reason, ExpiresAt: left[0].ExpiresAt}}
	}
	f := ProxySkipped{Ref: ref}
	for _, x := range left {
		i := f.group(x.Reason)
		if i < 0 && f.full(x.Reason) {
			x.Code, x.Reason = SkipOther, otherwise
			i = f.group(otherwise)
		}
		if i < 0 {
			i = len(f.Skipped)
			f.Skipped = append(f.Skipped, SkippedFor{Code: x.Code, Reason: x.Reason})
		}
		f.Skipped[i].add(x)
	}
	return []Fact{f}
}

func (f ProxySkipped) group(reason string) int {
	return slices.IndexFunc(f.Skipped, func(x SkippedFor) bool { return x.Reason == reason })
}

func (f ProxySkipped) full(reason string) bool {
	size := len(reason)
	for _, x := range f.Skipped {
		size += len(x.Reason)
	}
	return len(f.Skipped) >= maxSkipReasons || size > maxSkipReasonBytes
}

func (s *SkippedFor) add(x SkippedProxy) {
	s.ProxyIDs = append(s.ProxyIDs, x.ProxyID)
	if x.ExpiresAt == nil {
		return
	}
	if s.ExpiresAt == nil {
		s.ExpiresAt = map[string]time.Time{}
	}
	s.ExpiresAt[x.ProxyID] = *x.ExpiresAt
}

// Proxies returns the skipped proxies.
func (f ProxySkipped) Proxies() (all []SkippedProxy) {
	if len(f.Skipped) == 0 {
		return []SkippedProxy{{ProxyID: f.ProxyID, Code: f.Code, Reason: f.Reason, ExpiresAt: f.ExpiresAt}}
	}
	for _, s := range f.Skipped {
		for _, id := range s.ProxyIDs {
			x := SkippedProxy{ProxyID: id, Code: s.Code, Reason: s.Reason}
			if at, ok := s.ExpiresAt[id]; ok {
				x.ExpiresAt = &at
			}
			all = append(all, x)
		}
	}
	return all
}
