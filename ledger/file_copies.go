// Backups and rebuilt ledgers. Each is written to a temporary file and then renamed into
// place. A note next to the ledger has the time of the last backup.

package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/failpoint"
	"perennial/ledger/files"
)

// Rebuild folds the journal into a new file at out, which must not exist, and compares every
// projection with the present one. If a projection differs, it returns a *chain.BrokenError
// and keeps the new file, whose projections follow from the journal. The table proxies is a
// cache and stays empty.
func (l *Ledger) Rebuild(ctx context.Context, out string) (v Verified, err error) {
	if err := mustNotExist(out); err != nil {
		return v, err
	}
	err = writeBeside(out, ".perennial-rebuild-*", func(path string) error {
		var differs error
		v, differs = l.foldInto(ctx, path, false)
		if broken, ok := errors.AsType[*chain.BrokenError](differs); differs != nil && (!ok || broken.Check != "projection") {
			return differs
		}
		return errors.Join(differs, keep(path, out))
	})
	return v, err
}

// Backup writes a verified copy of the ledger while the writer may be running. The copy
// shows the ledger at one moment. It gets its final name after it is complete, verified and
// synced. An existing file is replaced only with force.
func (l *Ledger) Backup(ctx context.Context, out string, force bool) (v Verified, err error) {
	if !force {
		if err := mustNotExist(out); err != nil {
			return v, err
		}
	}
	if err := files.Regular(out); err != nil {
		return v, err
	}
	err = writeBeside(out, ".perennial-backup-*", func(path string) error {
		if err := copyInto(ctx, l.path, path); err != nil {
			return err
		}
		failpoint.Reached(ctx, "backup.copied")
		if v, err = verifyCopy(ctx, path); err != nil {
			return fmt.Errorf("the copy of %s is not sound and was thrown away: %w", l.path, err)
		}
		if v.Head.Seq > 0 {
			row, err := l.Row(ctx, v.Head.Seq)
			if err != nil || row.Hash != v.Head.Hash {
				return errors.Join(fmt.Errorf("the copy ends with row %d %s, which %s does not hold", v.Head.Seq, v.Head.Hash, l.path), err)
			}
		}
		// Without a WAL the backup is a single file, and reading it creates no other files.
		if err := withoutWAL(path); err != nil {
			return err
		}
		failpoint.Reached(ctx, "backup.verified")
		return keep(path, out)
	})
	return v, err
}

// copyInto copies a ledger file with VACUUM INTO. The copy shows one moment and includes the
// WAL. A writer may be running.
func copyInto(ctx context.Context, from, to string) (err error) {
	if err := files.Regular(from); err != nil {
		return err
	}
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: from}).EscapedPath()+"?mode=ro&_busy_timeout=10000")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, `VACUUM INTO ?`, to); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return os.Chmod(to, 0o600)
}

// copyClosed copies a ledger file that no process writes to. If there is no WAL and no
// rollback journal, it copies the bytes, which takes a fraction of copyInto's time.
func copyClosed(ctx context.Context, from, to string) (err error) {
	for _, suffix := range []string{"-wal", "-journal"} {
		if exists(from + suffix) {
			return copyInto(ctx, from, to)
		}
	}
	if err := files.Regular(from); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// verifyCopy verifies a copy that no other process has open.
func verifyCopy(ctx context.Context, path string) (v Verified, err error) {
	l, err := Open(ctx, Config{Path: path, Clock: func() time.Time { return time.Unix(0, 0) }}) // the clock is not used: nothing is written
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return l.Verify(ctx)
}

// withoutWAL turns a closed ledger into a single file, until it is opened for writing
// again.
func withoutWAL(path string) (err error) {
	c, err := openConn("file:" + (&url.URL{Path: path}).EscapedPath())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return c.exec(`PRAGMA journal_mode = DELETE`)
}

func mustNotExist(path string) error {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(fmt.Errorf("%s: %w", path, fs.ErrExist), err)
}

// writeBeside calls do with a path in a new directory next to out, on the same file system.
// It first removes directories that killed processes left, and at the end its own.
func writeBeside(out, pattern string, do func(path string) error) (err error) {
	leftovers, err := matching(filepath.Dir(out), pattern)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range leftovers { // one that cannot be removed stays, and stops nothing
		if unlock, alone := lockRoom(dir); alone {
			_ = errors.Join(os.RemoveAll(dir), unlock())
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(out), pattern)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the directory %s does not exist", filepath.Dir(out))
		}
		return fmt.Errorf("make room beside %s: %w", out, err)
	}
	lock, alone, err := files.TryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return fmt.Errorf("make room beside %s: lock %s: %w", out, dir, err)
	}
	if !alone {
		return fmt.Errorf("make room beside %s: another process has taken %s", out, dir)
	}
	unlock := lock.Unlock
	defer func() { err = errors.Join(err, os.RemoveAll(dir), unlock()) }()
	return do(filepath.Join(dir, "ledger.db"))
}

