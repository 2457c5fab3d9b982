// How a ledger file is opened, created and migrated, and its pragmas checked.

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
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver, with SQLite compiled in
	"github.com/pressly/goose/v3"

	"perennial/ledger/failpoint"
	"perennial/ledger/files"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Config opens a ledger.
type Config struct {
	// Path of the file, <data_dir>/<account>.ledger.db by custom.
	Path string
	// Clock gives the time of facts. It is required.
	Clock func() time.Time
	// MaxGroup is the most writers that share one commit. Default 256.
	MaxGroup int
	// BusyTimeout is how long a commit waits for another process's lock on the
	// file, such as a person's SQLite shell. Default 10 s.
	BusyTimeout time.Duration
	// Turns are shared by the ledgers of one process. Default: this one waits for no other.
	Turns *Turns
	// Committed hears of each commit of the writer: how many writes it held, and how long
	// it took. Default: nothing does.
	Committed func(writes int, took time.Duration)
	// ReadOnly opens an existing file beside a running writer: Write is refused.
	ReadOnly bool
	// Follows says that the journal is a stream elsewhere: Write appends facts only
	// under Lead, which publishes them first, and Fold takes those of others.
	Follows bool
	// Held is why this process does not have the file's directory for itself any more.
	// Nothing is written then. Default: it always has it.
	Held func() error
	// Inspect opens, with ReadOnly, also a file whose schema was changed, so that
	// Verify and Rebuild can say and mend what is wrong. Other reads of such a
	// file may be wrong.
	Inspect bool
}

// Ledger is one account's open ledger file. Its methods may be called from any
// goroutine; writes are put in one line by the writer.
type Ledger struct {
	*Journal
	queries // what reads, by subject

	temp     string // where Verify makes its second ledger
	guard    *guard // of the file, and of what SQLite keeps beside it
	write    *conn
	requests chan *request
	closing  chan struct{}
	done     chan struct{}
	once     sync.Once
	maxGroup int
	turns    *Turns                     // of its process
	follows  bool                       // the journal is a stream
	leader   atomic.Pointer[Leadership] // who appends to it, nil while none does
	failing  atomic.Pointer[error]      // of the last commit, nil when it succeeded
	busy     time.Duration              // how long a commit waits for another process's lock

	unbounded atomic.Pointer[error] // why the write-ahead log cannot be emptied
	logBound  int64                 // at how many bytes of it readers pause
	reached   func(point string)
	committed func(writes int, took time.Duration)
	working   atomic.Int64 // since when the writer is at one group, in microseconds; 0: it is not
}

// ErrNotFound is what reads return for an id that the ledger does not hold.
var ErrNotFound = errors.New("not in the ledger")

// ErrClosed is what Write returns after Close.
var ErrClosed = errors.New("ledger is closed")

// ErrReadOnly is what Write returns on a ledger opened ReadOnly.
var ErrReadOnly = errors.New("ledger is open for reading only")

// Open opens or creates the ledger file, migrates it and checks its pragmas. A
// file that SQLite finds damaged is a *DamagedError.
func Open(ctx context.Context, c Config) (*Ledger, error) {
	l, err := open(ctx, c)
	return l, asDamaged(c.Path, err)
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
	guard := newGuard(c.Path)
	guard.held = c.Held
	read := openReader(c.Path, guard)
	journal := &Journal{reading: reading{read}, clock: c.Clock, path: c.Path, written: true}
	l := &Ledger{
		Journal: journal, queries: queriesOf(journal), temp: filepath.Dir(c.Path), guard: guard, write: write, maxGroup: c.MaxGroup, busy: c.BusyTimeout, logBound: logBound,
		requests: make(chan *request, c.MaxGroup), closing: make(chan struct{}), done: make(chan struct{}), reached: failpoint.Of(ctx),
		follows: c.Follows, turns: c.Turns, committed: c.Committed,
	}
	w, err := newWriter(write, l)
	if err == nil {
		err = l.readEnds(ctx)
	}
	if err == nil {
		_, err = guard.check() // from here on the files are known
	}
	if err != nil {
		return nil, errors.Join(err, read.Close(), write.close())
	}
	go w.run()
	return l, nil
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
	guard := newGuard(c.Path)
	read := openReader(c.Path, guard)
	if _, err := checkSchema(ctx, read, c.Path); err != nil && !c.inspects(err) {
		return nil, errors.Join(err, read.Close())
	}
	journal := &Journal{reading: reading{read}, clock: c.Clock, path: c.Path}
	l := &Ledger{Journal: journal, queries: queriesOf(journal), temp: filepath.Dir(c.Path), guard: guard, closing: make(chan struct{}), done: make(chan struct{}), reached: failpoint.Of(ctx), follows: c.Follows}
	close(l.done)
	seq, hash, err := l.Head(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read ledger %s: %w", c.Path, err), read.Close())
	}
	l.tail = newTail(seq, hash)
	if l.base, err = baseOf(ctx, read); err != nil {
		return nil, errors.Join(fmt.Errorf("read ledger %s: %w", c.Path, err), read.Close())
	}
	return l, nil
}

