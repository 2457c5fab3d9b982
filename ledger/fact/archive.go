// This file has facts about rows moved out of the journal, and events removed from the
// stream.

package fact

import "time"

// LedgerArchived records that journal rows were moved to an archive file. LastSeq is the
// last row that was moved. The ledger's journal begins after it, with the derived tables as
// they were after that row (SnapshotHash).
type LedgerArchived struct {
	accountFact
	Before        time.Time  `json:"before" doc:"'before' is the requested time; facts of this time and later stay."`
	FirstSeq      int64      `json:"first_seq" doc:"The first archived row."`
	LastSeq       int64      `json:"last_seq" doc:"The last archived row."`
	LastHash      string     `json:"last_hash" doc:"The hash of the last archived row."`
	LastTime      time.Time  `json:"last_time" doc:"'last_time' is the time of the last archived row."`
	SnapshotHash  string     `json:"snapshot_hash" doc:"'snapshot_hash' covers every derived table as it was after the last archived row."`
	File          string     `json:"file" doc:"The name of the archive file, without its directory."`
	Currency      string     `json:"currency" doc:"The currency of the balances. The balances are those of 'ledger balance' after the last archived row."`
	WalletCents   int64      `json:"wallet_cents" doc:"The balance of the wallet by the books."`
	ChargedCents  int64      `json:"charged_cents" doc:"The amount charged, before refunds."`
	RefundedCents int64      `json:"refunded_cents" doc:"The amount refunded."`
	SuspenseCents int64      `json:"suspense_cents" doc:"Charges whose result is unknown."`
	FundingCents  int64      `json:"funding_cents" doc:"Money put in: the opening balance and top-ups."`
	ExternalCents int64      `json:"external_cents" doc:"Money spent outside Perennial."`
	MonthEnds     []MonthEnd `json:"month_ends,omitempty" doc:"'month_ends' has the last row of each month that ended within the archived rows."`
}

// FactType implements Fact.
func (LedgerArchived) FactType() string { return "ledger.archived" }

// LedgerBounded records that the events stream begins with a later event from now on. A
// snapshot in the account's bucket replaces the removed events. The snapshot was read back
// before this fact was appended. The ledger.archived fact of the same snapshot confirms its
// content.
type LedgerBounded struct {
	accountFact
	FirstSeq     int64    `json:"first_seq" doc:"'first_seq' is the event that the stream begins with. Earlier events may be removed at any time after this fact."`
	LastSeq      int64    `json:"last_seq" doc:"'last_seq' and 'last_hash' are those of the last row in the snapshot."`
	LastHash     string   `json:"last_hash" doc:"The hash of the last row in the snapshot."`
	SnapshotHash string   `json:"snapshot_hash" doc:"The hash over every derived table after the last row."`
	Bucket       string   `json:"bucket" doc:"'bucket' and 'object' say where the snapshot is."`
	Object       string   `json:"object" doc:"The name of the snapshot in the bucket."`
	HeldBy       string   `json:"held_by,omitempty" doc:"'held_by' is a durable consumer that has not acknowledged the events from 'first_seq' to 'last_seq'; therefore these events stay."`
	Lost         []string `json:"lost,omitempty" doc:"'lost' lists the durable consumers that had not acknowledged every event before 'first_seq'; a person allowed this loss."`
}

// FactType implements Fact.
func (LedgerBounded) FactType() string { return "ledger.bounded" }

// MonthEnd is the last row before a month (UTC) began.
type MonthEnd struct {
	Until time.Time `json:"until" doc:"When the next month began."`
	Seq   int64     `json:"seq" doc:"The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream."`
	Hash  string    `json:"hash" doc:"The row's hash."`
}
