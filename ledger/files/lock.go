// The lock of a file, which one process holds.

package files

import (
	"os"
	"syscall"

	"github.com/gofrs/flock"
)

// TryLock takes the lock of a file, which it makes, unless another process has it. The
// lock ends with Unlock, or with the process. Its Stat is that of the file that is locked,
// also when another one has the name. A link or a named pipe in its place is refused.
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

// TryLockDirectory takes the lock of a directory itself, which nobody removes by mistake.
// Where the file system has no such lock, all get it.
func TryLockDirectory(dir string) (unlock func() error, got bool) {
	lock := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	got, err := lock.TryLock()
	return lock.Unlock, got || err != nil
}
