package sandbox

import (
	"bytes"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"

	"perennial/ledger/files"
)

type store struct {
	db     *sql.DB
	synced int64 // the newest row of charges that is known to be in the referee's file
	last   int64 // the newest row of charges

	pruned time.Time // the last time that old nonces were deleted
}

const schema = `
CREATE TABLE IF NOT EXISTS state (kind TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (kind, id)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS nonces (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, batch BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS charges (seq INTEGER PRIMARY KEY, lines BLOB NOT NULL) STRICT;`

// openStore opens and locks the file. Without the lock, two sandboxes could write to one file,
// although each keeps its own state in memory.
func openStore(path string) (*store, error) {
	dsn := "file:" + path + "?_journal_mode=WAL&_synchronous=FULL&_txlock=immediate&_locking_mode=EXCLUSIVE&_busy_timeout=2000"
	if err := files.Make(path); err != nil { // SQLite creates its other files with the same mode
		return nil, fmt.Errorf("sandbox database: %w", err)
	}
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		return nil, fmt.Errorf("sandbox database: %w", err)
	}
	db.SetMaxOpenConns(1)
	st := &store{db: db}
	if err := st.prepare(); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("sandbox database %s: %w", path, err)
	}
	return st, nil
}

func (st *store) prepare() error {
	if _, err := st.db.Exec(schema); err != nil {
		return err
	}
	var synchronous int
	if err := st.db.QueryRow("PRAGMA synchronous").Scan(&synchronous); err != nil {
		return err
	}
	if synchronous != 2 {
		return errors.New("synchronous is not FULL")
	}
	if err := st.db.QueryRow("SELECT coalesce(max(seq),0) FROM charges").Scan(&st.last); err != nil {
		return err
	}
	_, err := st.decode("synced", &st.synced)
	return err
}

func (st *store) meta(id string) ([]byte, error) {
	var data []byte
	err := st.db.QueryRow("SELECT data FROM state WHERE kind='meta' AND id=?", id).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return data, err
}

func (st *store) decode(id string, into any) (known bool, err error) {
	data, err := st.meta(id)
	if err != nil || data == nil {
		return false, err
	}
	return true, json.Unmarshal(data, into)
}

