// The last row of each month, which a statement of an archived month needs.

package ledger

import (
	"context"
	"time"

	"perennial/ledger/fact"
)

// monthEndsMost bounds the months of one archive, since a clock may have been far off.
const monthEndsMost = 1200

// nextMonth is when the month after an instant's begins.
func nextMonth(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
}

// monthEnds are the months that ended within the journal of a file: what is left
// of archived rows does not tell which was the last one of a month.
func (l *Ledger) monthEnds(ctx context.Context) (ends []fact.MonthEnd, err error) {
	var last Head
	var until time.Time
	err = each(l.query(ctx, `SELECT seq, hash, time FROM (SELECT seq, hash, time FROM base UNION ALL SELECT seq, hash, time FROM journal) ORDER BY seq`), func(s scanner) error {
		var h Head
		var us int64
		err := s.Scan(&h.Seq, &h.Hash, &us)
		at := fromMicros(us)
		if until.IsZero() {
			until = nextMonth(at)
		}
		for ; !at.Before(until) && len(ends) < monthEndsMost; until = nextMonth(until) {
			ends = append(ends, fact.MonthEnd{Until: until, Seq: last.Seq, Hash: last.Hash})
		}
		last = h
		return err
	})
	return ends, err
}

func (t *Tx) applyMonthEnds(ends []fact.MonthEnd) error {
	for _, e := range ends {
		err := t.exec(`INSERT INTO month_ends (until, seq, hash) VALUES (?, ?, ?) ON CONFLICT (until) DO NOTHING`, micros(e.Until), e.Seq, e.Hash)
		if err != nil {
			return err
		}
	}
	return nil
}
