package report

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// Books are the books of one ledger, as reports read them.
type Books struct {
	Reader

	DB    *sql.DB // connections that never write
	Clock func() time.Time
}

// Reader reads the journal, including archived rows.
type Reader interface {
	Binding(ctx context.Context) (fact.Binding, error)
	SeqAt(ctx context.Context, at time.Time) (int64, error)
	Rows(ctx context.Context, after int64, limit int) ([]chain.Row, error)
}

// Period is a span of time that includes From and excludes To. A zero From starts with the
// first fact; a zero To ends with the last. An entry belongs to the period of its booking
// time (Transfer.BookedAt), so consecutive periods have no gap.
type Period struct{ From, To time.Time }

// bounds returns the sequences of the period's entries: from is inclusive, to is exclusive.
func (p Period) bounds(ctx context.Context, q sqlite.Queryer) (from, to int64, err error) {
	if from, err = tables.FirstBooked(ctx, q, p.From); err != nil || p.To.IsZero() {
		return from, math.MaxInt64, err
	}
	to, err = tables.FirstBooked(ctx, q, p.To)
	return from, to, err
}

// Transfer is one double-entry booking. It moves Cents from the credited ledger account to
// the debited one.
type Transfer struct {
	Seq       int64     `json:"seq"`
	N         int64     `json:"n"`    // number within the fact, from 1
	Time      time.Time `json:"time"` // when the row was stored; see BookedAt
	Fact      string    `json:"fact"`
	Kind      string    `json:"kind"` // charge | refund | suspense | resolution | funding | external
	Debit     string    `json:"debit"`
	Credit    string    `json:"credit"`
	Cents     int64     `json:"amount_cents"`
	CommandID string    `json:"command_id"`
	Operation string    `json:"operation_id"`
	OrderNo   string    `json:"order_no"`
	ProxyID   string    `json:"proxy_id"`
	Hash      string    `json:"hash"` // of the journal row
	tables.Hand
	Labels map[string]string `json:"labels,omitempty"` // of the command
	// BookedAt decides to which day, month and period the entry belongs. It equals Time, unless
	// an earlier entry was booked at a later time. In that case it equals the later time.
	BookedAt time.Time `json:"booked_at"`
	// SentAt is when the entry's operation was first sent. It is nil if there is no such time.
	SentAt *time.Time `json:"sent_at,omitempty"`
	// RefundedAt is when the provider refunded the order. It is nil for entries of other kinds.
	RefundedAt *time.Time `json:"refunded_at,omitempty"`
}

// Transfers calls yield for every ledger entry of a period, in booking order.
func (l Books) Transfers(ctx context.Context, p Period, yield func(Transfer) error) error {
	return transfersOf(ctx, l.DB, p, yield)
}

func transfersOf(ctx context.Context, q sqlite.Queryer, p Period, yield func(Transfer) error) error {
	from, to, err := p.bounds(ctx, q)
	if err != nil {
		return err
	}
	return sqlite.Each(sqlite.Query(ctx, q, `SELECT t.seq, t.n, coalesce(j.time, a.time), coalesce(j.type, a.type), t.kind, t.debit, t.credit, t.cents,
		coalesce(o.command_id, ''), t.operation, t.order_no, t.proxy_id, coalesce(j.hash, a.hash),
		coalesce(j.data ->> '$.by', a.data ->> '$.by', ''),
		CASE WHEN j.data ->> '$.by' <> '' THEN coalesce(j.data ->> '$.reason', '') ELSE coalesce(a.data ->> '$.reason', '') END,
		coalesce(j.data -> '$.labels', ca.data -> '$.labels', ''), coalesce(j.data ->> '$.user', a.data ->> '$.user', ''),
		coalesce(j.data ->> '$.corrects_seq', a.data ->> '$.corrects_seq', 0), t.booked_at, o.first_sent_at,
		CASE WHEN t.kind = 'refund' THEN coalesce(j.data ->> '$.refunded_at', a.data ->> '$.refunded_at', '') ELSE '' END
		FROM transfers t LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq LEFT JOIN operations o ON o.id = t.operation
		LEFT JOIN commands c ON c.id = o.command_id LEFT JOIN archived ca ON ca.seq = c.accepted_seq
		WHERE t.seq >= ? AND t.seq < ? ORDER BY t.seq, t.n`, from, to), func(s sqlite.Scanner) error {
		var x Transfer
		var labels, refunded string
		err := s.Scan(&x.Seq, &x.N, sqlite.At(&x.Time), &x.Fact, &x.Kind, &x.Debit, &x.Credit, &x.Cents, &x.CommandID, &x.Operation, &x.OrderNo, &x.ProxyID, &x.Hash,
			&x.By, &x.Reason, &labels, &x.User, &x.CorrectsSeq, sqlite.At(&x.BookedAt), sqlite.NullAt(&x.SentAt), &refunded)
		if err == nil && labels != "" {
			err = json.Unmarshal([]byte(labels), &x.Labels)
		}
		if err == nil && refunded != "" {
			x.RefundedAt = new(time.Time)
			*x.RefundedAt, err = time.Parse(time.RFC3339Nano, refunded)
		}
		if err != nil {
			return err
		}
		return yield(x)
	})
}
