// This file checks that only this user may write a directory, and checks the parents of a
// path.

package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// writableByOthers has the mode bits that permit the group and others to change a file's or
// directory's content.
const writableByOthers = 0o022

// OwnDirectory creates a missing directory that only this user may enter. If the directory
// exists and its group or others may write it, OwnDirectory returns an error, because they
// could have changed its content. It does not check the owner, and does not change the
// permission to read.
func OwnDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
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

// CheckParents returns an error if every user could move the path away and replace it.
// Others may not write any directory above it, neither as written nor with links resolved. A
// sticky directory such as /tmp is allowed, because others may rename only their own files
// there. Group write permission is allowed, because a user often has a private group.
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
