package queue

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// lockFile is the name of the lock inside a data directory.
const lockFile = "perennial.lock"

// LockDir makes this process the only one that works in a data directory,
// which is created with mode 0700 if missing. The lock ends with unlock or
// with the process. The error is [ErrDirectoryLocked] when another process
// holds it, and says what, where and what to do in three lines.
func LockDir(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("the data directory %s may be written by other users (mode %04o): they could replace the ledger\nrun: chmod go-w %s", dir, info.Mode().Perm(), dir)
	}
	path := filepath.Join(dir, lockFile)
	lock := flock.New(path)
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if !got {
		return nil, fmt.Errorf("%w\n%s\nstop that process, or choose another directory with --data", ErrDirectoryLocked, path)
	}
	return lock.Unlock, nil
}
