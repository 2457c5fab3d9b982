package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/files"
	"perennial/ledger/sqlite"
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

// writeBeside calls do with a path in a new directory next to out, on the same file system. It
// first removes directories that killed processes left. At the end it removes the new directory.
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

// lockRoom locks a directory that writeBeside uses. alone is false if another process has locked
// the directory, or if locking fails. The lock ends with the process.
func lockRoom(dir string) (unlock func() error, alone bool) {
	lock, alone, err := files.TryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, false
	}
	return lock.Unlock, alone
}

// Moves a finished and closed file to its final place: it syncs the file, renames it, and syncs
// the rename. It refuses if SQLite's files of a previous ledger are still there. It syncs the
// directory before the rename, so that a removal of such files is on disk.
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

// These are the directory operations of keep and MoveAside. Tests replace them, and assume that a
// power cut leaves everything synced on disk, and possibly a part of what came later.
var names = struct {
	link, rename func(from, to string) error
	remove, sync func(path string) error
}{os.Link, os.Rename, os.Remove, syncFile}

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

func backedUpPath(ledger string) string { return ledger + ".backup.json" }

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

// LastBackup returns the last recorded backup. It returns the zero value if none is recorded.
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

// Restore rebuilds a ledger file. Once Replacing is called, no process may have the file
// open.
type Restore struct {
	Path  string           // path of the new ledger
	From  string           // a backup; "" to restore from the events only
	Clock func() time.Time // time of the restore's own facts
	AppID string           // App ID under which lost requests are assumed to have been sent
	// Follows restores a ledger that follows the stream. No epoch starts, no fact is added,
	// and nothing counts as lost.
	Follows bool
	// Replace moves an existing ledger to PATH.replaced-TIME.
	Replace bool
	// Replaces is the binding of the existing ledger. A ledger that follows the stream must
	// not replace one of another provider account. The zero value allows any account.
	Replaces fact.Binding
	// Replacing closes the existing ledger before it is moved. It is nil if the ledger is closed
	// already.
	Replacing func() error
	// Events yields the events of the stream, starting at a journal sequence. It is nil if there
	// is no stream. Without From it is required.
	Events func(first int64) iter.Seq2[[]byte, error]
	// Snapshot is the state to start with if there is no backup (From) and the stream does not
	// start with the first row. It is nil if there is no snapshot. One of the events must contain
	// the snapshot's hash.
	Snapshot *Snapshot
	// Content opens the written form of Snapshot.
	Content func() (io.ReadCloser, error)
}

// Restored is the result of a restore.
type Restored struct {
	Rows   int64 `json:"rows"`   // rows in the backup
	Events int64 `json:"events"` // rows folded from the stream after the backup
	// Snapshot is the row after which the journal starts, taken from the snapshot stored with the
	// stream. It is nil if no snapshot was used.
	Snapshot *chain.Head `json:"snapshot,omitempty"`
	Head     chain.Head  `json:"head"` // includes the facts of the restore
	Epoch    string      `json:"epoch"`
	Proven   bool        `json:"proven"` // the restored journal ends where the stream ends
	Replaced string      `json:"replaced,omitempty"`
}

// Run verifies the backup, folds the events after it, marks the file as restored and moves
// it into place. Before the move nothing has changed, except that an existing ledger was
// moved aside. Unless Follows is set, the account starts paused, and every unfinished
// operation counts as possibly sent. A gap, a wrong hash or a row that cannot be folded
// gives a *chain.BrokenError.
func (x Restore) Run(ctx context.Context) (out Restored, err error) {
	if x.Events == nil && x.From == "" {
		return out, errors.New("restore: neither a backup nor events are given")
	}
	if !x.Replace {
		if err := mustNotExist(x.Path); err != nil {
			return out, err
		}
	}
	err = writeBeside(x.Path, x.leftover(), func(path string) error {
		err := makeFile(path, func(singly bool) error {
			if err := x.copyBackup(ctx, path, &out); err != nil {
				return err
			}
			return x.foldEvents(ctx, path, singly, &out)
		})
		if err != nil {
			return err
		}
		if err := x.finish(ctx, path, &out); err != nil {
			return err
		}
		if x.Replacing != nil {
			if err := x.Replacing(); err != nil {
				return err
			}
		}
		if out.Replaced, err = MoveAside(x.Path, x.Clock()); err != nil {
			return err
		}
		return keep(path, x.Path)
	})
	return out, err
}

