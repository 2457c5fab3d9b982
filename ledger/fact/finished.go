// The fact that a command is over, with what came of it, and what facts say of money.

package fact

import "time"

// Booked is money that is in the book: what was charged, gross and with what is in
// suspense, and what came back, as in the account's balance.
type Booked struct {
	ChargedCents  int64  `json:"charged_cents"`
	RefundedCents int64  `json:"refunded_cents"`
	Currency      string `json:"currency"`
}

// Plus is the sum of two, in the currency of the first.
func (b Booked) Plus(other Booked) Booked {
	b.ChargedCents += other.ChargedCents
	b.RefundedCents += other.RefundedCents
	return b
}

// Money is what a fact books, as the ledger adds it when it appends the fact. The sums of
// Booked over all events are the charged and refunded cents of the account's balance.
// Facts of before this field have none.
type Money struct {
	Booked *Booked `json:"booked,omitempty"` // by this fact
	Totals *Booked `json:"totals,omitempty"` // of the operation, with this fact
}

// WithMoney is a fact that books with what it books.
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

// Books is what a read of the order books.
func (s OrderState) Books() Booked {
	return Booked{ChargedCents: s.ChargedCents, RefundedCents: s.RefundedCents}
}

// Books is what the lines of a renewal's result book, those in suspense with the others.
func (l Lines) Books() (b Booked) {
	for _, x := range l.Items {
		b.ChargedCents += x.ChargedCents
		b.RefundedCents += x.RefundedCents
	}
	return b
}

// DeliveredProxy is a proxy that an order delivered, without its credentials.
type DeliveredProxy struct {
	ProxyID     string     `json:"proxy_id"`
	OfferCode   string     `json:"offer_code,omitempty"` // where the order names one offer only
	CountryCode string     `json:"country_code,omitempty"`
	Region      string     `json:"region,omitempty"`
	LineName    string     `json:"line_name,omitempty"`
	IPType      string     `json:"ip_type,omitempty"`
	Protocol    string     `json:"protocol,omitempty"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	// ChargedCents is its share of the order's total, where the order names one offer
	// only: the provider gives no prices of single proxies.
	ChargedCents *int64 `json:"charged_cents,omitempty"`
}

// FinishedLine is one proxy of a command that is over.
type FinishedLine struct {
	DeliveredProxy

	State string `json:"state"` // delivered, or the state of a renewal's line
	// PreviousExpiresAt is the expiry that a renewal paid for. Where it lay in the
	// future, ExpiresAt is so many days later: what the provider shows is read
	// with the next listing.
	PreviousExpiresAt *time.Time `json:"previous_expires_at,omitempty"`
	RefundedCents     int64      `json:"refunded_cents"`
}

// FinishedOperation is one operation of a command that is over.
type FinishedOperation struct {
	OperationID string `json:"operation_id"`
	State       State  `json:"state"`
	OrderNo     string `json:"order_no,omitempty"`
	// Of an order that is short, in proxies: what it should deliver, and what it delivered.
	ExpectedCount  int64 `json:"expected_count,omitempty"`
	DeliveredCount int64 `json:"delivered_count,omitempty"`
}

// Bounds of what one CommandFinished names; the verb lines of the account's service
// gives the others.
const (
	MaxFinishedLines      = 200
	MaxFinishedOperations = 200
)

// CommandFinished says that nothing of a command is under way any more and no person is
// waited for, and what came of it. The ledger appends it with the fact that ends the
// command's last operation. A command that is opened again, as by a person's sending
// again, finishes once more with the next revision.
type CommandFinished struct {
	Ref
	Revision int64  `json:"revision"` // from 1
	State    string `json:"state"`    // of the command
	Code     string `json:"code,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Totals   Booked `json:"totals"`
	// Lines are the proxies that an order delivered, or that a renewal was asked for;
	// at most 200 of LinesTotal.
	Lines      []FinishedLine `json:"lines"`
	LinesTotal int            `json:"lines_total"`
	// Operations are at most 200 of OperationsTotal.
	Operations      []FinishedOperation `json:"operations"`
	OperationsTotal int                 `json:"operations_total"`
	Attempts        int64               `json:"attempts"`
	Reviews         int64               `json:"reviews"`
	ReplyTo         string              `json:"reply_to,omitempty"` // the inbox that gets these data
	// StreamSequence is the command's message in the commands stream, as long as its
	// acceptance was not archived.
	StreamSequence uint64 `json:"stream_sequence,omitempty"`
}

// FactType implements Fact.
func (CommandFinished) FactType() string { return "command.finished" }