// inspects reports whether the file is opened in spite of its schema. A newer one never
// is, since its meaning is not known.
func (c Config) inspects(err error) bool {
	failure, ok := errors.AsType[*SchemaError](err)
	return ok && c.Inspect && failure.Difference != ""
}

// readEnds reads where the journal begins, and refuses to write after the end
// of an archive.
func (l *Ledger) readEnds(ctx context.Context) (err error) {
	if l.base, err = baseOf(ctx, l.read); err != nil {
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

// Failing is why the last commit failed, nil when it did not: the disk is full,
// say, or another process holds the file's lock. Reads continue meanwhile.
func (l *Ledger) Failing() error {
	if why := l.failing.Load(); why != nil {
		return *why
	}
	return nil
}

// WorkingSince is since when the writer is at one commit; zero while it has none, or waits
// for its rows to be published.
func (l *Ledger) WorkingSince() time.Time {
	if at := l.working.Load(); at != 0 {
		return fromMicros(at)
	}
	return time.Time{}
}

// Close stops the writer after the commit it is in and closes the file.
func (l *Ledger) Close() error {
	if x := l.leader.Load(); x != nil {
		x.lose(ErrClosed) // the writer may wait for an acknowledgement
	}
	l.once.Do(func() { close(l.closing) })
	<-l.done
	if l.write == nil {
		return errors.Join(l.read.Close(), l.archives.close())
	}
	return errors.Join(l.read.Close(), l.archives.close(), l.write.close())
}

// dsn carries the pragmas: the driver applies them to every connection, and it
// would set synchronous to NORMAL on its own.
func dsn(path string, extra url.Values) string {
	v := url.Values{
		"_journal_mode":       {"WAL"},
		"_foreign_keys":       {"1"},
		"_recursive_triggers": {"1"},
		"_busy_timeout":       {"10000"},
		"_mutex":              {"no"}, // a connection of database/sql is used by one goroutine at a time
	}
	maps.Copy(v, extra)
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + v.Encode()
}

// openWriter migrates the file and opens the connection that writes it. A file
// whose schema is newer, or not as the migrations made it, is refused before
// anything is written.
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

// ownFile makes a new ledger one that only its user reads, as SQLite then makes the
// files beside it, and takes others' rights to read from one that is there. One that
// others may write is refused: they could have changed it.
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

// closeToOthers takes others' rights from the file and from what SQLite keeps beside
// it. A -wal or -shm that others could write holds nothing that the ledger's own file
// does not allow: SQLite gives them its mode, and they are left by a chmod of it.
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

// withMigrations runs do with the embedded migrations on a database.
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

// assertPragmas refuses a connection on which a promise of the package would
// silently not hold.
func assertPragmas(c *conn) error {
	for pragma, want := range map[string]int64{"synchronous": 2, "foreign_keys": 1, "recursive_triggers": 1} {
		var got int64
		if err := c.queryRow("PRAGMA " + pragma).Scan(&got); err != nil {
			return fmt.Errorf("read pragma %s: %w", pragma, err)
		}
		if got != want {
			return fmt.Errorf("pragma %s is %d and must be %d", pragma, got, want)
		}
	}
	var mode string
	if err := c.queryRow("PRAGMA journal_mode").Scan(&mode); err != nil {
		return fmt.Errorf("read pragma journal_mode: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("pragma journal_mode is %s and must be wal: the file system may not support it", mode)
	}
	return nil
}

func openReader(path string, g *guard) *sql.DB { return openDB(path, "ro", g) }

// openDB opens a file for queries alone; g may be nil.
func openDB(path, mode string, g *guard) *sql.DB {
	// Without _journal_mode: an archive has no WAL and cannot be given one.
	db := openGuarded(dsn(path, url.Values{"mode": {mode}, "_query_only": {"1"}, "_journal_mode": nil, "_stmt_cache_size": {"64"}}), g)
	db.SetMaxOpenConns(maxReaders)
	db.SetMaxIdleConns(maxReaders)
	return db
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
