// File locks, each held by one process.

package files

import (
	"os"
	"syscall"

	"github.com/gofrs/flock"
)

// TryLock creates a file and locks it, unless another process holds the lock. The lock ends
// with Unlock, or with the process. Its Stat is of the locked file, even if another file
// now has the name. It refuses a link or a named pipe.
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

// TryLockDirectory locks a directory itself, which is not removed by mistake. On a file
// system without such locks every caller gets it.
func TryLockDirectory(dir string) (unlock func() error, got bool) {
	lock := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	got, err := lock.TryLock()
	return lock.Unlock, got || err != nil
}
