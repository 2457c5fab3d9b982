package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"perennial/ledger/files"
	"perennial/ledger/sleep"
)

// ErrLocked means that another process works in the data directory.
var ErrLocked = errors.New("the data directory is in use by another process")

// LockName is the name of the lock file in a data directory.
const LockName = "perennial.lock"

// Lock is a process's exclusive right to work in a data directory. It consists of two locks. All
// versions of the program take the lock on a file. The lock on the directory survives the
// removal of that file.
type Lock struct {
	path string
	dir  func() error // unlocks the directory

	mu   sync.Mutex
	lock fileLock
	file fs.FileInfo // the locked file; after a removal, another file may have its path
	lost error
}

type fileLock interface {
	Unlock() error
	Stat() (fs.FileInfo, error)
}

// Acquire locks a data directory for this process. It creates a missing directory with mode
// 0700. The lock lasts until Unlock or the end of the process. If another process has the lock,
// Acquire returns [ErrLocked] with the path of the lock and the remedy.
func Acquire(dir string) (*Lock, error) {
	if err := errors.Join(files.CheckParents(dir), files.OwnDirectory(dir)); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	l := &Lock{path: filepath.Join(dir, LockName)}
	whole, got := files.TryLockDirectory(dir)
	if got {
		l.dir = whole
		var err error
		if got, err = l.take(); err != nil {
			return nil, errors.Join(fmt.Errorf("lock data directory: %w", err), whole())
		}
	}
	if !got {
		err := fmt.Errorf("%w\n%s\nstop that process first (`perennial run`), or use another data_dir", ErrLocked, l.path)
		if l.dir != nil {
			err = errors.Join(err, l.dir())
		}
		return nil, err
	}
	return l, nil
}

// Await is like Acquire, but waits for another process to end. The parameter most limits the
// wait. A killed process keeps its lock until the kernel has cleaned up.
func Await(ctx context.Context, dir string, most time.Duration) (*Lock, error) {
	const again = 50 * time.Millisecond
	for left := most; ; left -= again {
		l, err := Acquire(dir)
		if !errors.Is(err, ErrLocked) || left <= 0 || sleep.For(ctx, again) != nil {
			return l, err
		}
	}
}

// take locks the file at the path of the lock. got is false if another process has locked that
// file.
func (l *Lock) take() (got bool, err error) {
	lock, got, err := files.TryLock(l.path)
	if !got || err != nil {
		return false, err
	}
	file, err := lock.Stat()
	if err != nil {
		return false, errors.Join(err, lock.Unlock())
	}
	l.lock, l.file = lock, file
	return true, nil
}

// Check returns an error if another process may also work in the directory. After the first
// such error, every call returns it. Check recreates a lock file that was removed.
func (l *Lock) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return l.lost
	}
	now, err := os.Stat(l.path)
	if err == nil && os.SameFile(now, l.file) || err != nil && !errors.Is(err, fs.ErrNotExist) { // another disk error does not show that the lock was removed
		return nil
	}
	before := l.lock
	switch got, err := l.take(); {
	case got:
		return before.Unlock()
	case err != nil:
		return fmt.Errorf("the lock %s was removed and cannot be made again: %w", l.path, err)
	}
	l.lost = fmt.Errorf("%w: its lock %s was removed while the program was running, and nothing more is written: "+
		"stop both processes, look whether the ledger is whole with `perennial ledger verify`, and start one", ErrLocked, l.path)
	return l.lost
}

// Unlock releases the lock.
func (l *Lock) Unlock() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.lock.Unlock(), l.dir())
}
