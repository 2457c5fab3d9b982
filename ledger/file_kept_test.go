// Ledgers written by the programs of each schema; testdata/schemas keeps one of each.

package ledger

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"perennial/ledger/fact"
	"perennial/ledger/report"
	"perennial/ledger/tables"
)

// Each migration comes with a file written by a program with it, for every later program to
// open. A kept file is never recreated.
func TestALedgerOfThisSchemaIsKept(t *testing.T) {
	known, err := knownVersion()
	check(t, err)
	kept := filepath.Join("testdata", "schemas", fmt.Sprintf("%d.ledger.db.gz", known))
	if _, err := os.Stat(kept); err == nil {
		return
	} else if !errors.Is(err, fs.ErrNotExist) || !*update {
		t.Fatalf("%v: go test ./ledger -run ThisSchemaIsKept -update", err)
	}
	b := newBook(t)
	b.add(append(history(), over()...)...)
	out := filepath.Join(t.TempDir(), "copy.db")
	_, err = b.Backup(t.Context(), out, false)
	check(t, err)
	data, err := os.ReadFile(out)
	check(t, err)
	var packed bytes.Buffer
	to, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	check(t, err)
	_, err = to.Write(data)
	check(t, errors.Join(err, to.Close()))
	check(t, os.MkdirAll(filepath.Dir(kept), 0o755))
	check(t, os.WriteFile(kept, packed.Bytes(), 0o644))
}

func TestTheKeptLedgersAreOpenedVerifiedAndCarriedOn(t *testing.T) {
	all, err := filepath.Glob(filepath.Join("testdata", "schemas", "*.ledger.db.gz"))
	if err != nil || len(all) == 0 {
		t.Fatalf("no ledger is kept: %v", err)
	}
	for _, kept := range all {
		path := unpacked(t, kept, filepath.Join(t.TempDir(), "main.ledger.db"))
		was := tablesOf(t, path)
		reader, err := Open(t.Context(), Config{Path: path, Clock: ticking(), ReadOnly: true})
		check(t, err)
		if _, old := reader.Report().Statement(t.Context(), "main", report.Period{From: noon, To: noon.AddDate(0, 1, 0)}); old != nil && !errors.Is(old, tables.ErrOldBook) {
			t.Errorf("%s, before it is migrated: %v", kept, old)
		}
		_, err = reader.Verify(t.Context())
		if check(t, reader.Close()); err != nil {
			t.Errorf("%s, before it is migrated: %v", kept, err)
		}
		l, err := Open(t.Context(), Config{Path: path, Clock: clockBehind(t, path)})
		check(t, err)
		b := &book{Ledger: l, t: t, path: path}
		sameTables(t, kept+", opened", was, tablesOf(t, path))
		b.verifiedAndRebuilt(kept + ", opened")
		b.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: 5, By: "ada", Reason: "card"})
		b.verifiedAndRebuilt(kept + ", carried on")
		check(t, l.Close())
	}
}
