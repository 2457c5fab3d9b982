package ledger

import (
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
		only := func(id string) Record {
			all, err := tx.RecordsOf(id)
			if check(t, err); len(all) != 1 {
				t.Fatalf("%s: %+v", id, all)
			}
			return all[0]
		}
		wire, late := only("wire-7"), only("late")
		if wire.Movement != fact.MovementTopUp || wire.AmountCents != 500 || wire.Seq > out.LastSeq || wire.By != "ada" || wire.Reason != "wire" || wire.OperationID != "" {
			t.Errorf("%+v", wire)
		}
		if late.Movement != fact.MovementCharge || late.OperationID != "r1/0001" || late.ProxyID != "px_1a" || late.Corrects != 2 || late.Seq > out.LastSeq {
			t.Errorf("%+v", late)
		}
		for proxy, want := range map[string]int64{"": -7, "px_1a": -7, "px_1b": 0} {
			if cents, err := tx.Corrected(2, fact.MovementRefund, proxy); err != nil || cents != want {
				t.Errorf("corrected of %q: %d %v", proxy, cents, err)
			}
		}
		if all, err := tx.RecordsOf("other"); err != nil || len(all) != 0 {
			t.Errorf("%v %v", all, err)
		}
		return nil
	}))
	if _, err := after.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}
