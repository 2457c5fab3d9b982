// The nonces that each key has used.

package sandbox

import (
	"hash/maphash"
	"sync"
	"time"
)

// nonceMemory is how long a nonce is remembered at least: a timestamp may be
// five minutes early and used until it is five minutes late (assumed).
const nonceMemory = 10*time.Minute + time.Second

var nonceSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// useNonce consumes a nonce. With a database the nonce joins the next commit, and the
// reply waits for that: a consumed nonce is refused after a crash too.
func (s *Server) useNonce(r *request, key *apiKey, nonce string) bool {
	now := s.clock()
	if !key.nonces.use(nonce, now) {
		if s.db != nil {
			r.seq = s.durable.last()
		}
		return false
	}
	if s.db != nil {
		r.seq = s.durable.add(&change{keep: true, nonce: usedNonce{key.appID, nonce, now}})
	}
	return true
}

// usedNonce is a nonce on its way to the database.
type usedNonce struct {
	appID, nonce string
	at           time.Time
}

// nonceSet remembers nonces in two generations, so that pruning costs nothing.
type nonceSet struct {
	mu       sync.Mutex
	young    map[[2]uint64]struct{}
	old      map[[2]uint64]struct{}
	turnedAt time.Time
}

// use reports whether the nonce is new, and remembers it.
func (n *nonceSet) use(nonce string, now time.Time) bool {
	h := [2]uint64{maphash.String(nonceSeeds[0], nonce), maphash.String(nonceSeeds[1], nonce)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.young == nil || now.Sub(n.turnedAt) > nonceMemory {
		n.old, n.young, n.turnedAt = n.young, map[[2]uint64]struct{}{}, now
	}
	if _, ok := n.young[h]; ok {
		return false
	}
	if _, ok := n.old[h]; ok {
		return false
	}
	n.young[h] = struct{}{}
	return true
}
