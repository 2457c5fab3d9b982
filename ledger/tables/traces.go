// Operations by trace ID, either the provider's or the publisher's.

package tables

import (
	"context"

	"perennial/ledger/sqlite"
)

// tracedAtOnce is how many rows one statement of a search reads. A longer read would hold
// the write-ahead log open too long.
const tracedAtOnce = 20_000

// Traced lists up to limit subjects (operations or commands) with a trace ID: first by an
// operation's last trace ID, then by the text of the journal, each newest first. A search of
// a million operations takes a few seconds. An index on trace IDs would cost the writer a
// tenth of its time. For an archived operation, only the last trace ID is found.
func (l *Operations) Traced(ctx context.Context, trace string, limit int) (all []string, err error) {
	seen := map[string]bool{}
	add := func(s sqlite.Scanner) error {
		var id string
		if err := s.Scan(&id); err != nil {
			return err
		}
		if !seen[id] && len(all) < limit {
			all, seen[id] = append(all, id), true
		}
		return nil
	}
	var rows int64
	if err := l.read.QueryRowContext(ctx, `SELECT coalesce(max(rowid), 0) FROM operations`).Scan(&rows); err != nil {
		return nil, err
	}
	for ; rows > 0 && len(all) < limit; rows -= tracedAtOnce {
		if err := sqlite.Each(l.query(ctx, `SELECT id FROM operations WHERE rowid > ? AND rowid <= ? AND trace_id = ? ORDER BY rowid DESC LIMIT +?`,
			rows-tracedAtOnce, rows, trace, limit), add); err != nil {
			return nil, err
		}
	}
	var seq int64
	err = l.read.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM journal`).Scan(&seq)
	for ; err == nil && seq > 0 && len(all) < limit; seq -= tracedAtOnce {
		// The limit applies to operations, not to rows: an operation has many rows.
		err = sqlite.Each(l.query(ctx, `SELECT operation FROM journal WHERE seq > ? AND seq <= ? AND operation <> '' AND instr(data, ?) > 0 GROUP BY +operation ORDER BY max(seq) DESC`,
			seq-tracedAtOnce, seq, trace), add)
	}
	return all, err
}