// query scans each row into the given variables and calls do. do may keep the byte slices.
func (st *store) query(text string, into []any, do func() error, args ...any) error {
	rows, err := st.db.Query(text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// commit stores the changes in one transaction. It also stores how far the referee's file is
// known to contain the rows of charges.
func (st *store) commit(batch []*change) error {
	tx, err := st.db.Begin()
	if err != nil {
		return fmt.Errorf("sandbox database: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // without effect after the commit
	last, err := st.write(tx, batch)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("sandbox database: %w", err)
	}
	st.synced, st.last = st.last, last // the caller has already appended the lines of the previous batch
	return nil
}

func (st *store) write(tx *sql.Tx, batch []*change) (int64, error) {
	upsert, err := tx.Prepare("INSERT INTO state(kind,id,data) VALUES(?,?,?) ON CONFLICT(kind,id) DO UPDATE SET data=excluded.data")
	if err != nil {
		return 0, err
	}
	defer func() { _ = upsert.Close() }()
	last := st.last
	for _, c := range batch {
		for _, r := range c.rows {
			if r.data == nil {
				_, err = tx.Exec("DELETE FROM state WHERE kind=? AND id=?", r.kind, r.id)
			} else {
				_, err = upsert.Exec(r.kind, r.id, r.data)
			}
			if err != nil {
				return 0, err
			}
		}
		if len(c.lines) == 0 {
			continue
		}
		last++
		if _, err := tx.Exec("INSERT INTO charges(seq,lines) VALUES(?,?)", last, c.lines); err != nil {
			return 0, err
		}
	}
	if err := st.writeNonces(tx, batch); err != nil {
		return 0, err
	}
	_, err = upsert.Exec("meta", "synced", []byte(strconv.FormatInt(st.last, 10)))
	return last, err
}

func (st *store) writeNonces(tx *sql.Tx, batch []*change) error {
	var used [][2]string
	var at time.Time
	for _, c := range batch {
		if c.nonce.appID != "" {
			used, at = append(used, [2]string{c.nonce.appID, c.nonce.nonce}), c.nonce.at
		}
	}
	if used == nil {
		return nil
	}
	data, _ := json.Marshal(used) // never fails for printable ASCII
	if _, err := tx.Exec("INSERT INTO nonces(at,batch) VALUES(?,?)", at.UnixMilli(), data); err != nil {
		return err
	}
	if at.Sub(st.pruned) < time.Minute {
		return nil
	}
	st.pruned = at
	_, err := tx.Exec("DELETE FROM nonces WHERE seq < (SELECT seq FROM nonces WHERE at >= ? ORDER BY seq LIMIT 1)", at.Add(-nonceMemory).UnixMilli())
	return err
}

func (st *store) lines(after int64) (out [][]byte, err error) {
	var blob []byte
	err = st.query("SELECT lines FROM charges WHERE seq>? ORDER BY seq", []any{&blob}, func() error {
		out = slices.AppendSeq(out, bytes.Lines(blob))
		return nil
	}, after)
	return out, err
}

// change is the effect of one operation. It becomes durable completely or not at all.
type change struct {
	hasDB bool // whether the sandbox has a database
	rows  []row
	lines []byte
	nonce usedNonce // the zero value in most changes
}

type row struct {
	kind, id string
	data     []byte
}

func (s *world) newChange() *change { return &change{hasDB: s.db != nil} }

// put stores a value in a row. If value is nil, put removes the row.
func (c *change) put(kind, id string, value any) {
	if !c.hasDB {
		return
	}
	var data []byte
	if value != nil {
		data, _ = json.Marshal(value) // never fails for the plain structs in this package
	}
	c.rows = append(c.rows, row{kind, id, data})
}

func (s *world) submit(c *change) uint64 {
	if len(c.rows) == 0 && len(c.lines) == 0 {
		return s.durable.last()
	}
	if c.hasDB {
		c.put("meta", "serial", strconv.FormatUint(s.st.serial, 10))
	}
	return s.durable.add(c)
}

// flush commits to the database, and then appends to the referee's file.
func (s *world) flush(batch []*change) error {
	var lines []byte
	for _, c := range batch {
		lines = append(lines, c.lines...)
	}
	if s.db != nil {
		if err := s.db.commit(batch); err != nil {
			return err
		}
	}
	return s.referee.append(lines)
}

// money changes a wallet and adds a line for the referee. cents is negative for a charge. The
// caller has checked the balance.
func (s *writes) money(c *change, sp *space, line Charge, cents int64) {
	keepPast(s.world, &sp.past, new(sp.balance))
	sp.balance += cents
	line.Kind, line.AmountCents = "refund", cents
	if cents < 0 {
		line.Kind, line.AmountCents = "charge", -cents
	}
	line.Environment, line.AccountID = sp.env, sp.accountID
	line.Time = s.now().Format(time.RFC3339Nano)
	text, _ := jsonv2.Marshal(line) // never fails for text and numbers
	c.lines = append(append(c.lines, text...), '\n')
}

func (c *change) saveWallet(sp *space) { c.put("wallet", sp.id(), sp.balance) }

// identity is the data from the first start of a sandbox. All later starts use the same data.
type identity struct {
	Fixture Fixture
	Epoch   time.Time
	Secret  []byte
}

// load creates the state. A sandbox with a database keeps the fixture of its first start.
func (s *world) load(f Fixture) error {
	id := identity{f, s.clock().UTC().Truncate(time.Second), []byte(rand.Text())}
	if s.db != nil {
		if err := s.identify(&id); err != nil {
			return fmt.Errorf("sandbox database: %w", err)
		}
	}
	var err error
	if s.st, err = newState(id.Fixture, id.Epoch); err != nil {
		return fmt.Errorf("fixture: %w", err)
	}
	s.st.secret = id.Secret
	if s.db == nil {
		return nil
	}
	if err := s.restore(); err != nil {
		return fmt.Errorf("sandbox database: %w", err)
	}
	return s.reconcileReferee()
}

func (s *world) identify(id *identity) error {
	var first identity
	known, err := s.db.decode("identity", &first)
	if err != nil {
		return err
	}
	if !known {
		c := s.newChange()
		c.put("meta", "identity", id)
		return s.db.commit([]*change{c})
	}
	given, _ := json.Marshal(id.Fixture)
	stored, _ := json.Marshal(first.Fixture)
	if !bytes.Equal(given, stored) {
		s.log.Warn("the database keeps the fixture of its first start; the given one is not used")
	}
	*id = first
	return nil
}

func (s *world) restore() error {
	err := errors.Join(s.restoreMeta(),
		restoring(s, "wallet", func(id string, cents int64) { s.st.spaces[id].balance = cents }),
		restoring(s, "frozen", func(id string, cents int64) { s.st.spaces[id].frozen = cents }),
		restoring(s, "account", func(id, status string) { *s.st.spaces[id+"/"+envSandbox].status = status }),
		restoring(s, "price", func(id string, cents int64) {
			account, offer, _ := strings.Cut(id, "/")
			s.st.spaces[account+"/"+envSandbox].prices[offer] = cents
		}),
		restoring(s, "stock", func(id string, n int64) { s.st.stock[id] = n }),
		restoring(s, "key", func(id string, revoked bool) { s.st.keys[id].revoked = revoked }),
		restoring(s, "record", func(_ string, v savedRecord) {
			rec := &record{savedRecord: v, durable: true}
			s.st.spaces[v.Space].records[v.Key] = rec
			s.st.expiring = append(s.st.expiring, rec)
		}),
		s.restoreNonces())
	if err != nil {
		return err
	}
	slices.SortFunc(s.st.expiring, func(a, b *record) int { return a.At.Compare(b.At) })
	if err := s.restoreProxies(); err != nil {
		return err
	}
	return s.restoreOrders()
}

func (s *world) restoreMeta() error {
	var serial json.Number // stored as a string, because it may be too large for a JSON number
	var offset int64
	_, errSerial := s.db.decode("serial", &serial)
	_, errOffset := s.db.decode("offset", &offset)
	s.offset.Store(offset)
	if serial != "" && errSerial == nil {
		s.st.serial, errSerial = strconv.ParseUint(serial.String(), 10, 64)
	}
	return errors.Join(errSerial, errOffset)
}

func restoring[T any](s *world, kind string, do func(id string, v T)) error {
	var id string
	var data []byte
	return s.db.query("SELECT id, data FROM state WHERE kind=?", []any{&id, &data}, func() error {
		var v T
		if err := json.Unmarshal(data, &v); err != nil {
			return fmt.Errorf("%s %s: %w", kind, id, err)
		}
		do(id, v)
		return nil
	}, kind)
}

func (s *world) restoreNonces() error {
	var at int64
	var data []byte
	return s.db.query("SELECT at, batch FROM nonces ORDER BY seq", []any{&at, &data}, func() error {
		var used [][2]string
		if err := json.Unmarshal(data, &used); err != nil {
			return fmt.Errorf("nonces: %w", err)
		}
		for _, n := range used {
			s.st.keys[n[0]].nonces.use(n[1], time.UnixMilli(at))
		}
		return nil
	})
}

func sortedRows[T any](s *world, kind string, index func(T) int) (all []T, err error) {
	err = restoring(s, kind, func(_ string, v T) { all = append(all, v) })
	slices.SortFunc(all, func(a, b T) int { return index(a) - index(b) })
	return all, err
}

func (s *world) restoreProxies() error {
	all, err := sortedRows(s, "proxy", func(v savedProxy) int { return v.Index })
	for _, v := range all {
		if p := s.st.proxies[v.ID]; p != nil {
			p.Starts, p.Expires = v.Starts, v.Expires
		} else {
			s.st.addProxy(&proxy{savedProxy: v, space: s.st.spaces[v.Space], offer: s.st.byCode[v.Offer]})
		}
	}
	return err
}

func (s *world) restoreOrders() error {
	all, err := sortedRows(s, "order", func(v savedOrder) int { return v.Index })
	for _, v := range all {
		o := &order{savedOrder: v, space: s.st.spaces[v.Space]}
		o.space.orders = append(o.space.orders, o)
		s.st.orders[o.No] = o
		if o.Stage == stagePaid || o.Stage == stageProcuring {
			s.st.schedule(o)
		}
	}
	for _, sp := range s.st.spaces {
		for _, p := range sp.proxies {
			if o := s.st.orders[p.OrderNo]; o != nil {
				o.proxies = append(o.proxies, p)
			}
		}
	}
	return err
}

// reconcileReferee appends lines that are in the database but not in the referee's file. A crash
// can cause the difference, because the database commits the lines with the state before any
// reply. A file that the last start did not use gets all lines that it lacks.
func (s *world) reconcileReferee() error {
	after := s.db.synced
	path, err := s.db.meta("referee")
	if s.referee.file == nil || string(path) != s.referee.path {
		after = 0
	}
	lines, failed := s.db.lines(after)
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("sandbox database: %w", err)
	}
	missing, err := s.referee.missing(lines)
	if err != nil {
		return err
	}
	if err := s.referee.append(bytes.Join(missing, nil)); err != nil {
		return err
	}
	return s.db.commit([]*change{{hasDB: true, rows: []row{{"meta", "referee", []byte(s.referee.path)}}}})
}

// group makes items durable in their order, several items at a time. A caller of wait flushes
// all pending items. The callers that come during that flush share the next flush.
type group[T any] struct {
	flush func([]T) error

	mu      sync.Mutex
	pending []T
	added   uint64

	flushing sync.Mutex // held during a flush; guards the rest
	done     uint64
	closed   bool
	err      error // final: after a failed flush no later item may count as durable
}

var errClosed = errors.New("sandbox is closed")

func (g *group[T]) add(item T) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = append(g.pending, item)
	g.added++
	return g.added
}

func (g *group[T]) last() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.added
}

// wait returns nil when the item with number seq and all earlier items are durable.
func (g *group[T]) wait(seq uint64) error {
	g.flushing.Lock()
	defer g.flushing.Unlock()
	switch {
	case g.done >= seq:
		return nil
	case g.err != nil:
		return g.err
	case g.closed:
		return errClosed
	}
	g.mu.Lock()
	batch, upTo := g.pending, g.added
	g.pending = nil
	g.mu.Unlock()
	if g.err = g.flush(batch); g.err == nil {
		g.done = upTo
	}
	return g.err
}

// close flushes the remaining items. Later calls of wait return an error for new items.
func (g *group[T]) close() error {
	err := g.wait(g.last())
	g.flushing.Lock()
	defer g.flushing.Unlock()
	g.closed = true
	return err
}
