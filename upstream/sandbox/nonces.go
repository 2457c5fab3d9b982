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
