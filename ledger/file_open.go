package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mattn/go-sqlite3" // also the driver, with SQLite compiled in
	"github.com/pressly/goose/v3"

	"perennial/ledger/chain"
	"perennial/ledger/failpoint"
	"perennial/ledger/files"
	"perennial/ledger/report"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Config says how to open a ledger.
type Config struct {
	// Path is the file's path, by convention <data_dir>/<account>.ledger.db.
	Path string
	// Clock returns the time of facts. It is required.
	Clock func() time.Time
	// MaxGroup is the maximum number of writes in one commit. Default 256.
	MaxGroup int
	// BusyTimeout is how long a commit waits for another process's lock on the file, such
	// as an operator's SQLite shell. Default 10 s.
	BusyTimeout time.Duration
	// Turns limits how many ledgers of one process write at once. Default: no limit.
	Turns *Turns
	// Committed is called after each group of writes, even a failed one, with the number of
	// writes and the duration.
	Committed func(writes int, took time.Duration)
	// ReadOnly opens an existing file, possibly while a writer is running. Write returns
	// ErrReadOnly.
	ReadOnly bool
	// Follows says that the journal is an external stream. Write appends facts only under Lead,
	// which publishes the facts first. Fold applies the facts of other runners.
	Follows bool
	// Held returns why this process has lost the lock on the file's directory. It returns nil
	// while the process has the lock. Without the lock nothing is written. Default: the lock is
	// never lost.
	Held func() error
	// Inspect, together with ReadOnly, also opens a file whose schema was changed, so that
	// Verify can report it and Rebuild can repair it. Other reads of such a file may be
	// wrong.
	Inspect bool
	// Copy says that the file is a backup or an archive, so that its damage is not reported as the
	// account's.
	Copy bool
}

// Ledger is the open ledger file of one account. Its methods are safe for concurrent use; a
// single writer makes all writes.
type Ledger struct {
	*Journal
	tables.Queries // reads, by subject

	temp     string // directory of Verify's second ledger
	guard    *guard // watches the file and SQLite's files next to it
	write    *conn
	requests chan *request
	closing  chan struct{}
	done     chan struct{}
	once     sync.Once
	maxGroup int
	turns    *Turns                     // shared within the process
	follows  bool                       // the journal is a stream
	leader   atomic.Pointer[Leadership] // nil while this ledger does not lead
	failing  atomic.Pointer[error]      // error of the last commit; nil if it succeeded
	busy     time.Duration              // how long a commit waits for another process's lock

	unbounded atomic.Pointer[error] // why the write-ahead log cannot be emptied
	logBound  int64                 // size of the log, in bytes, at which readers pause
	reached   func(point string)
	committed func(writes int, took time.Duration)
	revision  atomic.Int64
	working   atomic.Int64 // when the writer started its present group, in microseconds; 0: idle
}

// ErrNotFound is returned by reads if the ledger does not contain the requested entry.
var ErrNotFound = sqlite.ErrNone

// ErrClosed is returned by Write after Close.
var ErrClosed = errors.New("ledger is closed")

// ErrReadOnly is returned by Write on a ledger opened ReadOnly.
var ErrReadOnly = errors.New("ledger is open for reading only")

// Open opens or creates the ledger file, migrates it and checks its pragmas. If SQLite
// finds the file damaged, it returns a *DamagedError.
func Open(ctx context.Context, c Config) (*Ledger, error) {
	l, err := open(ctx, c)
	return l, c.withAdvice(c.asDamaged(err))
}

// withAdvice adds advice to an error about permissions, or about a directory that is read-only.
func (c Config) withAdvice(err error) error {
	failure, _ := errors.AsType[sqlite3.Error](err)
	switch {
	case errors.Is(err, fs.ErrPermission) || failure.SystemErrno == syscall.EACCES || failure.SystemErrno == syscall.EPERM:
		return fmt.Errorf("%w\nthe user of this process must own %s: use chown", err, c.Path)
	case c.ReadOnly && failure.Code == sqlite3.ErrCantOpen && files.Writable(c.Path) != nil:
		return fmt.Errorf("%w\nSQLite writes beside a ledger that is no backup, and %s cannot be written: copy the ledger, with its -wal if there is one, "+
			"to another directory, and use the copy", err, filepath.Dir(c.Path))
	}
	return err
}

