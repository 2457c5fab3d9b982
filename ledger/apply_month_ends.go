// The last row of each month, which statements of archived months need.

package ledger

import (
	"context"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// monthEndsMost limits the months of one archive, because a clock may have been far off.
const monthEndsMost = 1200

// nextMonth returns the start of the month after an instant, in UTC.
func nextMonth(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
}

// monthEnds lists the months of the file that ended before row last, each with its last row.
// The ledger that starts after an archive no longer shows which row ended a month.
func (l *Ledger) monthEnds(ctx context.Context, last int64) (ends []fact.MonthEnd, err error) {
	begins := int64(0)
	if l.base != nil {
		begins = l.base.Seq
	}
	var us int64
	err = l.read.QueryRowContext(ctx, `SELECT coalesce((SELECT booked_at FROM transfers WHERE seq <= ? ORDER BY seq DESC LIMIT 1),
		(SELECT opened_at FROM binding), (SELECT time FROM journal ORDER BY seq LIMIT 1), 0)`, begins).Scan(&us)
	for until := nextMonth(sqlite.FromMicros(us)); err == nil && len(ends) < monthEndsMost; until = nextMonth(until) {
		var h chain.Head
		var known bool
		h, known, err = tables.HeadBefore(ctx, l.read, until)
		if err != nil || h.Seq >= last {
			break
		}
		if known && h.Seq > 0 && h.Seq >= begins {
			ends = append(ends, fact.MonthEnd{Until: until, Seq: h.Seq, Hash: h.Hash})
		}
	}
	return ends, err
}

func (t projector) applyMonthEnds(ends []fact.MonthEnd) error {
	for _, e := range ends {
		err := t.exec(`INSERT INTO month_ends (until, seq, hash) VALUES (?, ?, ?) ON CONFLICT (until) DO NOTHING`, sqlite.Micros(e.Until), e.Seq, e.Hash)
		if err != nil {
			return err
		}
	}
	return nil
}
