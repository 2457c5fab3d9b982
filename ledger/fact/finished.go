// This file has CommandFinished, with the results of a command, and the money that facts
// book.

package fact

import "time"

// Booked is money in the books. ChargedCents is before refunds and includes suspense, as in
// the account's balance.
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

// CommandFinished records the results of a command once none of its operations is in
// progress or in review. The ledger appends it with the fact that ends the command's last
// operation or refuses the command. A command may be opened again, for example because an
// operator sends an operation again. It then finishes once more, with the next revision.
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

// FactType implements Fact.
func (CommandFinished) FactType() string { return "command.finished" }
