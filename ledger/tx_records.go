// Records made by operators.

package ledger

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// LastTime returns the time of the last row; 1970 if there is none.
func (t records) LastTime() (time.Time, error) {
	var us int64
	err := t.w.QueryRow(`SELECT time FROM journal ORDER BY seq DESC LIMIT 1`).Scan(&us)
	if errors.Is(err, sql.ErrNoRows) {
		err = t.w.QueryRow(`SELECT coalesce((SELECT time FROM base), 0)`).Scan(&us)
	}
	return sqlite.FromMicros(us), err
}

// Record is a ledger.recorded fact with its row. For an archived record, only the data for the
// books is known, not the labels.
type Record struct {
	fact.LedgerRecorded
	Seq int64
	At  time.Time
}

// RecordOf reads the record with an ID, or ErrNotFound.
func (t records) RecordOf(id string) (Record, error) {
	return t.record(0, id)
}

// RecordAt returns the record in a journal row, or ErrNotFound.
func (t records) RecordAt(seq int64) (Record, error) { return t.record(seq, "") }

// RecordLike reads the last record after an instant with the same movement, amount,
// operation, order, proxy, person and reason, or ErrNotFound.
func (t records) RecordLike(f fact.LedgerRecorded, after time.Time) (r Record, err error) {
	seqs, err := sqlite.Collect(t.w.Query(`SELECT seq FROM journal WHERE type = 'ledger.recorded' AND time > ? AND data ->> '$.by' = ? AND data ->> '$.reason' = ?
		ORDER BY seq DESC`, sqlite.Micros(after), f.By, f.Reason), func(s sqlite.Scanner) (seq int64, err error) {
		err = s.Scan(&seq)
		return seq, err
	})
	for _, seq := range seqs {
		r, err := t.RecordAt(seq)
		if err != nil || r.Movement == f.Movement && r.AmountCents == f.AmountCents && r.OperationID == f.OperationID && r.OrderNo == f.OrderNo && r.ProxyID == f.ProxyID {
			return r, err
		}
	}
	return r, errors.Join(err, ErrNotFound)
}

// Corrected returns how many cents of a row's amount were taken back by records of this
// movement, less what later records restored. Corrections of corrections count.
func (t records) Corrected(seq int64, movement string) (cents int64, err error) {
	err = t.w.QueryRow(`WITH RECURSIVE corrections (seq) AS (
			SELECT r.seq FROM (`+tables.RecordRows+`) r WHERE r.data ->> '$.corrects_seq' = ?1
			UNION SELECT r.seq FROM corrections CROSS JOIN (`+tables.RecordRows+`) r ON r.data ->> '$.corrects_seq' = corrections.seq)
		SELECT coalesce(sum(CASE WHEN (t.debit = 'wallet') = ?2 THEN t.cents ELSE -t.cents END), 0)
		FROM corrections CROSS JOIN transfers t ON t.seq = corrections.seq`, seq, movement == fact.MovementTopUp || movement == fact.MovementRefund).Scan(&cents)
	return cents, err
}

// record reads the record in a row or, if seq is 0, the record with an ID.
func (t records) record(seq int64, id string) (r Record, err error) {
	var us int64
	var in int64
	err = t.w.QueryRow(`SELECT r.seq, r.time, t.kind, t.debit = 'wallet', t.cents, t.operation, t.order_no, t.proxy_id, coalesce(r.data ->> '$.by', ''),
		coalesce(r.data ->> '$.reason', ''), coalesce(r.data ->> '$.id', substr(r.operation, 8), ''), coalesce(r.data ->> '$.corrects_seq', 0)
		FROM (`+tables.RecordRows+`) r JOIN transfers t ON t.seq = r.seq
		WHERE r.seq = ?1 OR ?1 = 0 AND (r.data ->> '$.id' = ?2 OR r.operation = ?3) ORDER BY r.seq LIMIT 1`, seq, id, fact.LedgerRecorded{ID: id}.Subject()).
		Scan(&r.Seq, &us, &r.Movement, &in, &r.AmountCents, &r.OperationID, &r.OrderNo, &r.ProxyID, &r.By, &r.Reason, &r.ID, &r.Corrects)
	r.At = sqlite.FromMicros(us)
	if account := r.Movement; account == "external" || account == "funding" {
		r.Account, r.Movement = account, fact.MovementExternal
		if in == 1 {
			r.Movement = fact.MovementTopUp
		}
	}
	return r, sqlite.NotFound(err)
}

// AnswerAt reads the answer to a review in a journal row. It returns ErrNotFound if the row
// is not an answer or was archived.
func (t records) AnswerAt(seq int64) (f fact.OperationResolved, err error) {
	var data string
	err = t.w.QueryRow(`SELECT data FROM journal WHERE seq = ? AND type = 'operation.resolved'`, seq).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return f, ErrNotFound
	}
	if err != nil {
		return f, fmt.Errorf("row %d: %w", seq, err)
	}
	x, err := fact.Decode(f.FactType(), []byte(data))
	f, _ = x.(fact.OperationResolved)
	return f, err
}
