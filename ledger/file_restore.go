// Restoring a ledger from a backup and the events after it.

package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

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
	// Replacing closes the existing ledger before it is moved; nil if it is closed already.
	Replacing func() error
	// Events yields the events of the stream, starting at a journal sequence; nil without a
	// stream. Without From it is required.
	Events func(first int64) iter.Seq2[[]byte, error]
	// Snapshot is the state to start with if there is no backup (From) and the stream does not
	// start with the first row; nil for none. One of the events must contain its hash.
	Snapshot *Snapshot
	// Content opens the written form of Snapshot.
	Content func() (io.ReadCloser, error)
}

// Restored is the result of a restore.
type Restored struct {
	Rows   int64 `json:"rows"`   // rows in the backup
	Events int64 `json:"events"` // rows folded from the stream after the backup
	// Snapshot is the row after which the journal starts, taken from the snapshot stored
	// with the stream; nil if no snapshot was used.
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
	err = writeBeside(x.Path, ".perennial-restore-*", func(path string) error {
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
		if out.Replaced, err = moveAside(x.Path, x.Clock()); err != nil {
			return err
		}
		return keep(path, x.Path)
	})
	return out, err
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

// damagedBackup adds other ways to restore to SQLite's error about a damaged file.
func damagedBackup(from string, err error) error {
	if !ofDamage(err) {
		return err
	}
	return fmt.Errorf("%w\n%s is damaged: restore with `perennial ledger restore --from-events --replace`, or with --from and another backup", err, from)
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

// beginWithSnapshot starts the fold with the snapshot if there is one and no backup.
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

// laterError reports rows that neither the restored ledger nor the stream contains, and
// what to do. It unwraps to the gap.
type laterError struct {
	text string
	gap  *chain.BrokenError
}

func (e *laterError) Error() string { return e.text }

func (e *laterError) Unwrap() error { return e.gap }

// beginsLater returns the error for a stream that starts after the restored rows.
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

// finish checks the new ledger and marks it as restored, unless it follows the stream.
func (x Restore) finish(ctx context.Context, path string, out *Restored) (err error) {
	if !x.Follows {
		return x.mark(ctx, path, out)
	}
	l, err := Open(ctx, Config{Path: path, Clock: x.Clock, Follows: true})
	if err != nil {
		return err
	}
	return errors.Join(checkEnds(ctx, l.read, l.base, out.Head), x.sameAccount(ctx, l), l.Close())
}

// sameAccount refuses events of another account than that of the replaced ledger.
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

// mark appends the facts of the restore.
func (x Restore) mark(ctx context.Context, path string, out *Restored) (err error) {
	l, err := Open(ctx, Config{Path: path, Clock: x.Clock})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := checkEnds(ctx, l.read, l.base, out.Head); err != nil { // a snapshot that no fact names
		return err
	}
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
		// The note describes the stream before the restore. It does not apply to the stream that
		// continues, in which history starts again. The output of the restore and a fact say so.
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

// MoveAside renames an unusable ledger file and SQLite's files next to it to
// PATH.replaced-TIME. It returns the new name, or "" if there was no file. If the ledger is
// open, close it after this call: if it is closed before, SQLite removes the WAL.
func MoveAside(path string, at time.Time) (aside string, err error) { return moveAside(path, at) }

// moveAside renames a ledger file with all that belongs to it. It returns the new name, or
// "" if there was no file. It does not open the file, because SQLite would remove the WAL of
// a torn file. Every part has its new name on disk before any part loses its old name.
func moveAside(path string, at time.Time) (aside string, err error) {
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
