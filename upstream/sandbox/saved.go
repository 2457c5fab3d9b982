// Durable changes, and loading of the state from the database.

package sandbox

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

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

// submit adds the change to the next commit, in the order of the state's changes. The caller
// holds the lock.
func (s *world) submit(c *change) uint64 {
	if len(c.rows) == 0 && len(c.lines) == 0 {
		return s.durable.last()
	}
	if c.hasDB {
		c.put("meta", "serial", strconv.FormatUint(s.st.serial, 10))
	}
	return s.durable.add(c)
}

// flush commits the state and the referee's lines to the database. It then appends the lines to
// the referee's file.
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
	s.quirks.balanceChanges(sp)
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

// identity is the data of the first start, which a sandbox keeps.
type identity struct {
	Fixture Fixture
	Epoch   time.Time
	Secret  []byte
}

// saved loads the state of an earlier run.
type saved struct {
	*world

	quirks *quirks
}

// load creates the state. A sandbox with a database keeps the fixture of its first start.
func (s *saved) load(f Fixture) error {
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

// identify loads the identity of the first start. At the first start, it stores the given
// identity.
func (s *saved) identify(id *identity) error {
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

func (s *saved) restore() error {
	err := errors.Join(s.restoreMeta(),
		restoring(s.world, "wallet", func(id string, cents int64) { s.st.spaces[id].balance = cents }),
		restoring(s.world, "frozen", func(id string, cents int64) { s.st.spaces[id].frozen = cents }),
		restoring(s.world, "account", func(id, status string) { *s.st.spaces[id+"/"+envSandbox].status = status }),
		restoring(s.world, "price", func(id string, cents int64) {
			account, offer, _ := strings.Cut(id, "/")
			s.st.spaces[account+"/"+envSandbox].prices[offer] = cents
		}),
		restoring(s.world, "stock", func(id string, n int64) { s.st.stock[id] = n }),
		restoring(s.world, "key", func(id string, revoked bool) { s.st.keys[id].revoked = revoked }),
		restoring(s.world, "record", func(_ string, v savedRecord) {
			rec := &record{savedRecord: v, durable: true}
			s.st.spaces[v.Space].records[v.Key] = rec
			s.st.expiring = append(s.st.expiring, rec)
		}),
		s.db.eachNonce(func(appID, nonce string, at time.Time) { s.st.keys[appID].nonces.use(nonce, at) }))
	if err != nil {
		return err
	}
	slices.SortFunc(s.st.expiring, func(a, b *record) int { return a.At.Compare(b.At) })
	if err := s.restoreProxies(); err != nil {
		return err
	}
	return s.restoreOrders()
}

func (s *saved) restoreMeta() error {
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
	return s.db.each(kind, func(id string, data []byte) error {
		var v T
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		do(id, v)
		return nil
	})
}

// sortedRows returns the stored values of a kind, sorted by index.
func sortedRows[T any](s *world, kind string, index func(T) int) (all []T, err error) {
	err = restoring(s, kind, func(_ string, v T) { all = append(all, v) })
	slices.SortFunc(all, func(a, b T) int { return index(a) - index(b) })
	return all, err
}

func (s *saved) restoreProxies() error {
	all, err := sortedRows(s.world, "proxy", func(v savedProxy) int { return v.Index })
	for _, v := range all {
		if p := s.st.proxies[v.ID]; p != nil {
			p.Starts, p.Expires = v.Starts, v.Expires
		} else {
			s.st.addProxy(&proxy{savedProxy: v, space: s.st.spaces[v.Space], offer: s.st.byCode[v.Offer]})
		}
	}
	return err
}

func (s *saved) restoreOrders() error {
	all, err := sortedRows(s.world, "order", func(v savedOrder) int { return v.Index })
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

// reconcileReferee appends lines that are in the database but, after a crash, not in the
// referee's file. The database commits the lines with the state before any reply. A file
// that the last start did not use gets all lines that it lacks.
func (s *saved) reconcileReferee() error {
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
