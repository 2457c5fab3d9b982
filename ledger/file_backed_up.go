// When a ledger was last backed up: a note beside its file, so that the age of the backup
// can be watched.

package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"perennial/ledger/files"
)

// BackedUp says when a backup of a ledger was made, and up to which row.
type BackedUp struct {
	At   time.Time `json:"at"`
	Head Head      `json:"head"`
	File string    `json:"file"`
}

// backedUpPath is the note's file beside a ledger.
func backedUpPath(ledger string) string { return ledger + ".backup.json" }

// maxBackedUp bounds the note that is read.
const maxBackedUp = 1 << 16

// NoteBackup writes beside the ledger that a backup was made now, at out.
func (l *Ledger) NoteBackup(v Verified, out string) error {
	if at, err := filepath.Abs(out); err == nil {
		out = at
	}
	text, err := json.Marshal(BackedUp{At: l.clock().UTC(), Head: v.Head, File: out})
	if err == nil {
		err = writeBeside(backedUpPath(l.path), ".perennial-backed-up-*", func(path string) error {
			if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
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

// LastBackup is the last backup that was noted; zero where none was.
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