// leftover returns the pattern of the working directories that a killed Run leaves behind.
func (x Restore) leftover() string {
	if x.Follows {
		return ".perennial-follow-" + filepath.Base(x.Path) + "-*"
	}
	return ".perennial-restore-" + filepath.Base(x.Path) + "-*"
}

// notHalfRestored returns an error if the ledger does not exist because a restore was killed. A
// new ledger would not know what the backup knows.
func notHalfRestored(path string) error {
	left, _ := matching(filepath.Dir(path), Restore{Path: path}.leftover()) // if this fails, so does making the file
	_, statErr := os.Lstat(path)
	if len(left) == 0 || !errors.Is(statErr, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("open ledger: %s does not exist, because a restore of it was interrupted\nrun `perennial backup restore` again; to start with an empty ledger instead, remove %s", path, left[0])
}

func (x Restore) copyBackup(ctx context.Context, path string, out *Restored) error {
	if x.From == "" {
		return nil
	}
	if _, err := os.Stat(x.From); err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	if err := copyClosed(ctx, x.From, path); err != nil {
		return damagedBackup(x.From, err)
	}
	v, err := verifyCopy(ctx, path)
	if err != nil {
		return damagedBackup(x.From, fmt.Errorf("the backup %s is not restored: %w", x.From, err))
	}
	if v.Rows == 0 {
		return fmt.Errorf("%s holds no journal: it is not the backup of a ledger", x.From)
	}
	out.Rows, out.Head = v.Rows, v.Head
	return nil
}

func damagedBackup(from string, err error) error {
	if !ofDamage(err) {
		return err
	}
	return fmt.Errorf("%w\n%s is damaged: restore with `perennial backup restore --from-events --replace`, or with --from and another backup", err, from)
}

// foldEvents folds the events after the backup. If the stream is missing or ends before the
// last row of the backup, no event is added and the backup is not compared with the stream.
func (x Restore) foldEvents(ctx context.Context, path string, singly bool, out *Restored) (err error) {
	if x.Events == nil {
		return nil
	}
	f, err := newFold(ctx, path, singly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := x.beginWithSnapshot(f, out); err != nil {
		return err
	}
	var last chain.Row
	begins := f.at()
	seen := func(yield func(chain.Row, error) bool) {
		for r, err := range rowsOf(x.Events(max(begins.Seq, 1))) {
			if err == nil && last.Seq == 0 && r.Seq > begins.Seq+1 {
				err = x.beginsLater(begins, r.Seq)
			}
			last = r
			if !yield(r, err) {
				return
			}
		}
	}
	if out.Events, err = f.replay(notBefore(f.at(), seen)); err != nil {
		return err
	}
	if f.at().Seq == 0 {
		return errNothingPublished
	}
	out.Head, out.Proven = f.at(), last.Hash == f.at().Hash
	return nil
}

func (x Restore) beginWithSnapshot(f *fold, out *Restored) (err error) {
	if x.Snapshot == nil || x.From != "" {
		return nil
	}
	content, err := x.Content()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	out.Snapshot = &x.Snapshot.Head
	return f.beginFrom(content, *x.Snapshot)
}

// laterError reports rows that neither the restored ledger nor the stream contains, and what to
// do. It unwraps to the field gap.
type laterError struct {
	text string
	gap  *chain.BrokenError
}

func (e *laterError) Error() string { return e.text }

func (e *laterError) Unwrap() error { return e.gap }

func (x Restore) beginsLater(h chain.Head, first int64) error {
	text := fmt.Sprintf("the events stream begins with row %d", first)
	switch {
	case x.From != "":
		text = fmt.Sprintf("the backup %s ends with row %d and %s: what is between was archived, and its events were removed\n"+
			"restore with --from-events, which begins with the snapshot that is stored beside the stream, or", x.From, h.Seq, text)
	case h.Seq == 0:
		text += ", and no snapshot of what was before is stored beside it\nrestore"
	default:
		text += fmt.Sprintf(" and the snapshot beside it ends with row %d: events were removed by another program\nrestore", h.Seq)
	}
	return &laterError{
		text: fmt.Sprintf("%s with --from FILE, a backup whose head is row %d or later", text, first-1),
		gap:  &chain.BrokenError{Check: "chain", Seq: first, Detail: fmt.Sprintf("row %d is missing", h.Seq+1)},
	}
}

// Checks the new ledger and marks it as restored, unless it follows the stream.
func (x Restore) finish(ctx context.Context, path string, out *Restored) (err error) {
	l, err := Open(ctx, Config{Path: path, Clock: x.Clock, Follows: x.Follows})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := checkEnds(ctx, l.read, l.base, out.Head); err != nil { // a snapshot that no fact names
		return err
	}
	if x.Follows {
		return x.sameAccount(ctx, l)
	}
	return x.mark(ctx, l, out)
}

func (x Restore) sameAccount(ctx context.Context, l *Ledger) error {
	old := x.Replaces
	if old.AccountID == "" {
		return nil
	}
	b, err := l.Binding(ctx)
	if err == nil && (b.AccountID != old.AccountID || b.Environment != old.Environment || b.BaseURL != old.BaseURL) {
		err = fmt.Errorf("the events stream belongs to %s of %s at %s, and the ledger %s to %s of %s at %s: it is left as it is. Does nats.url name the servers of this installation?",
			b.AccountID, b.Environment, b.BaseURL, x.Path, old.AccountID, old.Environment, old.BaseURL)
	}
	return err
}

func (x Restore) mark(ctx context.Context, l *Ledger, out *Restored) error {
	last, err := l.Row(ctx, out.Head.Seq)
	if err != nil {
		return err
	}
	b, err := l.Binding(ctx)
	if err != nil {
		return err
	}
	from := "events"
	if x.From != "" {
		from = "backup"
	}
	out.Epoch = fmt.Sprintf("%x", sqlite.Micros(x.Clock()))
	err = l.Write(ctx, func(tx *Tx) error {
		// The table published describes the stream before the restore. It does not apply to the
		// restored history.
		if err := tx.exec(`DELETE FROM published`); err != nil {
			return err
		}
		return tx.Append(fact.LedgerOpened{
			AccountID: b.AccountID, Environment: b.Environment, BaseURL: b.BaseURL, Currency: b.Currency, Epoch: out.Epoch,
			Restored: &fact.Restoration{From: from, Since: last.Instant(), AppID: x.AppID, Proven: out.Proven},
		}, fact.AccountPaused{
			Scope: "account", Cause: CauseRestored,
			Detail: "the ledger was restored and may have forgotten what was sent after " + last.Instant().Format(time.RFC3339) + ": the provider's lists are compared with it first",
		})
	})
	if err != nil {
		return err
	}
	out.Head.Seq, out.Head.Hash, err = l.Head(ctx)
	return err
}

// besideIt lists the suffixes of a ledger file and of SQLite's files next to it. The newest
// commits may be only in the WAL.
var besideIt = []string{"", "-wal", "-shm"}

// replacedWith lists the suffixes of the files that a new ledger file replaces. SQLite would
// apply a rollback journal of the earlier file to the new one.
var replacedWith = append(slices.Clip(besideIt), "-journal")

// MoveAside renames a ledger file, and all SQLite's files next to it, to PATH.replaced-TIME. It
// returns the new name. It returns "" if there was no file. If the ledger is open, close it after
// this call: if it is closed before, SQLite removes the WAL. MoveAside does not open the file,
// because SQLite would remove the WAL of a torn file. Every file has its new name on disk before
// any file loses its old name.
func MoveAside(path string, at time.Time) (aside string, err error) {
	name := path + ".replaced-" + at.UTC().Format("20060102T150405.000000Z")
	for _, suffix := range replacedWith {
		err := names.link(path+suffix, name+suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("move the present ledger aside: %w", err)
		}
		aside = name
	}
	if err := names.sync(filepath.Dir(path)); err != nil {
		return "", fmt.Errorf("move the present ledger aside: %w", err)
	}
	for _, suffix := range replacedWith {
		if err := names.remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("move the present ledger aside: %w", err)
		}
	}
	return aside, nil
}
