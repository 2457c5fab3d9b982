package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"perennial/ledger/files"
	"perennial/queue/natstest"
)

func TestSecondProcessIsKeptOutOfTheDataDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	lock, err := Acquire(dir)
	natstest.Check(t, err)
	_, err = Acquire(dir)
	if !errors.Is(err, ErrLocked) || strings.Count(err.Error(), "\n") != 2 {
		t.Fatal(err)
	}
	natstest.Check(t, lock.Unlock())
	lock, err = Acquire(dir)
	natstest.Check(t, err)
	natstest.Check(t, lock.Unlock())
}

// A restart right after a kill -9 does not count as a second process.
func TestAStartWaitsForAKilledProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		before, err := Acquire(dir)
		natstest.Check(t, err)
		_, err = Await(t.Context(), dir, time.Second)
		if !errors.Is(err, ErrLocked) {
			t.Fatalf("after a second: %v", err)
		}
		started := make(chan error)
		go func() {
			lock, err := Await(t.Context(), dir, time.Second)
			if err == nil {
				err = lock.Unlock()
			}
			started <- err
		}()
		synctest.Wait()
		natstest.Check(t, before.Unlock())
		natstest.Check(t, <-started)
	})
}

// The lock file is created again. An older version locks only the file and may win the race; from
// then on the first holder knows that it lost the lock.
func TestARemovedLockLetsNobodyIn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	lock, err := Acquire(dir)
	natstest.Check(t, err)
	path := filepath.Join(dir, LockName)
	natstest.Check(t, lock.Check())
	natstest.Check(t, os.Remove(path))
	if _, err := Acquire(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("a second process: %v", err)
	}
	natstest.Check(t, lock.Check())
	if _, got, err := files.TryLock(path); got || err != nil {
		t.Errorf("the lock was not made again: %v", err)
	}
	natstest.Check(t, os.Remove(path))
	older, got, err := files.TryLock(path)
	if err != nil || !got {
		t.Fatal(got, err)
	}
	for range 2 {
		if err := lock.Check(); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
			t.Errorf("while an older version works there, and after it: %v", err)
		}
		natstest.Check(t, older.Unlock())
	}
	natstest.Check(t, lock.Unlock())
	lock, err = Acquire(dir)
	natstest.Check(t, err)
	natstest.Check(t, lock.Unlock())
}

// Whatever both processes do at the same moment, the one that lost the lock reports it.
func TestALockTakenWhileItIsLookedAtIsMissed(t *testing.T) {
	dir := t.TempDir()
	for range 300 {
		lock, err := Acquire(dir)
		natstest.Check(t, err)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for lock.Check() == nil {
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		path, unlock := filepath.Join(dir, LockName), func() error { return nil }
		for got := false; !got; {
			_ = os.Remove(path)
			older, now, err := files.TryLock(path)
			natstest.Check(t, err)
			if got = now; got {
				unlock = older.Unlock
			}
		}
		close(stop)
		<-done
		if err := lock.Check(); !errors.Is(err, ErrLocked) {
			t.Fatalf("an older version has the lock, and: %v", err)
		}
		natstest.Check(t, errors.Join(unlock(), lock.Unlock()))
	}
}

// The refusal is immediate.
func TestALockThatIsNoFileIsRefused(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link": func(path string) error { return os.Symlink("elsewhere", path) },
	} {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(dir, 0o700), put(filepath.Join(dir, LockName))); err != nil {
			t.Fatal(err)
		}
		if _, err := Acquire(dir); !errors.Is(err, files.ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
		if exists, _ := filepath.Glob(filepath.Join(dir, "elsewhere")); len(exists) > 0 {
			t.Error("the link was followed")
		}
	}
}
