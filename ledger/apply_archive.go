// What ledger.archived does to the projections.

package ledger

import "perennial/ledger/fact"

// applyArchived notes where rows went. It removes nothing: a journal that is made again
// from the events still holds them.
func (t *Tx) applyArchived(r Row, f fact.LedgerArchived) error {
	err := t.exec(`INSERT INTO archives (seq, first_seq, last_seq, last_hash, snapshot_hash, file, archived_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		r.Seq, f.FirstSeq, f.LastSeq, f.LastHash, f.SnapshotHash, f.File, r.Time)
	if err != nil {
		return err
	}
	return t.applyMonthEnds(f.MonthEnds)
}
