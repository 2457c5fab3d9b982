// What one operation changed, and how it becomes durable.

package sandbox

import (
	"encoding/json"
	"strconv"
	"time"
)

// change is what one operation did: rows for the database and lines for the
// referee. It becomes durable as a whole.
type change struct {
	keep  bool // there is a database: rows are wanted
	rows  []row
	lines []byte
	nonce usedNonce // empty in most changes
}

// row is one upsert, or a removal when data is nil.
type row struct {
	kind, id string
	data     []byte
}

func (s *Server) newChange() *change { return &change{keep: s.db != nil} }

func (c *change) put(kind, id string, value any) {
	if !c.keep {
		return
	}
	data, _ := json.Marshal(value) // plain structs of this package
	c.rows = append(c.rows, row{kind, id, data})
}

func (c *change) remove(kind, id string) {
	if c.keep {
		c.rows = append(c.rows, row{kind: kind, id: id})
	}
}

// submit queues the change in the order of the state; called with the lock held.
func (s *Server) submit(c *change) uint64 {
	if len(c.rows) == 0 && len(c.lines) == 0 {
		return s.durable.last()
	}
	if c.keep {
		c.put("meta", "serial", strconv.FormatUint(s.st.serial, 10))
	}
	return s.durable.add(c)
}

// flush makes a batch durable: first the database, the referee's lines with it
// in the same transaction, then the referee's file.
func (s *Server) flush(batch []*change) error {
	size := 0
	for _, c := range batch {
		size += len(c.lines)
	}
	lines := make([]byte, 0, size)
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

// money moves a wallet and writes the referee's line. cents is negative for a
// charge; the caller has checked the balance.
func (s *Server) money(c *change, sp *space, line Charge, cents int64) {
	s.balanceChanges(sp)
	sp.balance += cents
	line.Kind, line.AmountCents = "refund", cents
	if cents < 0 {
		line.Kind, line.AmountCents = "charge", -cents
	}
	line.Environment, line.AccountID = sp.env, sp.accountID
	line.Time = s.now().Format(time.RFC3339Nano)
	c.lines = line.appendLine(c.lines)
}

type savedRecord struct {
	Space, Key string
	Hash       []byte
	State      recordState
	At         time.Time
	Status     int
	Code       string
	Body       []byte
}

func (s *Server) saveRecord(c *change, sp *space, key string, rec *record) {
	if c.keep {
		c.put("record", sp.id()+"/"+key, savedRecord{sp.id(), key, rec.hash[:], rec.state, rec.at, rec.status, rec.code, rec.body})
	}
}

type savedProxy struct {
	ID, Space, Offer, OrderNo string
	Index                     int
	Starts, Expires           time.Time
}

func (c *change) saveProxy(p *proxy) {
	if c.keep {
		c.put("proxy", p.id, savedProxy{p.id, p.space.id(), p.offer.OfferCode, p.orderNo, p.index, p.starts, p.expires})
	}
}

func (c *change) saveWallet(sp *space) {
	if c.keep {
		c.put("wallet", sp.id(), sp.balance)
	}
}