func open(ctx context.Context, c Config) (*Ledger, error) {
	if c.MaxGroup == 0 {
		c.MaxGroup = 256
	}
	if c.BusyTimeout == 0 {
		c.BusyTimeout = 10 * time.Second
	}
	if c.Committed == nil {
		c.Committed = func(int, time.Duration) {}
	}
	if err := notHalfRestored(c.Path); err != nil {
		return nil, err
	}
	if c.ReadOnly {
		return openReadOnly(ctx, c)
	}
	failpoint.Reached(ctx, "ledger.migrating")
	write, err := openWriter(ctx, c.Path, c.BusyTimeout)
	if err != nil {
		return nil, err
	}
	failpoint.Reached(ctx, "ledger.migrated")
	if err := write.settleLog(); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", c.Path, err), write.close())
	}
	l := newLedger(ctx, c)
	l.write, l.maxGroup, l.busy, l.logBound = write, c.MaxGroup, c.BusyTimeout, logBound
	l.guard.held, l.requests, l.turns, l.committed = c.Held, make(chan *request, c.MaxGroup), c.Turns, c.Committed
	w, err := newWriter(write, l)
	if err == nil {
		err = l.readEnds(ctx)
	}
	if err == nil {
		_, err = l.guard.check() // records the files as they are now
	}
	if err != nil {
		return nil, errors.Join(err, l.read.Close(), write.close())
	}
	go w.run()
	return l, nil
}

func newLedger(ctx context.Context, c Config) *Ledger {
	guard := newGuard(c.Path)
	read := openReader(c.Path, guard)
	journal := &Journal{read: read, clock: c.Clock, path: c.Path, written: !c.ReadOnly}
	return &Ledger{
		Journal: journal, Queries: tables.New(read, journal), temp: filepath.Dir(c.Path), guard: guard,
		closing: make(chan struct{}), done: make(chan struct{}), reached: failpoint.Of(ctx), follows: c.Follows,
	}
}

func openReadOnly(ctx context.Context, c Config) (*Ledger, error) {
	if _, err := os.Stat(c.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open ledger %s: %w\nis --config or the data directory right? the first `perennial run` makes it", c.Path, fs.ErrNotExist)
	} else if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	for _, ending := range besideIt {
		if err := files.Regular(c.Path + ending); err != nil {
			return nil, fmt.Errorf("open ledger: %w", err)
		}
	}
	l := newLedger(ctx, c)
	close(l.done)
	if _, err := checkSchema(ctx, l.read, c.Path); err != nil && !c.inspects(err) {
		return nil, errors.Join(err, l.read.Close())
	}
	head, err := chain.LastRow(l.read.QueryRowContext(ctx, chain.LastRowQuery))
	l.tail = newTail(head)
	if err == nil {
		l.base, err = tables.BaseOf(ctx, l.read)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read ledger %s: %w", c.Path, err), l.read.Close())
	}
	return l, nil
}

// inspects reports whether to open the file in spite of its schema. A newer schema is
// always refused, because its meaning is unknown.
func (c Config) inspects(err error) bool {
	failure, ok := errors.AsType[*SchemaError](err)
	return ok && c.Inspect && failure.Difference != ""
}

// readEnds reads where the journal starts. It refuses to open an archive for writing.
func (l *Ledger) readEnds(ctx context.Context) (err error) {
	if l.base, err = tables.BaseOf(ctx, l.read); err != nil {
		return fmt.Errorf("open ledger %s: %w", l.path, err)
	}
	sealed, err := sealOf(ctx, l.read)
	if sealed != nil {
		err = ErrSealed
	}
	if err != nil {
		return fmt.Errorf("open ledger %s: %w", l.path, err)
	}
	return nil
}

// Failing returns why the last commit failed. It returns nil if the commit succeeded. Typical
// causes are a full disk and another process's lock on the file. A failed publication does not
// count. Reads continue.
func (l *Ledger) Failing() error {
	if why := l.failing.Load(); why != nil {
		return *why
	}
	return nil
}

// ReadOnly reports whether the last commit failed because SQLite has opened the file read-only, for
// example because it could not be written then. That lasts until the ledger is opened again. A file
// that was moved is another case: its failure has an extended code.
func (l *Ledger) ReadOnly() bool {
	failure, _ := errors.AsType[sqlite3.Error](l.Failing())
	return failure.ExtendedCode == sqlite3.ErrNoExtended(sqlite3.ErrReadonly)
}

// WorkingSince returns the start of the writer's present commit. It returns the zero time
// while the writer is idle or waits for NATS.
func (l *Ledger) WorkingSince() time.Time {
	if at := l.working.Load(); at != 0 {
		return sqlite.FromMicros(at)
	}
	return time.Time{}
}

// Revision returns a number that increases with each commit of facts. It also increases when a
// listing or a read shows that a proxy has changed. While it is unchanged, all answers about
// proxies are unchanged, except the times at which proxies were read. known is false for a ledger
// opened ReadOnly, because another process may write to the file.
func (l *Ledger) Revision() (n int64, known bool) { return l.revision.Load(), l.write != nil }

