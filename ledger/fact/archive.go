// Facts about rows moved out of the journal, and events removed from the stream.

package fact

import "time"

// LedgerArchived says that journal rows were moved to an archive file. The row it names
// is the last that was moved; the journal of the ledger begins after it, with the
// projections as they were there (SnapshotHash).
type LedgerArchived struct {
	accountFact
	Before        time.Time  `json:"before" doc:"'before' is what was asked for: facts of this instant and later stay."`
	FirstSeq      int64      `json:"first_seq" doc:"The first row."`
	LastSeq       int64      `json:"last_seq" doc:"The last row."`
	LastHash      string     `json:"last_hash" doc:"The hash of the last row."`
	LastTime      time.Time  `json:"last_time" doc:"'last_time' is the time of the last row that went."`
	SnapshotHash  string     `json:"snapshot_hash" doc:"'snapshot_hash' is over every projection as it was after the last row."`
	File          string     `json:"file" doc:"Its name, without the directory."`
	Currency      string     `json:"currency" doc:"The book after the last row, as 'ledger balance' shows it."`
	WalletCents   int64      `json:"wallet_cents" doc:"What the book says that the wallet holds."`
	ChargedCents  int64      `json:"charged_cents" doc:"What was charged, gross: before refunds."`
	RefundedCents int64      `json:"refunded_cents" doc:"What came back."`
	SuspenseCents int64      `json:"suspense_cents" doc:"What was charged and needs review."`
	FundingCents  int64      `json:"funding_cents" doc:"What was put in: the opening balance and top-ups."`
	ExternalCents int64      `json:"external_cents" doc:"What was spent outside Perennial."`
	MonthEnds     []MonthEnd `json:"month_ends,omitempty" doc:"'month_ends' are the last rows of the months that ended within the rows that went."`
}

// FactType implements Fact.
func (LedgerArchived) FactType() string { return "ledger.archived" }

// LedgerBounded says that the events stream begins later from now on. What the removed
// events amounted to is in the account's bucket of snapshots, where the stream is,
// and was read back before this fact was appended; the ledger.archived of the same
// snapshot vouches for it.
type LedgerBounded struct {
	accountFact
	FirstSeq     int64    `json:"first_seq" doc:"'first_seq' is the event that the stream begins with: those before it may be gone at any moment after this fact."`
	LastSeq      int64    `json:"last_seq" doc:"'last_seq' and 'last_hash' are the last row that the snapshot contains."`
	LastHash     string   `json:"last_hash" doc:"The hash of the last row."`
	SnapshotHash string   `json:"snapshot_hash" doc:"The hash over every projection after the last row."`
	Bucket       string   `json:"bucket" doc:"'bucket' and 'object' say where the snapshot is."`
	Object       string   `json:"object" doc:"The name of the snapshot in the bucket."`
	HeldBy       string   `json:"held_by,omitempty" doc:"'held_by' is a durable consumer that has not acknowledged the events from 'first_seq' to 'last_seq', which stay therefore."`
	Lost         []string `json:"lost,omitempty" doc:"'lost' are durable consumers that had not acknowledged every event before 'first_seq', and were named by a person."`
}

// FactType implements Fact.
func (LedgerBounded) FactType() string { return "ledger.bounded" }

// MonthEnd is the last row before a month (UTC) began.
type MonthEnd struct {
	Until time.Time `json:"until" doc:"When that month began."`
	Seq   int64     `json:"seq" doc:"The row of the journal, from 1 without a gap; also the message's sequence in the stream."`
	Hash  string    `json:"hash" doc:"The row's hash."`
}
