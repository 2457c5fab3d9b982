// Reading archived rows from an archive next to the ledger. Only the content of a row needs
// the archive: money and accepted commands stay in the ledger.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/sqlite"
)

// ErrSealed is returned when an archive is opened for writing.
var ErrSealed = errors.New("it is an archive: nothing is added to it")

// ArchivedError is returned if a row is in an archive that is missing or cannot be read.
type ArchivedError struct {
	File     string // name of the archive
	Dir      string // directory that was searched
	FirstSeq int64
	LastSeq  int64
	Why      error // why the file cannot be read; nil if it is missing
}

// Error says what to do, in three lines.
func (e *ArchivedError) Error() string {
	text := fmt.Sprintf("journal rows %d to %d were archived to %s\nthe file is not in %s\nput it there, and ask again", e.FirstSeq, e.LastSeq, e.File, e.Dir)
	if e.Why != nil {
		text = fmt.Sprintf("journal rows %d to %d were archived to %s\nthe file in %s cannot be used: %v\nput the right one there, and ask again", e.FirstSeq, e.LastSeq, e.File, e.Dir, e.Why)
	}
	return text
}

// Unwrap returns Why.
func (e *ArchivedError) Unwrap() error { return e.Why }

// archiveCache keeps the opened archives, by file name.
type archiveCache struct {
	mu   sync.Mutex
	open map[string]*Ledger
}

func (s *archiveCache) close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.open {
		err = errors.Join(err, l.Close())
	}
	s.open = nil
	return err
}

// Begins returns the last archived row and its time; the file's journal starts after it. It
// returns nil if the journal starts with the first row.
func (l *Journal) Begins() (*chain.Head, time.Time) {
	if l.base == nil {
		return nil, time.Time{}
	}
	return &l.base.Head, sqlite.FromMicros(l.base.Time)
}

// archived reports whether a row was archived.
func (l *Journal) archived(seq int64) bool { return l.base != nil && seq <= l.base.Seq }

// archiveOf opens the archive that contains a row.
func (l *Journal) archiveOf(ctx context.Context, seq int64) (*Ledger, error) {
	var x ArchivedError
	var hash string
	err := l.read.QueryRowContext(ctx, `SELECT file, first_seq, last_seq, last_hash FROM archives
		WHERE first_seq <= ?1 AND last_seq >= ?1 ORDER BY seq DESC LIMIT 1`, seq).Scan(&x.File, &x.FirstSeq, &x.LastSeq, &hash)
	if err != nil {
		return nil, sqlite.NotFound(err)
	}
	l.archives.mu.Lock()
	defer l.archives.mu.Unlock()
	if a := l.archives.open[x.File]; a != nil {
		return a, nil
	}
	x.Dir = filepath.Dir(l.path)
	path := filepath.Join(x.Dir, x.File)
	if !exists(path) {
		return nil, &x
	}
	a, err := Open(ctx, Config{Path: path, Clock: l.clock, ReadOnly: true})
	if err != nil {
		x.Why = err
		return nil, &x
	}
	if h, err := sealOf(ctx, a.read); err != nil || h == nil || *h != (chain.Head{Seq: x.LastSeq, Hash: hash}) {
		x.Why = errors.Join(errors.New("it does not end with the row that was archived last"), err, a.Close())
		return nil, &x
	}
	if l.archives.open == nil {
		l.archives.open = map[string]*Ledger{}
	}
	l.archives.open[x.File] = a
	return a, nil
}

// archivedRows returns the archived rows of an accepted command or of one of its operations,
// in order. It finds none of a command that was refused on arrival.
func (l *Journal) archivedRows(ctx context.Context, subject string) (all []chain.Row, err error) {
	first, err := l.acceptedAt(ctx, subject)
	if err != nil || !l.archived(first) {
		return nil, err
	}
	for seq := first; l.archived(seq); {
		a, err := l.archiveOf(ctx, seq)
		if err != nil {
			return nil, err
		}
		rows, err := a.ownRowsOf(ctx, subject)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
		seq = a.tail.head.Seq + 1
	}
	return all, nil
}

// acceptedAt returns the sequence of the row that accepted a command, or the command of an
// operation. If there is none, it returns the sequence of the journal's last row.
func (l *Journal) acceptedAt(ctx context.Context, subject string) (seq int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT accepted_seq FROM commands
		WHERE id = ?1 OR id = (SELECT command_id FROM operations WHERE id = ?1) ORDER BY accepted_seq LIMIT 1`, subject).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) {
		return l.tail.head.Seq, nil
	}
	return seq, err
}
