package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/files"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// Archive moves old journal rows into a separate file. No process may have the ledger open.
// All other tables stay complete, so that no command is forgotten and no sum changes
// (docs/decisions/0007).
type Archive struct {
	Path string // path of the ledger
	Dir  string // directory of the archive; "" for the ledger's own directory
	// Before is the instant before which rows are archived. The first row of an unfinished
	// command, and all rows after it, stay in the ledger.
	Before time.Time
	Clock  func() time.Time
	// Published is the last event of the stream. Rows after it stay.
	Published chain.Head
	// Keep is how many of the newest published rows always stay; the default is 4096. The
	// outbox compares some of them with the stream to find its position. An archive has at
	// least Keep/64 rows, so that the facts about one archiving do not cause another.
	Keep int64
}

// Archived is the result of archiving.
type Archived struct {
	File     string     `json:"file"`      // with its directory; "" if no row was archived
	FirstSeq int64      `json:"first_seq"` // first archived row
	LastSeq  int64      `json:"last_seq"`
	Head     chain.Head `json:"head"` // of the ledger
	// HeldBy is the unfinished work that kept rows in the ledger although they were old enough.
	HeldBy      string `json:"held_by,omitempty"`
	BytesBefore int64  `json:"bytes_before"`
	BytesAfter  int64  `json:"bytes_after"`
}

// archiveKeeps is the minimum age of archived rows. The program never needs older rows on
// its own.
const archiveKeeps = 7 * 24 * time.Hour

// InUseError reports that another process has the ledger file open.
type InUseError struct {
	Path string
	Err  error
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("another process has the ledger open: %v\n%s\nstop the runner and close every SQLite shell, then archive again", e.Err, e.Path)
}

func (e *InUseError) Unwrap() error { return e.Err }

// NoRoomError reports that archiving failed on a disk with too little free space. The ledger
// was not changed.
type NoRoomError struct {
	Dir         string
	Free, Takes int64 // bytes
	Err         error
}

func (e *NoRoomError) Error() string {
	first, _, _ := strings.Cut(e.Err.Error(), "\n") // the rest repeats this on a full disk
	return fmt.Sprintf("%s has %s free, and archiving takes up to %s there: nothing was changed\nmake room for %s more; --to DIR puts the archive on another disk\n%s",
		e.Dir, mib(e.Free), mib(e.Takes), mib(e.Takes-e.Free), first)
}

func (e *NoRoomError) Unwrap() error { return e.Err }

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// inRoom runs the function do, which writes at most takes bytes into dir. If do fails and the
// disk lacks the space, inRoom returns a *NoRoomError. The error of SQLite would mislead: it
// calls a file that was cut off by a full disk "malformed".
func inRoom(dir string, takes int64, do func() error) error {
	free, unknown := files.Free(dir)
	err := do()
	if err == nil || unknown != nil || free >= takes {
		return err
	}
	return &NoRoomError{Dir: dir, Free: free, Takes: takes, Err: err}
}

// Check refuses a cutoff that is more recent than the minimum age of archived rows
// (archiveKeeps).
func (x Archive) Check() error {
	if latest := x.Clock().Add(-archiveKeeps); x.Before.After(latest) {
		return fmt.Errorf("facts stay for %d days at least: archive what is before %s, or earlier", int(archiveKeeps.Hours()/24), latest.UTC().Format(time.DateOnly))
	}
	return nil
}

