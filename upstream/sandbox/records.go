// Idempotency records.

package sandbox

import (
	"bytes"
	"crypto/sha256"
	"time"
)

// retention is the lifetime of a completed record, by the sandbox's clock (assumed).
const retention = 24 * time.Hour

type recordState uint8

const (
	recordProcessing recordState = iota
	recordCompleted
	recordInterrupted
)

// record is an idempotency record. Both POST routes share the keys of an account in an
// environment (assumed).
type record struct {
	savedRecord

	// durable becomes true after the commit of the operation. Before the commit, the record
	// replies idempotency_processing.
	durable bool
}

// savedRecord is the part of a record that the database stores.
type savedRecord struct {
	Space, Key string
	Hash       []byte
	State      recordState
	At         time.Time
	Status     int
	Code       string
	Body       []byte
}

func (c *change) saveRecord(rec *record) { c.put("record", rec.Space+"/"+rec.Key, rec.savedRecord) }

func bodyHash(path string, body []byte) []byte {
	sum := sha256.Sum256(append([]byte(path+"\x00"), body...))
	return sum[:]
}

// known returns the reply to a request whose key has a record. It returns false if the key
// has no record, or if the retention of its record has passed. The caller holds the lock.
func (s *writes) known(r *request, key string, hash []byte) (reply, bool) {
	rec := r.key.space.records[key]
	if rec == nil {
		return reply{}, false
	}
	if s.forgotten(rec) {
		delete(r.key.space.records, key)
		return reply{}, false
	}
	switch {
	case !bytes.Equal(rec.Hash, hash):
		return s.refused(refuse("idempotency_key_conflict", "The key was used with a different body.")), true
	case rec.State == recordInterrupted:
		return s.refused(refuse("idempotency_unresolved", "An earlier request needs verification.")), true
	case rec.State == recordProcessing || !rec.durable:
		return s.refused(refuse("idempotency_processing", "The same operation is still in progress.")), true
	}
	return reply{status: rec.Status, code: rec.Code, body: rec.Body, replayed: true}, true
}

// forgotten reports whether the retention of a completed record has passed. The key may then be
// used for a new request.
func (s *writes) forgotten(rec *record) bool {
	return rec.State == recordCompleted && rec.durable && s.now().Sub(rec.At) >= retention
}

// complete stores the first reply to a request. It returns a function to call after the
// commit. From then on, the reply can be repeated. The caller holds the lock.
func (s *writes) complete(r *request, key string, hash []byte, out reply, interrupted bool, ch *change) func() {
	sp := r.key.space
	rec := &record{savedRecord: savedRecord{sp.id(), key, hash, recordCompleted, s.now(), out.status, out.code, out.body}}
	if interrupted {
		rec.State, rec.Body = recordInterrupted, nil
	}
	sp.records[key] = rec
	s.forget(ch)
	s.st.expiring = append(s.st.expiring, rec)
	ch.saveRecord(rec)
	return func() {
		s.st.mu.Lock()
		rec.durable = true
		s.st.mu.Unlock()
	}
}

// forget deletes up to four completed records whose retention has passed.
func (s *writes) forget(ch *change) {
	now := s.now()
	for n := 0; n < 4 && len(s.st.expiring) > 0; n++ {
		rec := s.st.expiring[0]
		if now.Sub(rec.At) < retention {
			return
		}
		s.st.expiring = s.st.expiring[1:]
		if records := s.st.spaces[rec.Space].records; records[rec.Key] == rec && s.forgotten(rec) {
			delete(records, rec.Key)
			ch.put("record", rec.Space+"/"+rec.Key, nil)
		}
	}
}

// interrupt marks the record of a key as interrupted, if the record exists and has the same
// body.
func (s *writes) interrupt(sp *space, key string, hash []byte) {
	rec := sp.records[key]
	if rec == nil || !bytes.Equal(rec.Hash, hash) || s.forgotten(rec) {
		return
	}
	rec.State = recordInterrupted
	c := s.newChange()
	c.saveRecord(rec)
	s.submit(c)
}
