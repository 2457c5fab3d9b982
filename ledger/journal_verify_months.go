// Verifying months: each month follows the previous one, the months add up to the books, and
// replaying up to a month's head gives the month's sums.

package ledger

import (
	"context"
	"fmt"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// Backdated is a row whose amount is booked at a later time than the row's own, because the
// clock was slow or was set back. The books and statements use BookedAt.
type Backdated struct {
	Seq      int64     `json:"seq"`
	Time     time.Time `json:"time"`
	BookedAt time.Time `json:"booked_at"`
}

// backdatedMost limits how many rows a verification lists.
const backdatedMost = 100

// backdated lists the rows whose amounts are booked more than fact.ClockTolerance after the
// row's own time.
func backdated(ctx context.Context, q sqlite.Queryer) ([]Backdated, error) {
	return sqlite.Collect(sqlite.Query(ctx, q, `SELECT DISTINCT t.seq, coalesce(j.time, a.time) AS at, t.booked_at
		FROM transfers t LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq
		WHERE at < t.booked_at - ? ORDER BY t.seq LIMIT +?`, fact.ClockTolerance.Microseconds(), backdatedMost), func(s sqlite.Scanner) (x Backdated, err error) {
		var at, booked int64
		err = s.Scan(&x.Seq, &at, &booked)
		x.Time, x.BookedAt = sqlite.FromMicros(at), sqlite.FromMicros(booked)
		return x, err
	})
}

// monthSums sums the transfers of a month.
type monthSums struct {
	begins        time.Time
	first, last   int64 // sequences
	walletChanged int64
}

// checkMonths checks that the transfers of each month follow those of the previous month,
// and that the months add up to the wallet. The head of a month must be after all transfers
// of the month and before all later ones. Only then does replaying up to the head give the
// month's sums.
func checkMonths(ctx context.Context, q sqlite.Queryer) error {
	months, err := sqlite.Collect(sqlite.Query(ctx, q, `SELECT unixepoch(booked_at / 1000000, 'unixepoch', 'start of month') AS begins, min(seq), max(seq),
		sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents ELSE 0 END) FROM transfers GROUP BY 1 ORDER BY 1`),
		func(s sqlite.Scanner) (m monthSums, err error) {
			var begins int64
			err = s.Scan(&begins, &m.first, &m.last, &m.walletChanged)
			m.begins = time.Unix(begins, 0).UTC()
			return m, err
		})
	if err != nil {
		return err
	}
	var before monthSums // walletChanged is the sum of all months so far
	for _, m := range months {
		h, _, err := tables.HeadBefore(ctx, q, m.begins)
		if err != nil {
			return err
		}
		if m.first <= before.last || h.Seq < before.last || h.Seq >= m.first {
			return &chain.BrokenError{Check: "months", Seq: m.first, Detail: fmt.Sprintf("%s begins here, after row %d, and what was booked before ends with row %d",
				m.begins.Format("January 2006"), h.Seq, before.last)}
		}
		m.walletChanged += before.walletChanged
		before = m
	}
	var wallet int64
	err = q.QueryRowContext(ctx, `SELECT coalesce(sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents END), 0) FROM totals`).Scan(&wallet)
	if err == nil && wallet != before.walletChanged {
		err = &chain.BrokenError{Check: "months", Seq: before.last, Detail: fmt.Sprintf("the months add up to %d cents and the wallet holds %d", before.walletChanged, wallet)}
	}
	return err
}
