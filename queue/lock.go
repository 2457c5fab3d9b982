// The lock of a data directory.

package queue

import (
	"errors"
	"fmt"
	"path/filepath"

	"perennial/ledger/files"
)

// LockName is the name of the lock inside a data directory.
const LockName = "perennial.lock"

// LockDir makes this process the only one that works in a data directory,
// which is created with mode 0700 if missing. The lock ends with unlock or
// with the process. The error is [ErrDirectoryLocked] when another process
// holds it, and says what, where and what to do in three lines.
func LockDir(dir string) (unlock func() error, err error) {
	if err := errors.Join(files.CheckParents(dir), files.OwnDirectory(dir)); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	path := filepath.Join(dir, LockName)
	unlock, got, err := files.TryLock(path)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if !got {
		return nil, fmt.Errorf("%w\n%s\nstop that process, or choose another directory with --data", ErrDirectoryLocked, path)
	}
	return unlock, nil
}