// matching returns the entries of a directory whose names match a pattern. Unlike
// filepath.Glob, it takes the directory's path as it is.
func matching(dir, pattern string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if is, _ := filepath.Match(pattern, e.Name()); is {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

// lockRoom locks a directory of writeBeside. alone is false if another process has locked
// it, or if locking fails. The lock ends with the process.
func lockRoom(dir string) (unlock func() error, alone bool) {
	lock, alone, err := files.TryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, false
	}
	return lock.Unlock, alone
}

// keep moves a finished and closed file to its final place: it syncs the file, renames it,
// and syncs the rename. It refuses if SQLite's files of a previous ledger are still there.
// It syncs the directory before the rename, so that a removal of such files is on disk.
func keep(path, out string) error {
	if _, err := os.Stat(path + "-wal"); err == nil {
		return fmt.Errorf("%s was not closed: its newest part is in its -wal file", path)
	}
	// SQLite would apply these files of a previous ledger to the new one.
	for _, suffix := range replacedWith[1:] {
		if exists(out + suffix) {
			return fmt.Errorf("%s exists and belongs to another file: close what has %s open, or move both away", out+suffix, out)
		}
	}
	if err := errors.Join(syncFile(path), names.sync(filepath.Dir(out))); err != nil {
		return err
	}
	if err := names.rename(path, out); err != nil {
		return err
	}
	return names.sync(filepath.Dir(out))
}

// names has the directory operations of keep and moveAside; tests replace them. The tests
// assume that a power cut leaves everything synced on disk, and possibly a part of what came
// later.
var names = struct {
	link, rename func(from, to string) error
	remove, sync func(path string) error
}{os.Link, os.Rename, os.Remove, syncFile}

// syncFile syncs a file, or a directory's entries, to disk.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// BackedUp says when a ledger was backed up, and the last row of the backup.
type BackedUp struct {
	At   time.Time  `json:"at"`
	Head chain.Head `json:"head"`
	File string     `json:"file"`
}

// backedUpPath returns the path of the note next to a ledger file.
func backedUpPath(ledger string) string { return ledger + ".backup.json" }

// maxBackedUp limits the size of the note, in bytes.
const maxBackedUp = 1 << 16

// NoteBackup records, next to the ledger file, that a backup was written to out just now.
func (l *Ledger) NoteBackup(v Verified, out string) error {
	if at, err := filepath.Abs(out); err == nil {
		out = at
	}
	text, err := json.Marshal(BackedUp{At: l.clock().UTC(), Head: v.Head, File: out})
	if err == nil {
		err = writeBeside(backedUpPath(l.path), ".perennial-backed-up-*", func(path string) error {
			//nolint:gosec // the runner may be another user than who makes backups; nothing in it is secret
			if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
				return err
			}
			return keep(path, backedUpPath(l.path))
		})
	}
	if err != nil {
		return fmt.Errorf("note the backup: %w", err)
	}
	return nil
}

// LastBackup returns the last recorded backup, or the zero value.
func (l *Ledger) LastBackup() (b BackedUp, err error) {
	text, err := files.Read(backedUpPath(l.path), maxBackedUp)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return BackedUp{}, fmt.Errorf("read when the ledger was backed up: %w", err)
	}
	return b, nil
}
