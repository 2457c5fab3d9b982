// Idempotency records.

package sandbox

import (
	"crypto/sha256"
	"time"
)

// retention is how long a completed record replays, by the sandbox's clock,
// counted from completion (assumed).
const retention = 24 * time.Hour

type recordState uint8

const (
	recordProcessing recordState = iota
	recordCompleted
	recordInterrupted
)

// record is one idempotency record. Its key is scoped to account and
// environment, over both POST routes (assumed).
type record struct {
	hash   [sha256.Size]byte
	state  recordState
	at     time.Time
	status int
	code   string
	body   []byte
	// durable is false until the commit that holds the operation is done:
	// meanwhile the record answers idempotency_processing.
	durable bool
}

type expiringRecord struct {
	space *space
	key   string
	at    time.Time
}

func bodyHash(path string, body []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(path))
	h.Write([]byte{0})
	h.Write(body)
	var out [sha256.Size]byte
	h.Sum(out[:0])
	return out
}

// known answers a request whose key has a record; called with the lock held.
func (s *Server) known(r *request, key string, hash [sha256.Size]byte) (reply, bool) {
	rec := r.key.space.records[key]
	if rec == nil {
		return reply{}, false
	}
	if s.forgotten(rec) {
		delete(r.key.space.records, key)
		return reply{}, false
	}
	switch {
	case rec.hash != hash:
		return s.refused(refuse("idempotency_key_conflict", "The key was used with a different body.")), true
	case rec.state == recordInterrupted:
		return s.refused(refuse("idempotency_unresolved", "An earlier request needs verification.")), true
	case rec.state == recordProcessing || !rec.durable:
		return s.refused(refuse("idempotency_processing", "The same operation is still in progress.")), true
	}
	return reply{status: rec.status, code: rec.code, body: rec.body, replayed: true}, true
}

// forgotten reports that a completed record is past its retention: its key is new.
func (s *Server) forgotten(rec *record) bool {
	return rec.state == recordCompleted && rec.durable && s.now().Sub(rec.at) >= retention
}

// complete stores the first response under its key, with the lock held, and
// returns what makes it replayable once it is durable.
func (s *Server) complete(r *request, key string, hash [sha256.Size]byte, out reply, interrupted bool, ch *change) func() {
	rec := &record{hash: hash, state: recordCompleted, at: s.now(), status: out.status, code: out.code, body: out.body}
	if interrupted {
		rec.state, rec.body = recordInterrupted, nil
	}
	sp := r.key.space
	sp.records[key] = rec
	s.forget(ch)
	s.st.expiring = append(s.st.expiring, expiringRecord{sp, key, rec.at})
	s.saveRecord(ch, sp, key, rec)
	return func() {
		s.st.mu.Lock()
		rec.durable = true
		s.st.mu.Unlock()
	}
}

// forget drops a few completed records past their retention.
func (s *Server) forget(ch *change) {
	now := s.now()
	for n := 0; n < 4 && len(s.st.expiring) > 0; n++ {
		e := s.st.expiring[0]
		if now.Sub(e.at) < retention {
			return
		}
		s.st.expiring = s.st.expiring[1:]
		rec := e.space.records[e.key]
		if rec != nil && s.forgotten(rec) {
			delete(e.space.records, e.key)
			ch.remove("record", e.space.id()+"/"+e.key)
		}
	}
}

// interrupt turns an existing record of the same body into an interrupted one.
func (s *Server) interrupt(sp *space, key string, hash [sha256.Size]byte) {
	rec := sp.records[key]
	if rec == nil || rec.hash != hash || s.forgotten(rec) {
		return
	}
	rec.state = recordInterrupted
	c := s.newChange()
	s.saveRecord(c, sp, key, rec)
	s.submit(c)
}
