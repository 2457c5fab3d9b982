// The balance at one moment, with amounts that may have been charged and are not booked.

package tables

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Exposure is what one unfinished or unresolved operation may have changed, or may still
// change, in the provider's wallet beyond the amounts that are booked.
type Exposure struct {
	OperationID string
	CommandID   string
	Kind        fact.Kind
	State       fact.State
	Unpriced    int64 // lines of a renewal that may still be charged
	OrderNo     string
	// Charge is the estimated amount that may still be charged. It is unknown without an
	// estimate.
	Charge fact.Cents
	// ReturnCents is the part of the booked amount that may still be refunded.
	ReturnCents int64
}

// Zero reports whether nothing may still be charged or refunded.
func (x Exposure) Zero() bool { return x.Charge == fact.Known(0) && x.ReturnCents == 0 }

// Position is the balance and all exposures at one moment.
type Position struct {
	Balance
	Open []Exposure
}

// WithUnbooked returns the balance with Unbooked set to the sum of what may still be
// charged.
func (p Position) WithUnbooked() Balance {
	var sum fact.Sum
	operations := 0
	for _, x := range p.Open {
		if x.Charge != fact.Known(0) {
			operations++
			sum = sum.Add(x.Charge)
		}
	}
	p.Unbooked = &Unbooked{operations, sum.Total(), sum.Lacks}
	return p.Balance
}

// exposureQuery selects operations that may have been sent and whose outcome is not booked.
// It also selects settled renewals with unresolved proxies, because a proxy without a booked
// amount may still be charged. It leaves out operations that are accepted or held, and
// waiting operations without an attempt that may have been executed: they have not moved
// money.
const exposureQuery = `SELECT o.id, o.command_id, o.kind, o.state, o.order_no, o.estimate_cents, o.charged_cents, o.refunded_cents,
	(SELECT count(*) FROM lines l WHERE l.operation = o.id AND (l.state = 'pending' OR l.state = 'unresolved' AND l.charged_cents = 0)),
	(SELECT coalesce(sum(l.charged_cents - l.refunded_cents), 0) FROM lines l WHERE l.operation = o.id AND l.state = 'unresolved')
	FROM operations o WHERE o.id IN (
		SELECT id FROM operations WHERE live = 1 AND (state IN ('sending', 'open', 'review') OR (state = 'waiting' AND ambiguous > 0))
		UNION ALL
		SELECT s.id FROM lines u CROSS JOIN operations s ON s.id = u.operation WHERE u.claim = 1 AND u.state = 'unresolved' AND s.live = 0)
	ORDER BY o.id`

// Position reads the account's balance and its exposures at one moment.
func (l *Money) Position(ctx context.Context, account string) (p Position, err error) {
	tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return p, err
	}
	defer func() { _ = tx.Rollback() }()
	if p.Balance, err = balanceOf(ctx, tx, account); err != nil {
		return p, err
	}
	all, err := sqlite.Collect(sqlite.Query(ctx, tx, exposureQuery), scanExposure)
	for _, x := range all {
		if !x.Zero() {
			p.Open = append(p.Open, x)
		}
	}
	return p, err
}

func scanExposure(s sqlite.Scanner) (Exposure, error) {
	var x Exposure
	var estimate, charged, refunded, unresolved int64
	err := s.Scan(&x.OperationID, &x.CommandID, &x.Kind, &x.State, &x.OrderNo, &estimate, &charged, &refunded, &x.Unpriced, &unresolved)
	x.ReturnCents = unresolved
	mayCharge := x.Unpriced > 0
	if x.Kind.MakesOrder() {
		mayCharge, x.ReturnCents = charged == 0, charged-refunded
	}
	if x.Charge = fact.Known(0); mayCharge {
		x.Charge = fact.Estimated(estimate)
	}
	return x, err
}

// walletsMost limits the bookings for which WalletsSince returns balances.
const walletsMost = 10_000

// WalletsSince lists the ledger's wallet balance, in cents, before each booking since an
// instant, newest first. It leaves out corrections, because they do not change the
// provider's wallet.
func (l *Money) WalletsSince(ctx context.Context, since time.Time) (before []int64, err error) {
	tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	after, err := SeqAt(ctx, tx, since)
	if err != nil {
		return nil, err
	}
	now, err := balanceOf(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	wallet := now.WalletCents
	err = sqlite.Each(sqlite.Query(ctx, tx, `SELECT sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents ELSE 0 END),
			seq IN (SELECT seq FROM journal WHERE seq > ?1 AND type = 'ledger.recorded' AND data ->> '$.corrects_seq' > 0)
		FROM transfers WHERE seq > ?1 GROUP BY seq ORDER BY seq DESC LIMIT +?2`, after, walletsMost), func(s sqlite.Scanner) error {
		var moved int64
		var corrects bool
		err := s.Scan(&moved, &corrects)
		if wallet -= moved; !corrects {
			before = append(before, wallet)
		}
		return err
	})
	return before, err
}

// WalletChange returns by how many cents the entries booked since an instant have changed the
// ledger's wallet.
func (l *Money) WalletChange(ctx context.Context, since time.Time) (cents int64, err error) {
	after, err := SeqAt(ctx, l.read, since)
	if err != nil {
		return 0, err
	}
	err = l.read.QueryRowContext(ctx, `SELECT coalesce(sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents END), 0) FROM transfers WHERE seq > ?`, after).Scan(&cents)
	return cents, err
}

// MoneyMoved reports whether the rows after one sequence, up to and including another, have
// a fact that may have moved money.
func (l *Money) MoneyMoved(ctx context.Context, after, through int64) (bool, error) {
	if after == through {
		return false, nil
	}
	return sqlite.Found(l.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM journal WHERE seq > ? AND seq <= ? AND (
		type IN ('operation.sending', 'operation.waiting', 'operation.review', 'operation.resolved', 'ledger.recorded')
		OR type LIKE 'order.%' OR type LIKE 'renewal.%'))`, after, through))
}

// balanceOf sums the books within a transaction.
func balanceOf(ctx context.Context, tx *sql.Tx, account string) (b Balance, err error) {
	b.Account = account
	err = tx.QueryRowContext(ctx, balanceQuery).
		Scan(&b.Currency, &b.WalletCents, &b.ChargedCents, &b.RefundedCents, &b.SuspenseCents, &b.FundingCents, &b.ExternalCents)
	if err != nil {
		return b, err
	}
	b.Head.Hash = chain.Genesis
	err = tx.QueryRowContext(ctx, `SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1`).Scan(&b.Head.Seq, &b.Head.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return b, err
}
