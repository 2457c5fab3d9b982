// The facts of what was moved out of the journal, or off the events stream.

package fact

import "time"

// LedgerArchived says that journal rows were moved to an archive file. The row it names
// is the last that was moved; the journal of the ledger begins behind it, with the
// projections as they were there (SnapshotHash).
type LedgerArchived struct {
	accountFact
	// Before is what was asked for: facts of this instant and later stay.
	Before   time.Time `json:"before"`
	FirstSeq int64     `json:"first_seq"`
	LastSeq  int64     `json:"last_seq"`
	LastHash string    `json:"last_hash"`
	// LastTime is the time of the last row that went.
	LastTime time.Time `json:"last_time"`
	// SnapshotHash is over every projection as it stood behind the last row.
	SnapshotHash string `json:"snapshot_hash"`
	File         string `json:"file"` // its name, without the directory
	// The book behind the last row, as `ledger balance` shows it.
	Currency      string `json:"currency"`
	WalletCents   int64  `json:"wallet_cents"`
	ChargedCents  int64  `json:"charged_cents"`
	RefundedCents int64  `json:"refunded_cents"`
	SuspenseCents int64  `json:"suspense_cents"`
	FundingCents  int64  `json:"funding_cents"`
	ExternalCents int64  `json:"external_cents"`
	// MonthEnds are the last rows of the months that ended within the rows that went.
	MonthEnds []MonthEnd `json:"month_ends,omitempty"`
}

// FactType implements Fact.
func (LedgerArchived) FactType() string { return "ledger.archived" }

// LedgerBounded says that the events stream begins later from now on. What the removed
// events amounted to is in the account's bucket of snapshots, where the stream is,
// and was read back before this fact was appended; the ledger.archived of the same
// snapshot vouches for it.
type LedgerBounded struct {
	accountFact
	// FirstSeq is the event that the stream begins with: those before it may be gone
	// at any moment behind this fact.
	FirstSeq int64 `json:"first_seq"`
	// LastSeq and LastHash are the last row that the snapshot contains.
	LastSeq      int64  `json:"last_seq"`
	LastHash     string `json:"last_hash"`
	SnapshotHash string `json:"snapshot_hash"`
	// Bucket and Object say where the snapshot is.
	Bucket string `json:"bucket"`
	Object string `json:"object"`
	// HeldBy is a durable consumer that has not acknowledged the events from FirstSeq
	// to LastSeq, which stay therefore.
	HeldBy string `json:"held_by,omitempty"`
	// Lost are durable consumers that had not acknowledged every event before
	// FirstSeq, and were named by a person.
	Lost []string `json:"lost,omitempty"`
}

// FactType implements Fact.
func (LedgerBounded) FactType() string { return "ledger.bounded" }

// MonthEnd is the last row before a month (UTC) began.
type MonthEnd struct {
	Until time.Time `json:"until"` // when that month began
	Seq   int64     `json:"seq"`
	Hash  string    `json:"hash"`
}
