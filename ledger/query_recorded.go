// What a person recorded under an id.

package ledger

import "perennial/ledger/fact"

// RecordOf reads what a person recorded under an id; ErrNotFound when nothing is,
// or when it was archived.
func (t *Tx) RecordOf(id string) (f fact.LedgerRecorded, err error) {
	var data string
	err = t.queryRow(`SELECT data FROM journal WHERE operation = ? AND operation <> '' AND type = 'ledger.recorded' ORDER BY seq LIMIT 1`, fact.LedgerRecorded{ID: id}.Subject()).Scan(&data)
	if err != nil {
		return f, notFound(err)
	}
	before, err := fact.Decode(f.FactType(), []byte(data))
	f, _ = before.(fact.LedgerRecorded)
	return f, err
}
