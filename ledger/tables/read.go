// The balance and the pauses of the account.

package tables

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// SQL sums of the money that came from funding, and of the money that was spent outside
// Perennial, less reversals.
const (
	FundingCents = "coalesce(sum(CASE debit WHEN 'wallet' THEN cents ELSE -cents END) FILTER (WHERE kind = 'funding'), 0)"
	OutsideCents = "coalesce(sum(CASE credit WHEN 'wallet' THEN cents ELSE -cents END) FILTER (WHERE kind = 'external'), 0)"
)

// Balance is the balance of one account's books, in cents: WalletCents = FundingCents -
// ExternalCents - (ChargedCents - RefundedCents). ChargedCents is before refunds and
// includes amounts in suspense.
type Balance struct {
	Account       string     `json:"account" doc:"The short name of the account."`
	Currency      string     `json:"currency" doc:"The account's currency, an ISO 4217 code."`
	WalletCents   int64      `json:"wallet_cents" doc:"The balance of the wallet by the books."`
	ChargedCents  int64      `json:"charged_cents" doc:"The amount charged, before refunds."`
	RefundedCents int64      `json:"refunded_cents" doc:"The amount refunded."`
	SuspenseCents int64      `json:"suspense_cents" doc:"Charges whose result is unknown."`
	FundingCents  int64      `json:"funding_cents" doc:"Money put in: the opening balance and top-ups."`
	ExternalCents int64      `json:"external_cents" doc:"Money spent outside Perennial."`
	Head          chain.Head `json:"head"`
	Unbooked      *Unbooked  `json:"unbooked,omitempty" doc:"'unbooked' is what may have been charged and is not booked yet; null if it was not requested."`
}

// Unbooked estimates what operations in progress or in review may have cost beyond the
// booked amounts.
type Unbooked struct {
	Operations    int        `json:"operations" doc:"The number of these operations."`
	EstimateCents fact.Cents `json:"estimate_cents" doc:"Their expected cost, without operations of unknown cost."`
	Unknown       int        `json:"unknown" doc:"How many of these operations have an unknown cost."`
}

const balanceQuery = `SELECT coalesce((SELECT currency FROM binding), ''),
	coalesce(sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents END), 0),
	coalesce(sum(cents) FILTER (WHERE kind IN ('charge', 'suspense')), 0),
	coalesce(sum(cents) FILTER (WHERE kind = 'refund'), 0),
	coalesce(sum(CASE WHEN debit = 'suspense' THEN cents WHEN credit = 'suspense' THEN -cents END), 0),
	` + FundingCents + `,
	` + OutsideCents + ` FROM totals`

// Balance returns the sums of the account's books. Sums and Head are from the same moment.
func (l *Money) Balance(ctx context.Context, account string) (Balance, error) {
	tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return Balance{Account: account}, err
	}
	defer func() { _ = tx.Rollback() }()
	b, err := balanceOf(ctx, tx, account)
	if err != nil {
		return b, fmt.Errorf("sum the book: %w", err)
	}
	return b, nil
}

// Pause says why the account, or one kind of its operations, sends nothing.
type Pause struct {
	Scope  string     `json:"scope" doc:"The scope of the pause: the account, or one kind of operation."`
	Cause  string     `json:"cause" doc:"The cause, in one word: rate_limited, insufficient_wallet_balance, …"`
	Since  time.Time  `json:"since" doc:"When the pause began."`
	Until  *time.Time `json:"until,omitempty" doc:"When the pause ends automatically."`
	Detail string     `json:"detail" doc:"The reason, for people."`
}

// Pauses lists the pauses, oldest first.
func (l *Operations) Pauses(ctx context.Context) ([]Pause, error) {
	return sqlite.Collect(l.query(ctx, `SELECT scope, cause, since, until, detail FROM pauses ORDER BY since, scope, cause`), ScanPause)
}

// ScanPause reads a row of the table pauses.
func ScanPause(s sqlite.Scanner) (Pause, error) {
	var p Pause
	var since int64
	var until sql.NullInt64
	err := s.Scan(&p.Scope, &p.Cause, &since, &until, &p.Detail)
	p.Since, p.Until = sqlite.FromMicros(since), sqlite.Instant(until)
	return p, err
}

// ReleasedByHand reports whether an operator released an operation that was on hold.
func (l *Operations) ReleasedByHand(ctx context.Context, operation string) (released bool, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM journal
		WHERE operation = ? AND operation <> '' AND type = 'command.released' AND coalesce(json_extract(data, '$.automatic'), 0) = 0)`, operation).Scan(&released)
	return released, err
}