// Close stops the writer after its present commit and closes the file.
func (l *Ledger) Close() error {
	if x := l.leader.Load(); x != nil {
		x.lose(ErrClosed) // the writer may be waiting for an acknowledgement
	}
	l.once.Do(func() { close(l.closing) })
	<-l.done
	if l.write == nil {
		return errors.Join(l.read.Close(), l.archives.close())
	}
	return errors.Join(l.read.Close(), l.archives.close(), l.write.close())
}

// dsn returns the data source name, with pragmas that the driver applies to every connection. It
// does not set the pragma synchronous. The driver's default is NORMAL, and extra may set another
// value.
func dsn(path string, extra url.Values) string {
	v := url.Values{
		"_journal_mode":       {"WAL"},
		"_foreign_keys":       {"1"},
		"_recursive_triggers": {"1"},
		"_busy_timeout":       {"10000"},
		"_mutex":              {"no"}, // database/sql uses a connection in one goroutine at a time
	}
	maps.Copy(v, extra)
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + v.Encode()
}

// openWriter migrates the file and opens the connection that writes to it. Before it writes, it
// refuses a schema that is newer than the migrations, or that differs from the schema they make.
func openWriter(ctx context.Context, path string, busy time.Duration) (*conn, error) {
	if err := ownFile(path); err != nil {
		return nil, err
	}
	current, err := checkSchemaOfFile(ctx, path)
	if err != nil {
		return nil, err
	}
	source := dsn(path, url.Values{"_synchronous": {"FULL"}, "_txlock": {"immediate"}, "_cache_size": {"-16384"}, "_busy_timeout": {itoa(busy.Milliseconds())}})
	made := migrate
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		made = makeEmpty
	}
	if !current {
		if err := made(ctx, source); err != nil {
			return nil, fmt.Errorf("open ledger %s: %w", path, err)
		}
	}
	c, err := openConn(source)
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	if err := assertPragmas(c); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", path, err), c.close())
	}
	return c, nil
}

// ownFile creates a new ledger that only its user can read; SQLite gives its own files the
// same mode. For an existing file it removes the read permission of others. It refuses a
// file that others could write to, because they could have changed it.
func ownFile(path string) error {
	if err := files.Make(path); err != nil {
		return fmt.Errorf("open ledger: %w", err)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("open ledger: %w", err)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("open ledger %s: other users may write it (mode %04o)\nlook whether it is whole with `perennial ledger verify`, then run: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	return closeToOthers(path)
}

// closeToOthers removes the permissions of others from the ledger file and from SQLite's
// files next to it. It does not refuse a WAL or shared-memory file that others can write to:
// SQLite creates them with the mode of the ledger file, and a later chmod of the ledger file
// does not change them.
func closeToOthers(path string) error {
	for _, ending := range besideIt {
		if err := files.Regular(path + ending); err != nil {
			return fmt.Errorf("open ledger: %w", err)
		}
		info, err := os.Stat(path + ending)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(path+ending, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("open ledger: %w", err)
		}
	}
	return nil
}

func migrate(ctx context.Context, source string) (err error) {
	db, err := sql.Open("sqlite3", source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = withMigrations(db, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func withMigrations(db *sql.DB, do func(*goose.Provider) error) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, sub)
	if err != nil {
		return err
	}
	return do(provider)
}

// assertPragmas returns an error if the connection's pragmas would silently break a
// guarantee of the package.
func assertPragmas(c *conn) error {
	for pragma, want := range map[string]int64{"synchronous": 2, "foreign_keys": 1, "recursive_triggers": 1} {
		switch got, err := sqlite.Value[int64](c.QueryRow("PRAGMA " + pragma)); {
		case err != nil:
			return fmt.Errorf("read pragma %s: %w", pragma, err)
		case got != want:
			return fmt.Errorf("pragma %s is %d and must be %d", pragma, got, want)
		}
	}
	switch mode, err := sqlite.Value[string](c.QueryRow("PRAGMA journal_mode")); {
	case err != nil:
		return fmt.Errorf("read pragma journal_mode: %w", err)
	case mode != "wal":
		return fmt.Errorf("pragma journal_mode is %s and must be wal: the file system may not support it", mode)
	}
	return nil
}

func openReader(path string, g *guard) *sql.DB { return openDB(path, "ro", g) }

// openDB opens a file for queries only. g may be nil.
func openDB(path, mode string, g *guard) *sql.DB {
	// Do not set _journal_mode: an archive has no WAL and cannot get one.
	db := openGuarded(dsn(path, url.Values{"mode": {mode}, "_query_only": {"1"}, "_journal_mode": nil, "_stmt_cache_size": {"64"}}), g)
	db.SetMaxOpenConns(maxReaders)
	db.SetMaxIdleConns(maxReaders)
	return db
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// Report returns the books for statements and exports.
func (l *Ledger) Report() report.Books {
	return report.Books{Reader: l.Journal, DB: l.read, Clock: l.clock}
}
