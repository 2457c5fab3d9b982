package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Changed is a fact that may have changed the amounts of an operation.
type Changed struct {
	Seq       int64
	At        time.Time
	Type      string
	Operation string
}

// ChangedSince lists up to limit facts after a journal sequence that may have changed the
// amounts of an operation, in order. It leaves out order.progressed.
func (l *Money) ChangedSince(ctx context.Context, after int64, limit int) ([]Changed, error) {
	return sqlite.Collect(l.query(ctx, `SELECT seq, time, type, operation FROM journal WHERE seq > ? AND operation <> '' AND (type IN
		('order.delivered', 'order.refunded', 'operation.review', 'operation.resolved', 'renewal.completed', 'renewal.partial', 'renewal.failed')
		OR type = 'ledger.recorded' AND data ->> '$.operation_id' <> '')
		ORDER BY seq LIMIT +?`, after, limit), sqlite.Into(func(c *Changed) []any {
		return []any{&c.Seq, sqlite.At(&c.At), &c.Type, &c.Operation}
	}))
}

// OpenedAt returns the time of ledger.opened. It returns sqlite.ErrNone if the ledger is not
// opened yet. Earlier payments are part of the opening balance.
func (l *Money) OpenedAt(ctx context.Context) (at time.Time, err error) {
	err = l.row(ctx, `SELECT opened_at FROM binding`).Scan(sqlite.At(&at))
	return at, sqlite.NotFound(err)
}

// OrdersAfter lists up to limit operations whose order number sorts after the given one, in
// that order. Repeated calls go through all orders.
func (l *Money) OrdersAfter(ctx context.Context, orderNo string, limit int) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations
		WHERE order_no <> '' AND order_no > ? ORDER BY order_no, id LIMIT +?`, orderNo, limit), ScanOperation)
}

// OrderOperation returns the operation that placed an order. It returns sqlite.ErrNone if no
// operation did.
func (l *Money) OrderOperation(ctx context.Context, orderNo string) (fact.Operation, error) {
	return sqlite.One(ScanOperation, l.row(ctx, `SELECT `+OperationColumns+` FROM operations
		WHERE order_no <> '' AND order_no = +? ORDER BY id LIMIT 1`, orderNo))
}

// OrdersWithoutNumber lists orders that may have reached the provider and whose order
// number is unknown: in progress, in review, or resolved as charged.
func (l *Money) OrdersWithoutNumber(ctx context.Context) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations
		WHERE id IN (
			SELECT id FROM operations WHERE live = 1 AND (state IN ('sending', 'review') OR (state IN ('accepted', 'held', 'waiting') AND ambiguous > 0))
				AND kind = 'order' AND order_no = '' AND (first_sent_at IS NOT NULL OR ambiguous > 0)
			UNION ALL
			SELECT id FROM operations WHERE kind = 'order' AND order_no = '' AND state = 'resolved' AND charged_cents > refunded_cents
				AND (first_sent_at IS NOT NULL OR ambiguous > 0))
		ORDER BY accepted_at, id`), ScanOperation)
}