// Run archives old rows. It writes, syncs and verifies the archive, and gives the file its final
// name. Next it writes a new ledger that starts after the archive and agrees with the present
// ledger in every table. Finally one rename replaces the present ledger. If Run crashes before
// the rename, the ledger is unchanged, and another run completes the work.
func (x Archive) Run(ctx context.Context) (out Archived, err error) {
	if x.Keep == 0 {
		x.Keep = 4096
	}
	if x.Dir == "" {
		x.Dir = filepath.Dir(x.Path)
	}
	if err := x.Check(); err != nil {
		return out, err
	}
	hold, err := holdFile(ctx, x.Path)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, hold.release()) }()
	l, err := Open(ctx, Config{Path: x.Path, Clock: x.Clock, ReadOnly: true})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := x.sweep(ctx, l); err != nil {
		return out, err
	}
	out.BytesBefore, out.Head = sizeOf(x.Path), l.tail.head
	out.BytesAfter = out.BytesBefore
	boundary, heldBy, err := x.boundary(ctx, l)
	out.HeldBy = heldBy
	if err != nil || boundary == 0 {
		return out, err
	}
	if err := checkEnds(ctx, l.read, l.base, out.Head); err != nil {
		return out, err
	}
	sound := sync.OnceValue(func() error { return l.checkFile(ctx) })
	go func() { _ = sound() }() // runs while the rows are folded
	defer func() { _ = sound() }()
	failpoint.Reached(ctx, "archive.begun")
	if err := inRoom(x.Dir, out.BytesBefore, func() error { return x.writeArchive(ctx, l, boundary, sound, &out) }); err != nil {
		return out, err
	}
	failpoint.Reached(ctx, "archive.written")
	err = writeBeside(x.Path, x.leftover(ctx, l), func(path string) error {
		if err := inRoom(filepath.Dir(x.Path), out.BytesBefore, func() error { return x.writeLedger(ctx, l, path, &out) }); err != nil {
			return err
		}
		failpoint.Reached(ctx, "archive.ledger_verified")
		if err := errors.Join(l.Close(), hold.release()); err != nil {
			return err
		}
		return x.swap(path)
	})
	if err == nil {
		failpoint.Reached(ctx, "archive.swapped")
		out.BytesAfter = sizeOf(x.Path)
	}
	return out, err
}

// leftover returns the pattern of the working directories that a killed run of this ledger's
// archiving leaves behind.
func (x Archive) leftover(ctx context.Context, l *Ledger) string {
	b, _ := l.Binding(ctx)
	return ".archive-" + strings.TrimSuffix(filepath.Base(x.Path), ".db") + "-" + b.Epoch + "-*"
}

