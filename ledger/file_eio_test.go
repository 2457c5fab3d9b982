package ledger

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mattn/go-sqlite3"

	"perennial/ledger/disktest"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
)

// onDisk runs the test again in a process with the failing disk. It returns the disk in
// that process, and nil in the one that started it.
func onDisk(t *testing.T, role string) *disktest.Disk {
	t.Helper()
	if os.Getenv(roleEnv) == role {
		return disktest.Given(os.Getenv)
	}
	d := disktest.New(t, "ledger.")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), roleEnv+"="+role), d.Environment()...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return nil
}

// roleEnv names the part that a process of this test's own program plays.
const roleEnv = "PERENNIAL_TEST_ROLE"

func topUp(cents int64) fact.LedgerRecorded {
	return fact.LedgerRecorded{Movement: "top-up", AmountCents: cents, By: "ada", Reason: "card"}
}

// Writes or syncs return EIO. No caller is told that a lost fact is stored, reads continue,
// and the health report gives the reason. When the disk works again, so does the ledger.
func TestADiskThatFailsLosesNothingAndTheLedgerRecovers(t *testing.T) {
	disk := onDisk(t, "eio")
	if disk == nil {
		return
	}
	for _, calls := range []string{"write=-wal", "sync=-wal", "write sync"} {
		b := newBook(t)
		b.add(opened(100))
		check(t, disk.Fail(calls))
		for range 3 {
			b.fails()
		}
		if b.balance().WalletCents != 100 {
			t.Errorf("%s: reads say %+v", calls, b.balance())
		}
		check(t, disk.Heal())
		b.add(topUp(1))
		if b.Failing() != nil || b.balance().WalletCents != 101 || b.balance().Head.Seq != 2 {
			t.Errorf("%s: %v, %+v", calls, b.Failing(), b.balance())
		}
		if _, err := b.Verify(t.Context()); err != nil {
			t.Errorf("%s: %v", calls, err)
		}
		check(t, b.Close())
		if got := openBook(t, b.path).balance(); got.WalletCents != 101 || got.Head.Seq != 2 {
			t.Errorf("%s: opened again it says %+v", calls, got)
		}
	}
}

// fails checks that a write fails and reports it.
func (b *book) fails() {
	b.t.Helper()
	err := b.tryAdd(topUp(1))
	if failure, _ := errors.AsType[sqlite3.Error](err); failure.Code != sqlite3.ErrIoErr || b.Failing() == nil {
		b.t.Errorf("%v, failing %v", err, b.Failing())
	}
}

// Commits continue while the database itself cannot be written, and rows that are only in the
// log reach the database later.
func TestACheckpointThatFailsLosesNothing(t *testing.T) {
	disk := onDisk(t, "checkpoint")
	if disk == nil {
		return
	}
	b := newBook(t)
	check(t, b.write.exec(`PRAGMA wal_autocheckpoint = 4`)) // there are no writers yet
	b.add(opened(100))
	check(t, disk.Fail("write sync=.db"))
	for i := range 40 {
		b.add(topUp(int64(i + 1)))
	}
	check(t, disk.Heal())
	b.add(topUp(1))
	if got := b.balance().WalletCents; got != 100+40*41/2+1 {
		t.Errorf("%d cents", got)
	}
	if _, err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// An archiving on a failing disk leaves the ledger unchanged.
func TestAnArchivingOnADiskThatFailsLeavesTheLedger(t *testing.T) {
	disk := onDisk(t, "archive")
	if disk == nil {
		return
	}
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	b := oldBook(t, path, append(history(), over()...)...)
	want := money(t, b.Ledger)
	check(t, b.Close())
	for _, step := range []string{"archive.begun", "archive.folded", "archive.written", "archive.ledger_folded"} {
		x := archiveOf(t, path, 60)
		fails := failpoint.With(context.Background(), func(at string) {
			if at == step {
				check(t, disk.Fail("write"))
			}
		})
		if _, err := x.Run(fails); err == nil {
			t.Errorf("%s: it succeeded", step)
		}
		check(t, disk.Heal())
		b := openBook(t, path)
		if begins, _ := b.Begins(); begins != nil || money(t, b.Ledger) != want {
			t.Errorf("%s: the ledger is another one", step)
		}
		check(t, b.Close())
	}
	if _, err := archiveOf(t, path, 60).Run(context.Background()); err != nil {
		t.Error(err)
	}
}
