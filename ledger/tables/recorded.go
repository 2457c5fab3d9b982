// Records made by operators.

package tables

// RecordRows selects the rows of operators' records, including archived ones.
const RecordRows = `SELECT seq, time, operation, data FROM journal WHERE type = 'ledger.recorded'
	UNION ALL SELECT seq, time, operation, data FROM archived WHERE type = 'ledger.recorded'`