func (x Archive) sweep(ctx context.Context, l *Ledger) error {
	for _, dir := range []string{filepath.Dir(x.Path), x.Dir} {
		names, err := matching(dir, x.leftover(ctx, l))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, name := range names {
			if err := os.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// boundary returns the last row to archive. It returns 0 if no row can be archived. heldBy is the
// work that keeps later rows in the ledger.
func (x Archive) boundary(ctx context.Context, l *Ledger) (last int64, heldBy string, err error) {
	row, err := l.Row(ctx, x.Published.Seq)
	if err != nil || row.Hash != x.Published.Hash {
		return 0, "", fmt.Errorf("the events stream ends with row %d %s, which the ledger does not hold so: see `perennial ledger verify --against-events`: %w",
			x.Published.Seq, x.Published.Hash, errors.Join(ErrNotFound, err))
	}
	before, _, err := tables.HeadBefore(ctx, l.read, x.Before)
	if err != nil {
		return 0, "", err
	}
	last = min(before.Seq, x.Published.Seq-x.Keep)
	first, holder, err := firstUnfinished(ctx, l.read)
	if err != nil {
		return 0, "", err
	}
	if first <= last {
		last, heldBy = first-1, holder
	}
	behind := int64(0)
	if l.base != nil {
		behind = l.base.Seq
	}
	if last-behind < max(1, x.Keep/64) {
		return 0, heldBy, nil
	}
	return last, heldBy, nil
}

// firstUnfinished returns the first row of unfinished work, and describes the work. It returns
// math.MaxInt64 if there is no unfinished work. Unfinished work is an operation that has not
// ended or has an unanswered line, a plan whose commands may not all be published, a replacement
// whose order has not arrived, or the newest plan of a schedule if it needs approval. Older plans
// that need approval can be read from the archive.
func firstUnfinished(ctx context.Context, q sqlite.Queryer) (seq int64, name string, err error) {
	err = q.QueryRowContext(ctx, `SELECT seq, name FROM (
		SELECT c.accepted_seq AS seq, 'operation ' || o.id AS name FROM operations o JOIN commands c ON c.id = o.command_id
			WHERE o.live = 1 OR o.id IN (SELECT operation FROM lines WHERE claim = 1)
		UNION ALL SELECT seq, 'a sweep of ' || schedule FROM slots WHERE state = 'planned'
			OR state = 'held' AND plan = (SELECT n.plan FROM slots n WHERE n.schedule = slots.schedule ORDER BY n.slot_at DESC LIMIT 1)
		UNION ALL SELECT seq, 'the replacement of ' || proxy_id FROM replacements x WHERE NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = x.command_id)
			AND NOT EXISTS (SELECT 1 FROM rejections r WHERE r.id = x.command_id))
		ORDER BY seq, name LIMIT 1`).Scan(&seq, &name)
	if errors.Is(err, sql.ErrNoRows) {
		return math.MaxInt64, "", nil
	}
	return seq, name, err
}

func holdFile(ctx context.Context, path string) (*held, error) {
	if !exists(path) {
		return nil, fmt.Errorf("open ledger %s: %w: is --config or the data directory right?", path, os.ErrNotExist)
	}
	c, err := openWriter(ctx, path, time.Second)
	if err != nil {
		return nil, err
	}
	var busy, frames, moved int64
	err = c.QueryRow(`PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved)
	if err == nil && busy != 0 {
		err = errors.New("its write-ahead log is being read")
	}
	if err == nil {
		err = c.exec(`BEGIN IMMEDIATE`)
	}
	if err != nil {
		return nil, errors.Join(&InUseError{Path: path, Err: err}, c.close())
	}
	return &held{conn: c}, nil
}

type held struct{ conn *conn }

func (h *held) release() error {
	if h.conn == nil {
		return nil
	}
	c := h.conn
	h.conn = nil
	return errors.Join(c.exec(`ROLLBACK`), c.close())
}

// Replaces the present ledger with the new one. It refuses while a WAL exists, because SQLite
// would apply that WAL to the new file.
func (x Archive) swap(path string) error {
	for _, suffix := range replacedWith[1:] {
		if exists(x.Path + suffix) {
			return &InUseError{Path: x.Path, Err: fmt.Errorf("%s is still there", filepath.Base(x.Path+suffix))}
		}
	}
	info, err := os.Stat(x.Path)
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(path, info.Mode().Perm()), keep(path, x.Path))
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// writeArchive writes the rows to archive into a file. The file gets its final name after
// it is sealed, synced and verified from the disk. If an earlier run finished the file, it
// is verified again and used. sound returns what is wrong with the ledger's own file.
func (x Archive) writeArchive(ctx context.Context, l *Ledger, last int64, sound func() error, out *Archived) error {
	out.FirstSeq, out.LastSeq = 1, last
	if l.base != nil {
		out.FirstSeq = l.base.Seq + 1
	}
	name := fmt.Sprintf("%s.%d-%d.archive.db", strings.TrimSuffix(filepath.Base(x.Path), ".db"), out.FirstSeq, last)
	out.File = filepath.Join(x.Dir, name)
	row, err := l.Row(ctx, last)
	if err != nil {
		return err
	}
	ends := chain.Head{Seq: last, Hash: row.Hash}
	if exists(out.File) {
		if err := sound(); err != nil {
			return err
		}
		if err := x.verifyArchive(ctx, out.File, ends); err != nil {
			return fmt.Errorf("%s exists and is not what would be written: move it away: %w", out.File, err)
		}
		return errors.Join(syncFile(out.File), syncFile(x.Dir))
	}
	return writeBeside(out.File, x.leftover(ctx, l), func(path string) error {
		err := l.foldArchive(ctx, path, last)
		if err := cmp.Or(sound(), err); err != nil { // damage may have caused err, so it is reported first
			return err
		}
		failpoint.Reached(ctx, "archive.folded")
		if err := errors.Join(syncFile(path), x.verifyArchive(ctx, path, ends)); err != nil {
			return fmt.Errorf("the archive is not sound and was thrown away: %w", err)
		}
		return keep(path, out.File)
	})
}

// foldArchive builds the tables of the archive from the archived rows. They equal the ledger's
// tables after the last archived row.
func (l *Ledger) foldArchive(ctx context.Context, path string, last int64) error {
	return sqlite.Snapshot(ctx, l.read, func(tx *sql.Tx) error {
		return fillFile(ctx, path, false, func(f *fold) error {
			if err := f.beginAs(ctx, tx); err != nil {
				return err
			}
			if _, err := f.replay(journalOf(ctx, tx, 0, last)); err != nil {
				return err
			}
			if at := f.at(); at.Seq != last {
				return &chain.BrokenError{Check: "chain", Seq: at.Seq + 1, Detail: "the journal ends before it"}
			}
			return f.w.exec(`INSERT INTO seal (one, seq, hash) VALUES (1, ?, ?)`, f.at().Seq, f.at().Hash)
		})
	})
}

// verifyArchive reads a finished archive and checks SQLite's structures, the hash chain and
// the seal. A second fold is not needed, because the next ledger is folded from these tables
// and compared with the present one.
func (x Archive) verifyArchive(ctx context.Context, path string, ends chain.Head) (err error) {
	a, err := Open(ctx, Config{Path: path, Clock: x.Clock, ReadOnly: true, Copy: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	checked := make(chan error, 1)
	go func() { checked <- a.checkFile(ctx) }()
	err = a.endsAs(ctx, ends)
	if first := <-checked; first != nil {
		return first
	}
	return err
}

func (l *Ledger) endsAs(ctx context.Context, ends chain.Head) error {
	h := chain.Head{Hash: chain.Genesis}
	if l.base != nil {
		h = l.base.Head
	}
	return sqlite.Snapshot(ctx, l.read, func(tx *sql.Tx) error {
		var buf []byte
		for r, err := range journalOf(ctx, tx, 0, math.MaxInt64) {
			if err != nil {
				return err
			}
			if buf, err = h.FollowedBy(r, buf); err != nil {
				return err
			}
			h = r.Head()
		}
		sealed, err := sealOf(ctx, tx)
		if err == nil && (sealed == nil || *sealed != ends || h != ends) {
			err = fmt.Errorf("it ends with row %d %s instead of %d %s", h.Seq, h.Hash, ends.Seq, ends.Hash)
		}
		return err
	})
}

// writeLedger builds the ledger that starts after the archive, compares every table with
// the present ledger, appends ledger.archived and verifies the result.
func (x Archive) writeLedger(ctx context.Context, l *Ledger, path string, out *Archived) (err error) {
	a, err := Open(ctx, Config{Path: out.File, Clock: x.Clock, ReadOnly: true, Copy: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b, err := l.foldBehind(ctx, a, path)
	if err != nil {
		return err
	}
	next, err := Open(ctx, Config{Path: path, Clock: x.Clock})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, next.Close()) }()
	book, err := a.Money.Balance(ctx, "")
	if err != nil {
		return err
	}
	ends, err := l.monthEnds(ctx, out.LastSeq)
	if err != nil {
		return err
	}
	err = next.Write(ctx, func(tx *Tx) error {
		return tx.Append(fact.LedgerArchived{
			Before: x.Before.UTC(), FirstSeq: out.FirstSeq, LastSeq: b.Seq, LastHash: b.Hash, LastTime: sqlite.FromMicros(b.Time),
			SnapshotHash: b.SnapshotHash, File: filepath.Base(out.File), Currency: book.Currency, WalletCents: book.WalletCents,
			ChargedCents: book.ChargedCents, RefundedCents: book.RefundedCents, SuspenseCents: book.SuspenseCents,
			FundingCents: book.FundingCents, ExternalCents: book.ExternalCents, MonthEnds: ends,
		})
	})
	if err != nil {
		return err
	}
	failpoint.Reached(ctx, "archive.ledger_folded")
	if _, err := next.Verify(ctx); err != nil {
		return fmt.Errorf("the new ledger is not sound and was thrown away: %w", err)
	}
	was, err := l.Money.Balance(ctx, "")
	if err != nil {
		return err
	}
	is, err := next.Money.Balance(ctx, "")
	out.Head, was.Head = is.Head, is.Head
	if err == nil && was != is {
		err = fmt.Errorf("the new ledger was thrown away: its balance is %+v instead of %+v", is, was)
	}
	return err
}

// foldBehind folds the rows after an archive, starting with its snapshot, and copies the
// caches. It compares every table with the present ones.
func (l *Ledger) foldBehind(ctx context.Context, a *Ledger, path string) (b *tables.Base, err error) {
	with, err := l.compare(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, with.end()) }()
	err = sqlite.Snapshot(ctx, a.read, func(begin *sql.Tx) error {
		return fillFile(ctx, path, false, func(f *fold) (err error) {
			if b, err = f.beginBehind(ctx, begin, a.path); err != nil {
				return err
			}
			if _, err := f.replay(journalOf(ctx, with.tx, b.Seq, math.MaxInt64)); err != nil {
				return err
			}
			return f.takeCaches(ctx, with.tx)
		})
	})
	if err != nil {
		return nil, err
	}
	return b, with.compare(ctx, path, projections)
}

// takeCaches copies the tables that no fact fills: the provider's proxies, their moves, and the
// table named published. The listing starts again.
func (f *fold) takeCaches(ctx context.Context, q sqlite.Queryer) error {
	return f.w.inTransaction(func() error {
		for _, table := range []string{"proxies", "moves", "published"} {
			query, columns, err := snapshotQuery(ctx, q, table)
			if err == nil {
				err = cut(ctx, q, query, chunk{table: table, columns: columns}, f.fill)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

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

func (e *ArchivedError) Error() string {
	text := fmt.Sprintf("journal rows %d to %d were archived to %s\nthe file is not in %s\nput it there, and ask again", e.FirstSeq, e.LastSeq, e.File, e.Dir)
	if e.Why != nil {
		text = fmt.Sprintf("journal rows %d to %d were archived to %s\nthe file in %s cannot be used: %v\nput the right one there, and ask again", e.FirstSeq, e.LastSeq, e.File, e.Dir, e.Why)
	}
	return text
}

func (e *ArchivedError) Unwrap() error { return e.Why }

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

func (l *Journal) archived(seq int64) bool { return l.base != nil && seq <= l.base.Seq }

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
	a, err := Open(ctx, Config{Path: path, Clock: l.clock, ReadOnly: true, Copy: true})
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

// archivedRows returns the archived rows of an accepted command or of one of its operations, in
// order. For a command that was refused on arrival, it finds no rows.
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

// acceptedAt returns the sequence of the row that accepted a command. For an operation, it looks
// up the operation's command. If there is no such row, it returns the sequence of the journal's
// last row.
func (l *Journal) acceptedAt(ctx context.Context, subject string) (seq int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT accepted_seq FROM commands
		WHERE id = ?1 OR id = (SELECT command_id FROM operations WHERE id = ?1) ORDER BY accepted_seq LIMIT 1`, subject).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) {
		return l.tail.head.Seq, nil
	}
	return seq, err
}

// checkEnds checks that an archive ends where it was sealed. If a ledger starts with a
// snapshot, checkEnds checks that a ledger.archived fact has the snapshot's hash. Whether a
// file starts where the previous one ends is checked by joins.
func checkEnds(ctx context.Context, q sqlite.Queryer, b *tables.Base, h chain.Head) error {
	sealed, err := sealOf(ctx, q)
	if err != nil {
		return err
	}
	switch {
	case sealed != nil && *sealed != h:
		return &chain.BrokenError{Check: "archive", Seq: h.Seq, Detail: fmt.Sprintf("the archive ends here and was sealed with row %d %s", sealed.Seq, sealed.Hash)}
	case sealed != nil || b == nil:
		return nil
	}
	// Check the fact itself, because the table may come from the snapshot.
	found, err := sqlite.Found(q.QueryRowContext(ctx, `SELECT count(*) FROM archives a CROSS JOIN journal j ON j.seq = a.seq AND j.type = 'ledger.archived'
		WHERE j.data ->> '$.last_seq' = ? AND j.data ->> '$.last_hash' = ? AND j.data ->> '$.snapshot_hash' = ?`,
		b.Seq, b.Hash, b.SnapshotHash))
	if err == nil && !found {
		err = &chain.BrokenError{Check: "archive", Seq: b.Seq + 1, Detail: "no ledger.archived in the journal says that what is before this row went to an archive"}
	}
	return err
}

func sealOf(ctx context.Context, q sqlite.Queryer) (*chain.Head, error) {
	var h chain.Head
	err := q.QueryRowContext(ctx, `SELECT seq, hash FROM seal`).Scan(&h.Seq, &h.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // most files are not archives
	}
	return &h, err
}

// VerifyWith verifies the ledger together with its archives. Each archive must be sound,
// start where the previous one ends, and have the projections of its last row. The last
// archive must end where the ledger starts. If all archives are given, VerifyWith verifies
// the history from the first row, and Verified.Behind is nil.
func (l *Ledger) VerifyWith(ctx context.Context, files ...string) (v Verified, err error) {
	archives, err := openArchives(ctx, l.clock, files)
	defer func() {
		for _, a := range archives {
			err = errors.Join(err, a.Close())
		}
	}()
	if err != nil {
		return v, err
	}
	for i, a := range archives {
		a.temp = l.temp
		one, err := a.Verify(ctx)
		if err != nil {
			return v, fmt.Errorf("archive %s: %w", a.path, err)
		}
		if i == 0 {
			v.Behind = one.Behind
		}
		v.Rows += one.Rows
		next := l
		if i+1 < len(archives) {
			next = archives[i+1]
		}
		if err := a.joins(ctx, next); err != nil {
			return v, err
		}
	}
	own, err := l.Verify(ctx)
	v.Backdated = own.Backdated
	if v.Rows, v.Head = v.Rows+own.Rows, own.Head; own.Behind == nil {
		v.Rows, v.Behind = own.Rows, nil // a ledger that was rebuilt from the events contains the archived rows
	}
	if len(archives) == 0 {
		v.Behind = own.Behind
	}
	return v, err
}

// openArchives opens archives for reading, ordered by their rows.
func openArchives(ctx context.Context, clock func() time.Time, files []string) (archives []*Ledger, err error) {
	for _, file := range files {
		a, err := Open(ctx, Config{Path: file, Clock: clock, ReadOnly: true, Inspect: true, Copy: true})
		if err != nil {
			return archives, err
		}
		archives = append(archives, a)
		if sealed, err := sealOf(ctx, a.read); err != nil || sealed == nil {
			return archives, errors.Join(fmt.Errorf("%s is not an archive: `perennial backup archive` writes one", file), err)
		}
	}
	slices.SortFunc(archives, func(a, b *Ledger) int { return int(a.tail.head.Seq - b.tail.head.Seq) })
	for i := range len(archives) - 1 {
		if a, b := archives[i], archives[i+1]; a.tail.head.Seq == b.tail.head.Seq {
			return archives, fmt.Errorf("%s and %s hold the same rows: name each archive once", a.path, b.path)
		}
	}
	return archives, nil
}

// Checks that the next file starts where this one ends. A ledger that was rebuilt from the events
// contains the archived rows itself, and must agree with the archive.
func (l *Ledger) joins(ctx context.Context, next *Ledger) error {
	seq, hash, err := l.Head(ctx)
	if err != nil {
		return err
	}
	if next.base == nil {
		row, err := next.Row(ctx, seq)
		if err != nil && !errors.Is(err, ErrNotFound) || row.Hash == hash {
			return err
		}
		return &chain.BrokenError{Check: "archive", Seq: seq, Detail: fmt.Sprintf("%s ends with a row that %s does not hold", l.path, next.path)}
	}
	if next.base.Seq != seq || next.base.Hash != hash {
		return &chain.BrokenError{Check: "archive", Seq: seq, Detail: fmt.Sprintf("%s ends here with %s and %s begins after row %d %s: is one missing?",
			l.path, hash, next.path, next.base.Seq, next.base.Hash)}
	}
	return sqlite.Snapshot(ctx, l.read, func(tx *sql.Tx) error {
		for _, left := range []string{leftOfRows, leftWithoutRefunds, leftWithoutIDs, leftWithoutUsers, leftWithoutNames} {
			sum, err := snapshotOf(ctx, tx, left, func(chunk) error { return nil })
			if err != nil || sum == next.base.SnapshotHash {
				return err
			}
		}
		return &chain.BrokenError{Check: "archive", Seq: seq, Detail: fmt.Sprintf("%s ends with other tables than %s begins with", l.path, next.path)}
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