// OrdersNotCharged lists sent orders that have no order number and whose review was answered
// with not charged, or whose charge was recorded as refunded later.
func (l *Money) OrdersNotCharged(ctx context.Context) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations
		WHERE kind = 'order' AND order_no = '' AND state = 'resolved' AND charged_cents <= refunded_cents AND (first_sent_at IS NOT NULL OR ambiguous > 0)
		ORDER BY accepted_at, id`), ScanOperation)
}

// RecordedFor sums the operators' records for each order: money spent outside Perennial minus
// refunds.
func (l *Money) RecordedFor(ctx context.Context) (map[string]int64, error) {
	return sqlite.Pairs[string, int64](l.query(ctx, `SELECT order_no, sum(CASE credit WHEN 'wallet' THEN cents ELSE -cents END)
		FROM transfers WHERE (kind = 'external' OR kind = 'funding') AND order_no <> '' GROUP BY order_no`))
}

// RenewalsAfter lists up to limit renewals with IDs after the given one, in order. Repeated
// calls go through all renewals.
func (l *Money) RenewalsAfter(ctx context.Context, id string, limit int) ([]string, error) {
	return sqlite.Collect(l.query(ctx, `SELECT id FROM operations WHERE id > ? AND kind = 'renewal' ORDER BY id LIMIT +?`, id, limit), sqlite.Value[string])
}

// RenewalSums has the amounts of one renewal in cents, from three places: the operation, its
// transfers and its lines. Charged amounts are before refunds.
type RenewalSums struct {
	ChargedCents, RefundedCents             int64
	BookedChargedCents, BookedRefundedCents int64
	LineChargedCents, LineRefundedCents     int64
	// ByLine says that the lines should add up to the operation. It is false if an operator
	// booked one amount for several lines.
	ByLine bool
}

// Differ returns the first difference in cents between two of the three sums. It returns 0 if all
// agree. It compares the sums net of refunds first, then the sums before refunds.
func (s RenewalSums) Differ() int64 {
	for _, d := range []int64{
		(s.ChargedCents - s.RefundedCents) - (s.BookedChargedCents - s.BookedRefundedCents), s.ChargedCents - s.BookedChargedCents,
	} {
		if d != 0 {
			return d
		}
	}
	if !s.ByLine {
		return 0
	}
	if d := (s.ChargedCents - s.RefundedCents) - (s.LineChargedCents - s.LineRefundedCents); d != 0 {
		return d
	}
	return s.ChargedCents - s.LineChargedCents
}

// rowsOfOperation selects the journal rows of o.id that may have booked an amount.
const rowsOfOperation = `(SELECT seq FROM journal WHERE operation = o.id AND operation <> ''
		UNION ALL SELECT seq FROM archived WHERE operation = o.id AND operation <> '')`

// RenewalSums reads the sums of a renewal. It returns sqlite.ErrNone for an unknown renewal. An
// operator's archived answer counts as booked for all lines together, because only the archive
// knows the line.
func (l *Money) RenewalSums(ctx context.Context, id string) (s RenewalSums, err error) {
	var together int
	err = l.row(ctx, `SELECT o.charged_cents, o.refunded_cents,
		(SELECT coalesce(sum(cents), 0) FROM transfers t WHERE t.seq IN `+rowsOfOperation+` AND t.kind IN ('charge', 'suspense')),
		(SELECT coalesce(sum(cents), 0) FROM transfers t WHERE t.seq IN `+rowsOfOperation+` AND t.kind = 'refund'),
		(SELECT coalesce(sum(charged_cents), 0) FROM lines WHERE operation = o.id),
		(SELECT coalesce(sum(refunded_cents), 0) FROM lines WHERE operation = o.id),
		(SELECT count(*) FROM journal j WHERE j.operation = o.id AND j.operation <> '' AND j.type = 'operation.resolved'
			AND j.data ->> '$.outcome' = 'charged' AND coalesce(j.data ->> '$.proxy_id', '') = '' AND j.data ->> '$.lines' IS NULL)
		+ (SELECT count(*) FROM archived a WHERE a.operation = o.id AND a.operation <> '' AND a.type = 'operation.resolved')
		FROM operations o WHERE o.id = ?`, id).
		Scan(&s.ChargedCents, &s.RefundedCents, &s.BookedChargedCents, &s.BookedRefundedCents, &s.LineChargedCents, &s.LineRefundedCents, &together)
	s.ByLine = together == 0
	return s, sqlite.NotFound(err)
}

// reconcileHorizon is how many of the newest facts are searched for results of
// reconciliations.
const reconcileHorizon = 200_000

// Reconciled is a published reconciliation that found no difference.
type Reconciled struct {
	fact.LedgerReconciled
	Seq int64     `json:"seq" doc:"The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream."`
	At  time.Time `json:"at" doc:"When this was read."`
}

// PublishedDiscrepancies lists the differences published since the books last agreed with the
// provider, newest first. Of several reports about one subject it keeps the newest. agreed is the
// last agreement. It is nil if the newest facts contain no agreement.
func (l *Money) PublishedDiscrepancies(ctx context.Context) (told []fact.LedgerDiscrepancy, agreed *Reconciled, err error) {
	type subject struct {
		finding, order, operation, proxy string
		less                             bool
	}
	seen := map[subject]bool{}
	err = sqlite.Each(l.query(ctx, `SELECT `+chain.Columns+` FROM journal WHERE seq > (SELECT coalesce(max(seq), 0) FROM journal) - ? AND type IN ('ledger.reconciled', 'ledger.discrepancy')
		ORDER BY seq DESC`, reconcileHorizon), func(s sqlite.Scanner) error {
		r, err := chain.Scan(s)
		if err != nil {
			return err
		}
		decoded, err := fact.Decode(r.Type, []byte(r.Data))
		switch f := decoded.(type) {
		case fact.LedgerDiscrepancy:
			if of := (subject{f.Finding, f.OrderNo, f.OperationID, f.ProxyID, f.AmountCents < 0}); !seen[of] {
				seen[of] = true
				told = append(told, f)
			}
		case fact.LedgerReconciled:
			agreed = &Reconciled{f, r.Seq, r.Instant()}
			return sqlite.ErrEnough
		}
		return err
	})
	if errors.Is(err, sqlite.ErrEnough) {
		err = nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read what was found before: %w", err)
	}
	return told, agreed, nil
}

// LastComparison returns the time of the last published reconciliation, and how
// many differences were published since the books last agreed. It returns zero values if the
// newest facts contain no result.
func (l *Money) LastComparison(ctx context.Context) (at time.Time, differences int64, err error) {
	told, agreed, err := l.PublishedDiscrepancies(ctx)
	if err != nil || len(told) == 0 {
		if agreed != nil {
			at = agreed.At
		}
		return at, 0, err
	}
	err = l.row(ctx, `SELECT time FROM journal WHERE seq > (SELECT max(seq) FROM journal) - ? AND type = 'ledger.discrepancy' ORDER BY seq DESC LIMIT 1`, reconcileHorizon).Scan(sqlite.At(&at))
	return at, int64(len(told)), err
}

const (
	agreedBefore = `SELECT ` + chain.Columns + ` FROM journal WHERE type = 'ledger.reconciled' AND seq < ? AND seq > ? ORDER BY seq DESC LIMIT 1`
	agreedAfter  = `SELECT ` + chain.Columns + ` FROM journal WHERE type = 'ledger.reconciled' AND seq > ? AND seq < ? ORDER BY seq LIMIT 1`
)

// ReconciledAround reads the last agreement before a journal sequence and the first one
// after it. Each is nil if there is none within reconcileHorizon rows.
func (l *Money) ReconciledAround(ctx context.Context, seq int64) (before, after *Reconciled, err error) {
	if before, err = l.reconciled(ctx, agreedBefore, seq, seq-reconcileHorizon); err != nil {
		return nil, nil, err
	}
	after, err = l.reconciled(ctx, agreedAfter, seq, seq+reconcileHorizon)
	return before, after, err
}

// OrderRefund is what was booked as refunded of an order.
type OrderRefund struct {
	OrderNo string
	Cents   int64
}

// OrderRefundsAfter returns the refunds of orders that were booked after a journal sequence, the latest
// first.
func (l *Money) OrderRefundsAfter(ctx context.Context, seq int64, limit int) ([]OrderRefund, error) {
	return sqlite.Collect(l.query(ctx, `SELECT order_no, sum(cents) FROM transfers WHERE seq > ? AND kind = 'refund' AND order_no <> '' GROUP BY order_no ORDER BY max(seq) DESC LIMIT +?`, seq, limit),
		sqlite.Into(func(x *OrderRefund) []any { return []any{&x.OrderNo, &x.Cents} }))
}

func (l *Money) reconciled(ctx context.Context, query string, from, to int64) (found *Reconciled, err error) {
	err = sqlite.Each(l.query(ctx, query, from, to), func(s sqlite.Scanner) error {
		r, err := chain.Scan(s)
		if err != nil {
			return err
		}
		decoded, err := fact.Decode(r.Type, []byte(r.Data))
		f, _ := decoded.(fact.LedgerReconciled)
		found = &Reconciled{f, r.Seq, r.Instant()}
		return err
	})
	return found, err
}

// Forgotten returns the time from which the ledger may have lost sent requests: the time of
// the last restored row. It returns nil if the ledger was never restored, or if the pause
// that followed the restore has ended.
func (l *Operations) Forgotten(ctx context.Context) (since *time.Time, err error) {
	err = l.row(ctx, `SELECT max(forgotten_since) FROM binding`).Scan(sqlite.NullAt(&since))
	return since, err
}

// Resumed returns the last end of a pause after a restore that an operator ended although the lost
// time was not explained, and its time. It returns sqlite.ErrNone if there is none.
func (l *Operations) Resumed(ctx context.Context) (f fact.AccountResumed, at time.Time, err error) {
	var data []byte
	err = l.row(ctx, `SELECT time, data FROM journal INDEXED BY journal_decisions
		WHERE type = 'account.resumed' AND seq > 0 AND data ->> '$.lost_since' IS NOT NULL ORDER BY seq DESC LIMIT 1`).Scan(sqlite.At(&at), &data)
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	return f, at, sqlite.NotFound(err)
}

// RestoredAlone returns the time at which the ledger was restored without the events stream,
// or with a stream that ends before the backup. It returns nil if the last 1,000 rows
// contain no such restore.
func (l *Operations) RestoredAlone(ctx context.Context) (at *time.Time, err error) {
	err = l.row(ctx, `SELECT CASE WHEN data ->> '$.restored.proven' = 0 THEN time END
		FROM journal WHERE seq > (SELECT max(seq) FROM journal) - 1000 AND type = 'ledger.opened' ORDER BY seq DESC LIMIT 1`).Scan(sqlite.NullAt(&at))
	return at, sqlite.Optional(err)
}

// OrderOwner returns an operation other than but that has this order number. It returns "" if there
// is none.
func (l *Operations) OrderOwner(ctx context.Context, orderNo, but string) (string, error) {
	owner, err := sqlite.Value[string](l.row(ctx, `SELECT id FROM operations WHERE order_no = +? AND order_no <> '' AND id <> +? LIMIT 1`, orderNo, but))
	return owner, sqlite.Optional(err)
}

// RenewedDays returns by how many days renewals have extended a proxy beyond an expiry that a
// read showed. A renewal counts if it settled since the read or paid for that expiry, because a
// read may show an expiry from before a renewal that has settled. Unresolved renewals count.
func (l *Operations) RenewedDays(ctx context.Context, proxyID string, read, expiry time.Time) (int64, error) {
	return sqlite.Value[int64](l.row(ctx, `SELECT coalesce(sum(duration_days), 0) FROM lines
		WHERE proxy_id = ? AND (settled_at >= ? OR abs(observed_expires_at - ?)`+IsNoMove+`) AND state IN ('succeeded', 'charged', 'unresolved')`,
		proxyID, sqlite.Micros(read), sqlite.Micros(expiry)))
}
