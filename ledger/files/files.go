// Package files opens files safely. Another user of the machine, or a mistake, may have replaced
// a file with something else. A named pipe blocks a program that opens it, and a link redirects a
// write to another file. A file or directory that others may write cannot be trusted.
//
// The package opens only regular files, limits the size of what it reads, writes through a
// temporary file and a rename, and checks modes.
package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/gofrs/flock"

	"perennial/ledger/fact"
)

// Open opens a regular file for reading. It never blocks.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = notRegular(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Check is an additional condition on a file for Read. path is the file's path, for errors.
type Check func(path string, info fs.FileInfo) error

// Read reads a regular file that passes the checks. The file may have at most as many bytes as
// most says.
func Read(path string, most int64, checks ...Check) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	for _, check := range checks {
		if err := check(path, info); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, most)}
	}
	return text, err
}

// Text returns a text without a byte order mark at its start (trap 76). It returns an error if
// the text is not UTF-8, or if Unprintable refuses a line. The text may be a secret, in which a
// user could not find an invisible wrong character. The error continues a sentence that begins
// with the text's name, and does not contain the text.
func Text(text []byte) ([]byte, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !utf8.Valid(text) {
		return nil, errors.New("is not text in UTF-8\nsave it as plain text in UTF-8")
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		shown := strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", " ")
		if why := fact.Unprintable(shown); why != "" {
			return nil, fmt.Errorf("%s in line %d\nwrite it again without that character, as plain text in UTF-8", why, n)
		}
	}
	return text, nil
}

// Write writes a file completely or not at all, through a temporary file. The file gets the
// mode regardless of the umask. If path is a link to a regular file, or to no file, the link
// is replaced and its target stays unchanged. Directories and special files are not
// replaced.
func Write(path string, mode fs.FileMode, write func(io.Writer) error) error {
	return put(path, func(f *os.File) error { return f.Chmod(mode) }, write)
}

// WriteLike is Write with the owner, group and mode of another file, so that the same users
// can read both.
func WriteLike(path, other string, write func(io.Writer) error) error {
	info, err := os.Stat(other)
	if err != nil {
		return err
	}
	return put(path, func(f *os.File) error {
		uid, gid := Owner(info)
		if mine, err := f.Stat(); err == nil {
			if u, g := Owner(mine); u == uid && g == gid {
				return f.Chmod(info.Mode().Perm())
			}
		}
		if err := f.Chown(uid, gid); err != nil {
			return fmt.Errorf("%s belongs to user %d and group %d, and %s would not\nrun the same command as that user, or as root: %w", other, uid, gid, path, err)
		}
		return f.Chmod(info.Mode().Perm())
	}, write)
}

// Owner returns the user and group of a file. Both are -1 if they are unknown.
func Owner(info fs.FileInfo) (uid, gid int) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid), int(stat.Gid)
	}
	return -1, -1
}

func put(path string, give func(*os.File) error, write func(io.Writer) error) error {
	if err := Regular(path); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = errors.Join(give(f), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Writable returns nil if Write can write a file at path. It creates and removes a temporary
// file in the same directory.
func Writable(path string) error {
	if err := Regular(path); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Make creates an empty file that only this user may read, unless path exists. If path
// exists, it returns the error of Regular.
func Make(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return Regular(path)
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// Regular returns an error if the path exists and is neither a regular file nor a link to
// one. A link to a missing file is allowed.
func Regular(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return notRegular(path, info)
}

// ErrTooLarge is returned by Read for a file that exceeds its limit.
var ErrTooLarge = errors.New("too large")

// ErrNotRegular is returned if a path is a named pipe, a device, a socket or a directory
// instead of a file.
var ErrNotRegular = errors.New("not a regular file")

func notRegular(path string, info fs.FileInfo) error {
	what := "a special file"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		what = "a directory"
	case mode&fs.ModeSymlink != 0:
		what = "a link"
	case mode&fs.ModeNamedPipe != 0:
		what = "a named pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is %s, %w", what, ErrNotRegular)}
}

// writableByOthers has the mode bits that permit the group and others to change a file's or
// directory's content.
const writableByOthers = 0o022

// OwnDirectory creates a missing directory that only this user may enter. If the directory
// exists, it returns the error of [CheckOwn].
func OwnDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return CheckOwn(dir)
}

// CheckOwn returns an error if the group or others may write a directory, because they could have
// changed its content. It does not check the owner.
func CheckOwn(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&writableByOthers != 0 {
		return fmt.Errorf("%s may be written by other users (mode %04o): they could replace what it holds\nrun: chmod go-w %s", dir, info.Mode().Perm(), dir)
	}
	return nil
}

// Free returns how many bytes an ordinary user may still write to a directory's file system.
func Free(dir string) (int64, error) {
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return int64(fs.Bavail) * int64(fs.Bsize), err //nolint:unconvert // the types differ between systems
}

// CloseDirectory is OwnDirectory, and also removes the permissions of group and others.
func CloseDirectory(dir string) error {
	if err := OwnDirectory(dir); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(dir, 0o700) //nolint:gosec // a directory
	}
	return err
}

// CheckParents returns an error if any user could move the path away and replace it. No directory
// above the path may be writable by others. This applies to the path as written and to the path
// with all links resolved. A sticky directory such as /tmp is allowed, because others may rename
// only their own files there. Group write permission is allowed, because a user often has a
// private group.
func CheckParents(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	resolved, err := resolvedParent(path)
	if err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(path), resolved} {
		for below := ""; dir != below; dir = filepath.Dir(dir) {
			if err := checkParent(path, dir); err != nil {
				return err
			}
			below = dir
		}
	}
	return nil
}

// resolvedParent returns the directory of a path with all links resolved. If the path is
// missing, it returns the nearest existing parent.
func resolvedParent(path string) (string, error) {
	if resolved, err := filepath.EvalSymlinks(path); !errors.Is(err, fs.ErrNotExist) {
		return filepath.Dir(resolved), err
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		resolved, err := filepath.EvalSymlinks(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return resolved, err
		}
	}
}

func checkParent(path, dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it will be created with mode 0700
	}
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o002 == 0 || info.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	return fmt.Errorf("%s is in %s, where every user may rename and replace it (mode %04o)\nrun: chmod o-w %s (or chmod +t %s), or choose another directory", path, dir, info.Mode().Perm(), dir, dir)
}

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
