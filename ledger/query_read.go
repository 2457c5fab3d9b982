// The account's binding, head, rows, balance and pauses, and helpers that read the rows of
// a query.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Binding reads what ledger.opened bound the file to; ErrNotFound before that.
func (l *Journal) Binding(ctx context.Context) (fact.Binding, error) {
	var b fact.Binding
	err := l.read.QueryRowContext(ctx, `SELECT account_id, environment, base_url, currency, epoch FROM binding`).
		Scan(&b.AccountID, &b.Environment, &b.BaseURL, &b.Currency, &b.Epoch)
	return b, sqlite.NotFound(err)
}

// Currency returns the code of the account's currency, "" before ledger.opened.
func (l *Journal) Currency(ctx context.Context) (string, error) {
	b, err := l.Binding(ctx)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return b.Currency, err
}

// Head returns the sequence and hash of the newest journal row; 0 and the genesis hash for
// an empty journal.
func (l *Journal) Head(ctx context.Context) (int64, string, error) {
	seq, hash := int64(0), chain.Genesis
	err := l.read.QueryRowContext(ctx, `SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1`).Scan(&seq, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return seq, hash, err
}

// HighWater returns the latest time of any fact. A wall clock that shows an earlier time is
// wrong.
func (l *Journal) HighWater(ctx context.Context) (time.Time, error) {
	var us int64
	// One writer's facts are ordered by time, so the newest few suffice.
	err := l.read.QueryRowContext(ctx, `SELECT coalesce(max(time), 0) FROM (SELECT time FROM journal ORDER BY seq DESC LIMIT 1000)`).Scan(&us)
	return sqlite.FromMicros(us), err
}

// Rows returns up to limit journal rows after seq, in order. Archived rows come from their
// archive; without it the error is an *ArchivedError. In the writing process a query may
// see a commit shortly before Rows does: see Changed.
func (l *Journal) Rows(ctx context.Context, after int64, limit int) ([]chain.Row, error) {
	if l.written {
		if rows, ok := l.tail.after(after, limit); ok {
			return rows, nil
		}
	}
	if l.archived(after + 1) {
		a, err := l.archiveOf(ctx, after+1)
		if err != nil {
			return nil, err
		}
		return a.Rows(ctx, after, limit)
	}
	return sqlite.Collect(l.query(ctx, `SELECT `+chain.Columns+` FROM journal WHERE seq > ? ORDER BY seq LIMIT +?`, after, limit), chain.Scan)
}

// RowsOf returns the journal rows of one operation or command, in order. Like Rows, it also
// reads archived rows.
func (l *Journal) RowsOf(ctx context.Context, subject string) ([]chain.Row, error) {
	before, err := l.archivedRows(ctx, subject)
	if err != nil {
		return nil, err
	}
	rows, err := l.ownRowsOf(ctx, subject)
	return append(before, rows...), err
}

func (l *Journal) ownRowsOf(ctx context.Context, subject string) ([]chain.Row, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+chain.Columns+` FROM journal WHERE operation = ? AND operation <> '' ORDER BY seq`, subject), chain.Scan)
}

// Row reads one journal row, an archived one as by Rows. It returns ErrNotFound for a row
// after the journal's end.
func (l *Journal) Row(ctx context.Context, seq int64) (chain.Row, error) {
	if l.archived(seq) {
		a, err := l.archiveOf(ctx, seq)
		if err != nil {
			return chain.Row{}, err
		}
		return a.Row(ctx, seq)
	}
	return sqlite.One(chain.Scan, l.read.QueryRowContext(ctx, `SELECT `+chain.Columns+` FROM journal WHERE seq = ?`, seq))
}

// The sums of transfers from and to an account, less what reversals returned to it, in SQL.
const (
	fundingCents = "coalesce(sum(CASE debit WHEN 'wallet' THEN cents ELSE -cents END) FILTER (WHERE kind = 'funding'), 0)"
	outsideCents = "coalesce(sum(CASE credit WHEN 'wallet' THEN cents ELSE -cents END) FILTER (WHERE kind = 'external'), 0)"
)

// Balance is the book of one account, in integer cents. WalletCents =
// FundingCents - ExternalCents - (ChargedCents - RefundedCents), where charged
// is gross and includes what is in suspense.
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

// Unbooked sums what pending operations, and those in review, may have cost beyond the
// booked amounts. It is an estimate.
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
	` + fundingCents + `,
	` + outsideCents + ` FROM totals`

// Balance sums the books under the name of the account. Balance and head are of one moment.
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

// Pause is why the account, or one kind of its operations, does not send.
type Pause struct {
	Scope  string     `json:"scope" doc:"The scope of the pause: the account, or one kind of operation."`
	Cause  string     `json:"cause" doc:"The cause, in one word: rate_limited, insufficient_wallet_balance, …"`
	Since  time.Time  `json:"since" doc:"When the pause began."`
	Until  *time.Time `json:"until,omitempty" doc:"When the pause ends automatically."`
	Detail string     `json:"detail" doc:"The reason, for people."`
}

// Pauses lists the pauses, the oldest first.
func (l *Operations) Pauses(ctx context.Context) ([]Pause, error) {
	return sqlite.Collect(l.query(ctx, `SELECT scope, cause, since, until, detail FROM pauses ORDER BY since, scope, cause`), scanPause)
}

func scanPause(s sqlite.Scanner) (Pause, error) {
	var p Pause
	var since int64
	var until sql.NullInt64
	err := s.Scan(&p.Scope, &p.Cause, &since, &until, &p.Detail)
	p.Since, p.Until = sqlite.FromMicros(since), sqlite.Instant(until)
	return p, err
}

// Pause reads one pause as it is inside the transaction; found is false if it is not in
// force.
func (t *Tx) Pause(scope, cause string) (p Pause, found bool, err error) {
	p, err = scanPause(t.queryRow(`SELECT scope, cause, since, until, detail FROM pauses WHERE scope = ? AND cause = ?`, scope, cause))
	if errors.Is(err, sql.ErrNoRows) {
		return p, false, nil
	}
	return p, err == nil, err
}

// ReleasedByHand reports whether an operator has released a held operation.
func (l *Operations) ReleasedByHand(ctx context.Context, operation string) (released bool, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM journal
		WHERE operation = ? AND operation <> '' AND type = 'command.released' AND coalesce(json_extract(data, '$.automatic'), 0) = 0)`, operation).Scan(&released)
	return released, err
}
