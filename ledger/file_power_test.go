package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perennial/ledger/chain"
	"perennial/ledger/disktest"
)

// pathEnv is the path of the ledger in a process of this test's own program.
const pathEnv = "PERENNIAL_TEST_LEDGER"

// parts are the work of the power tests' processes, each until it is killed.
var parts = map[string]func(disk *disktest.Disk, path string) error{
	"synced":  func(disk *disktest.Disk, path string) error { return appendUntilKilled(disk, path, "FULL", 30) },
	"hasty":   func(disk *disktest.Disk, path string) error { return appendUntilKilled(disk, path, "NORMAL", 30) },
	"struck":  appendOnAFailingDisk,
	"watched": appendWatched,
}

// playPart plays a part instead of running tests.
func playPart(name string) {
	err := parts[name](disktest.Given(os.Getenv), os.Getenv(pathEnv))
	if err == nil {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	panic(err)
}

// appendUntilKilled runs several appending writers, with a checkpoint at a number of pages.
// It marks in the disk's record what each saw committed.
func appendUntilKilled(disk *disktest.Disk, path, synchronous string, pages int) error {
	l, err := Open(context.Background(), Config{Path: path, Clock: time.Now})
	if err != nil {
		return err
	}
	err = errors.Join(l.write.exec(fmt.Sprintf(`PRAGMA wal_autocheckpoint = %d`, pages)), l.write.exec(`PRAGMA synchronous = `+synchronous)) // there are no writers yet
	var wg sync.WaitGroup
	failures := make(chan error, 4)
	for n := range cap(failures) {
		wg.Go(func() {
			for i := range 25 {
				if err := appendAndMark(disk, l, int64(1+n*100+i)); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	return err
}

// appendWatched appends to a file that a reader opened earlier, so that SQLite does not
// restart the log itself.
func appendWatched(disk *disktest.Disk, path string) error {
	watch, err := Open(context.Background(), Config{Path: path, Clock: time.Now, ReadOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(appendUntilKilled(disk, path, "FULL", 1_000_000), watch.Close())
}

// appendAndMark appends a fact, and marks it once it is committed.
func appendAndMark(disk *disktest.Disk, l *Ledger, cents int64) error {
	var h chain.Head
	err := l.Write(context.Background(), func(tx *Tx) error {
		err := tx.Append(topUp(cents))
		h = tx.w.head
		return err
	})
	if err != nil {
		return err
	}
	return disk.Mark(fmt.Sprintf("%d %s", h.Seq, h.Hash))
}

// appendOnAFailingDisk appends, makes a sync fail, and dies of it. The operating system
// still shows the unsynced data to the next process.
func appendOnAFailingDisk(disk *disktest.Disk, path string) error {
	l, err := Open(context.Background(), Config{Path: path, Clock: time.Now})
	if err != nil {
		return err
	}
	for i := range 10 {
		if err := appendAndMark(disk, l, int64(i+1)); err != nil {
			return err
		}
	}
	if err := disk.Fail("sync"); err != nil {
		return err
	}
	if err := appendAndMark(disk, l, 11); err == nil {
		return errors.New("a sync failed and Write returned no error")
	}
	return disk.Heal()
}

// play runs a process that plays a part until it is killed.
func play(t *testing.T, disk *disktest.Disk, part, path string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), roleEnv+"="+part, pathEnv+"="+path), disk.Environment()...)
	killedByItself(t, cmd)
}

// cutPower cuts the power after the given number of events, opens what is left and reports
// acknowledged facts that are missing.
func cutPower(t *testing.T, events []disktest.Event, choose func(int) int) error {
	t.Helper()
	dir := t.TempDir()
	for name, content := range disktest.PowerCut(events, choose) {
		if filepath.Ext(name) == ".db-shm" {
			continue // shared memory is lost with the power
		}
		check(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	l, err := Open(t.Context(), Config{Path: filepath.Join(dir, "main.ledger.db"), Clock: ticking()})
	if err != nil {
		return fmt.Errorf("what is left cannot be opened: %w", err)
	}
	defer func() { check(t, l.Close()) }()
	if _, err := l.Verify(t.Context()); err != nil {
		return err
	}
	for _, e := range events {
		if e.Op != 'M' {
			continue
		}
		var seq int64
		var hash string
		_, err := fmt.Sscan(e.Name, &seq, &hash)
		check(t, err)
		if row, err := l.Row(t.Context(), seq); err != nil || row.Hash != hash {
			return fmt.Errorf("row %d was acknowledged and is not there: %w", seq, errors.Join(ErrNotFound, err))
		}
	}
	return nil
}

// Whenever the power fails, and whatever unsynced writes are on the disk, the ledger opens,
// verifies, and holds every fact whose commit was reported.
func TestAPowerCutLosesNothingThatWasAcknowledged(t *testing.T) {
	disk := disktest.New(t, "ledger.")
	play(t, disk, "synced", filepath.Join(t.TempDir(), "main.ledger.db"))
	events, err := disk.Events()
	check(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		at := rapid.IntRange(0, len(events)).Draw(rt, "the power fails at")
		if err := cutPower(t, events[:at], func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "of the disk") }); err != nil {
			rt.Fatal(err)
		}
	})
}

// With synchronous=NORMAL something must be lost, or the test above would not detect a loss
// either.
func TestAPowerCutShowsALedgerThatDoesNotSync(t *testing.T) {
	disk := disktest.New(t, "ledger.")
	play(t, disk, "hasty", filepath.Join(t.TempDir(), "main.ledger.db"))
	events, err := disk.Events()
	check(t, err)
	for i, e := range events {
		if e.Op != 'M' {
			continue
		}
		if err := cutPower(t, events[:i+1], func(int) int { return 0 }); errors.Is(err, ErrNotFound) {
			return
		}
	}
	t.Error("whenever the power is cut, nothing is missing")
}

// The log of the restarted ledger shows a commit that is not on the disk. Later facts must
// not be lost with it.
func TestAFailedSyncPowerCutAndRestartLoseNothing(t *testing.T) {
	disk := disktest.New(t, "ledger.")
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	play(t, disk, "struck", path)
	play(t, disk, "watched", path)
	events, err := disk.Events()
	check(t, err)
	struck := 0
	for i, e := range events {
		if e.Op == 'S' && !e.OK {
			struck = i
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		at := rapid.IntRange(struck, len(events)).Draw(rt, "the power fails at")
		if err := cutPower(t, events[:at], func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "of the disk") }); err != nil {
			rt.Fatal(err)
		}
	})
}
