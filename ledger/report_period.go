// The transfers of a span of time.

package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// Period is a span of time: From is part of it, To is not. A zero From begins
// with the first fact, a zero To ends with the last.
type Period struct{ From, To time.Time }

// Holds reports whether an instant is inside the period.
func (p Period) Holds(at time.Time) bool {
	return !at.Before(p.From) && (p.To.IsZero() || at.Before(p.To))
}

// seqFrom is a journal sequence at or before the first fact as late as the
// instant. The index journal_time holds every 256th row, so the answer is early
// by some hundred rows; times are compared again by the caller. Facts are in order of
// time unless a clock was set back. An instant that was archived
// is found from the first row on.
func seqFrom(ctx context.Context, q queryer, at time.Time) (seq int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT coalesce(
		(SELECT 0 FROM base WHERE time >= ?1),
		(SELECT min(seq) - 256 FROM journal WHERE seq % 256 = 0 AND time >= ?1),
		(SELECT max(seq) / 256 * 256 FROM journal), 0)`, micros(at)).Scan(&seq)
	if err != nil {
		return 0, fmt.Errorf("find %s in the journal: %w", at.UTC().Format(time.RFC3339), err)
	}
	return seq, nil
}

// queryer is what sql.DB and sql.Tx have in common here.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Transfer is one double entry: it moved Cents from the account of the book
// that is credited to the one that is debited.
type Transfer struct {
	Seq       int64     `json:"seq"`
	N         int64     `json:"n"` // within its fact, from 1
	Time      time.Time `json:"time"`
	Fact      string    `json:"fact"`
	Kind      string    `json:"kind"` // charge | refund | suspense | resolution | funding | external
	Debit     string    `json:"debit"`
	Credit    string    `json:"credit"`
	Cents     int64     `json:"amount_cents"`
	CommandID string    `json:"command_id"`
	Operation string    `json:"operation_id"`
	OrderNo   string    `json:"order_no"`
	ProxyID   string    `json:"proxy_id"`
	Hash      string    `json:"hash"` // of its journal row
	// By and Reason are those of a person who booked it by hand, User is who asked
	// for it (see UserOf).
	By     string            `json:"by,omitempty"`
	Reason string            `json:"reason,omitempty"`
	Labels map[string]string `json:"labels,omitempty"` // of its command
	User   string            `json:"user,omitempty"`
}

// Transfers calls yield for every double entry of a period, in the order in
// which they were booked.
func (l *Ledger) Transfers(ctx context.Context, p Period, yield func(Transfer) error) error {
	return transfersOf(ctx, l.read, p, yield)
}

func transfersOf(ctx context.Context, q queryer, p Period, yield func(Transfer) error) error {
	from, err := seqFrom(ctx, q, p.From)
	if err != nil {
		return err
	}
	until := p.To
	if until.IsZero() {
		until = fromMicros(1<<62 - 1)
	}
	return each(queryOf(ctx, q, `SELECT t.seq, t.n, coalesce(j.time, a.time) AS at, coalesce(j.type, a.type), t.kind, t.debit, t.credit, t.cents,
		coalesce(o.command_id, ''), t.operation, t.order_no, t.proxy_id, coalesce(j.hash, a.hash),
		coalesce(j.data ->> '$.by', a.data ->> '$.by', ''),
		CASE WHEN j.data ->> '$.by' <> '' THEN coalesce(j.data ->> '$.reason', '') ELSE coalesce(a.data ->> '$.reason', '') END,
		coalesce(j.data -> '$.labels', ca.data -> '$.labels', ''), coalesce(j.data ->> '$.user', a.data ->> '$.user', '')
		FROM transfers t LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq LEFT JOIN operations o ON o.id = t.operation
		LEFT JOIN commands c ON c.id = o.command_id LEFT JOIN archived ca ON ca.seq = c.accepted_seq
		WHERE t.seq >= ? AND at >= ? AND at < ? ORDER BY t.seq, t.n`, from, micros(p.From), micros(until)), func(s scanner) error {
		var x Transfer
		var at int64
		var labels string
		err := s.Scan(&x.Seq, &x.N, &at, &x.Fact, &x.Kind, &x.Debit, &x.Credit, &x.Cents, &x.CommandID, &x.Operation, &x.OrderNo, &x.ProxyID, &x.Hash,
			&x.By, &x.Reason, &labels, &x.User)
		if err == nil && labels != "" {
			err = json.Unmarshal([]byte(labels), &x.Labels)
		}
		if err != nil {
			return err
		}
		x.Time = fromMicros(at)
		return yield(x)
	})
}
