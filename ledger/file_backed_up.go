// The time of the last backup: a note next to the ledger file, for monitoring.

package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/files"
)

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
