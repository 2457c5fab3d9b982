// The fact that a command has ended, with its results, and the money in facts.

package fact

import "time"

// Booked is money that is in the book: what was charged, gross and with what is in
// suspense, and what came back, as in the account's balance.
type Booked struct {
	ChargedCents  int64  `json:"charged_cents" doc:"What was charged, gross: before refunds."`
	RefundedCents int64  `json:"refunded_cents" doc:"What came back."`
	Currency      string `json:"currency" doc:"The account's currency, as ISO 4217 has it."`
}

// Plus returns the sum of two, in the currency of the first.
func (b Booked) Plus(other Booked) Booked {
	b.ChargedCents += other.ChargedCents
	b.RefundedCents += other.RefundedCents
	return b
}

// Money is what a fact books, as the ledger adds it when it appends the fact. The sums of
// Booked over all events are the charged and refunded cents of the account's balance.
// Facts older than this field have none.
type Money struct {
	Booked *Booked `json:"booked,omitempty" doc:"By this fact."`
	Totals *Booked `json:"totals,omitempty" doc:"Of the operation, with this fact."`
}

// WithMoney returns a fact with the money it books.
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

// Books returns what a read of the order books.
func (s OrderState) Books() Booked {
	return Booked{ChargedCents: s.ChargedCents, RefundedCents: s.RefundedCents}
}

// Books returns what the lines of a renewal's result book, including suspense.
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
	OfferCode    string     `json:"offer_code,omitempty" doc:"Where the order names one offer only."`
	CountryCode  string     `json:"country_code,omitempty" doc:"Where its address is, as the provider says."`
	Region       string     `json:"region,omitempty" doc:"Where in the country its address is, as the provider says."`
	LineName     string     `json:"line_name,omitempty" doc:"The provider's name of the line."`
	IPType       string     `json:"ip_type,omitempty" doc:"Residential, or of a data centre, as the provider says."`
	Protocol     string     `json:"protocol,omitempty" doc:"What it speaks, as the provider says."`
	ExpiresAt    *time.Time `json:"expires_at,omitempty" doc:"When it expires."`
	ChargedCents *int64     `json:"charged_cents,omitempty" doc:"'charged_cents' is its share of the order's total, if the order names one offer only: the provider gives no prices of single proxies."`
}

// FinishedLine is one proxy of a command that has ended.
type FinishedLine struct {
	DeliveredProxy

	State             string     `json:"state" doc:"Delivered, or the state of a renewal's line."`
	PreviousExpiresAt *time.Time `json:"previous_expires_at,omitempty" doc:"'previous_expires_at' is the expiry that a renewal paid for. Where it lay in the future, 'expires_at' is so many days later: what the provider shows is read with the next listing."`
	RefundedCents     int64      `json:"refunded_cents" doc:"What came back."`
}

// FinishedOperation is one operation of a command that has ended.
type FinishedOperation struct {
	OperationID    string `json:"operation_id" doc:"The operation: the command's id, and its part."`
	State          State  `json:"state" doc:"The state."`
	OrderNo        string `json:"order_no,omitempty" doc:"The provider's number of the order."`
	ExpectedCount  int64  `json:"expected_count,omitempty" doc:"Of an order that is short, in proxies: what it should deliver, and what it delivered."`
	DeliveredCount int64  `json:"delivered_count,omitempty" doc:"How many proxies are available."`
}

// Bounds of what one CommandFinished names; the verb lines of the account's service returns
// the rest.
const (
	MaxFinishedLines      = 200
	MaxFinishedOperations = 200
)

// CommandFinished says that nothing of a command is in progress any more and no person is
// waited for, and what came of it. The ledger appends it with the fact that ends the
// command's last operation. A command that is opened again, as by a person's sending
// again, finishes once more with the next revision.
type CommandFinished struct {
	Ref
	Revision        int64               `json:"revision" doc:"From 1."`
	State           string              `json:"state" doc:"Of the command."`
	Code            string              `json:"code,omitempty" doc:"Why, as a code: the provider's, or one of Perennial's."`
	Reason          string              `json:"reason,omitempty" doc:"Why, for people; it may be reworded."`
	Totals          Booked              `json:"totals" doc:"The running totals; not to be summed."`
	Lines           []FinishedLine      `json:"lines" doc:"'lines' are the proxies that an order delivered, or that a renewal was asked for; at most 200 of 'lines_total'."`
	LinesTotal      int                 `json:"lines_total" doc:"How many lines there are."`
	Operations      []FinishedOperation `json:"operations" doc:"'operations' are at most 200 of 'operations_total'."`
	OperationsTotal int                 `json:"operations_total" doc:"How many operations there are."`
	Attempts        int64               `json:"attempts" doc:"How often its operations were sent."`
	Reviews         int64               `json:"reviews" doc:"How often an operation of it waited for a person."`
	ReplyTo         string              `json:"reply_to,omitempty" doc:"The inbox that gets these data."`
	StreamSequence  uint64              `json:"stream_sequence,omitempty" doc:"'stream_sequence' is the command's message in the commands stream, as long as its acceptance was not archived."`
}

// FactType implements Fact.
func (CommandFinished) FactType() string { return "command.finished" }
