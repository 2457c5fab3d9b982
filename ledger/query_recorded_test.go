package ledger

import (
	"errors"
	"path/filepath"
	"testing"

	"perennial/ledger/fact"
)

// After archiving, a record keeps its id and the row that it reverses: the same id books once,
// and nothing is reversed twice.
func TestARecordIsKnownBehindAnArchive(t *testing.T) {
	charge := fact.LedgerRecorded{Ref: ref("r1/0001"), Movement: fact.MovementCharge, AmountCents: 7, By: "ada", Reason: "the invoice", ProxyID: "px_1a", ID: "late", Corrects: 2}
	facts := []fact.Fact{opened(10_000), accepted(fact.KindRenewal, "r1/0001", "px_1a"), sending("r1/0001", 1), settled("r1/0001", "completed", line("px_1a", "succeeded", 300, 0))}
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"),
		append(facts, fact.LedgerRecorded{Movement: fact.MovementTopUp, AmountCents: 500, By: "ada", Reason: "wire", ID: "wire-7"}, charge)...)
	for range 100 {
		b.add(fact.LedgerReconciled{})
	}
	seq, _, err := b.Head(t.Context())
	check(t, err)
	check(t, b.Close())
	out, err := archiveOf(t, b.path, seq-20).Run(t.Context())
	check(t, err)
	after := openBook(t, b.path)
	check(t, after.Write(t.Context(), func(tx *Tx) error {
		wire, err := tx.RecordOf("wire-7")
		check(t, err)
		late, err := tx.RecordOf("late")
		check(t, err)
		if wire.Movement != fact.MovementTopUp || wire.AmountCents != 500 || wire.Seq > out.LastSeq || wire.By != "ada" || wire.Reason != "wire" || wire.OperationID != "" {
			t.Errorf("%+v", wire)
		}
		if late.Movement != fact.MovementCharge || late.OperationID != "r1/0001" || late.ProxyID != "px_1a" || late.Corrects != 2 || late.Seq > out.LastSeq {
			t.Errorf("%+v", late)
		}
		if cents, err := tx.Corrected(2, fact.MovementRefund); err != nil || cents != -7 {
			t.Errorf("corrected: %d %v", cents, err)
		}
		if _, err := tx.RecordOf("other"); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v", err)
		}
		return nil
	}))
	if _, err := after.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}
