// This file has file locks, which one process at a time can hold.

package files

import (
	"os"
	"syscall"

	"github.com/gofrs/flock"
)

// TryLock locks a file, and creates it if it is missing. got is false if another process has
// the lock. The lock ends with Unlock, or with the process. The lock's Stat describes the
// locked file, even if another file now has its name. TryLock returns an error for a link or
// a named pipe.
func TryLock(path string) (lock *flock.Flock, got bool, err error) {
	if info, err := os.Lstat(path); err == nil {
		if err := notRegular(path, info); err != nil {
			return nil, false, err
		}
	}
	lock = flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDONLY|syscall.O_NONBLOCK), flock.SetPermissions(0o600))
	got, err = lock.TryLock()
	return lock, got && err == nil, err
}

// TryLockDirectory locks the directory itself, because a lock file in it could be removed by
// mistake. got is false only if another process has the lock. If locking fails, for example
// on a file system without such locks, every caller gets the lock.
func TryLockDirectory(dir string) (unlock func() error, got bool) {
	lock := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	got, err := lock.TryLock()
	return lock.Unlock, got || err != nil
}
