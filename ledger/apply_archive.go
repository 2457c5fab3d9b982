// Applying ledger.archived and ledger.bounded.

package ledger

import (
	"fmt"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// applyArchived records which archive contains the archived rows. It removes nothing,
// because a journal rebuilt from the events still contains those rows.
func (t projector) applyArchived(r chain.Row, f fact.LedgerArchived) error {
	err := t.exec(`INSERT INTO archives (seq, first_seq, last_seq, last_hash, snapshot_hash, file, archived_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		r.Seq, f.FirstSeq, f.LastSeq, f.LastHash, f.SnapshotHash, f.File, r.Time)
	if err != nil {
		return err
	}
	return t.applyMonthEnds(f.MonthEnds)
}

// applyBounded records the first row of the events stream. The archive in the fact must be
// known, because a restore uses a snapshot only if a fact contains its hash.
func (t projector) applyBounded(f fact.LedgerBounded) error {
	if f.FirstSeq < 2 || f.FirstSeq > f.LastSeq+1 {
		return fmt.Errorf("the events stream cannot begin with row %d after a snapshot of row %d", f.FirstSeq, f.LastSeq)
	}
	return t.w.execOne(`UPDATE archives SET events_begin = max(events_begin, ?) WHERE seq = (SELECT max(seq) FROM archives
		WHERE last_seq = ? AND last_hash = ? AND snapshot_hash = ?)`, f.FirstSeq, f.LastSeq, f.LastHash, f.SnapshotHash)
}
