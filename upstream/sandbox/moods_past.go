// The past states that reads show under the mood lagging_reads.

package sandbox

import (
	"slices"
	"time"
)

// past is what something was before each of its last changes, as far back as a
// lagging read may look. It is kept only under that mood, and in memory.
type past[T any] []before[T]

type before[T any] struct {
	until time.Time // when it changed
	was   *T        // nil: it did not exist
}

// keep remembers what something was until now; called, with the lock held, before a
// change. A step of the same change adds nothing.
func keep[T any](s *Server, p *past[T], was *T) {
	if !s.moods.has(MoodLaggingReads) {
		return
	}
	now := s.now()
	kept := slices.DeleteFunc(*p, func(b before[T]) bool { return now.Sub(b.until) > maxLag })
	if n := len(kept); n == 0 || !kept[n-1].until.Equal(now) {
		kept = append(kept, before[T]{now, was})
	}
	*p = kept
}

// asOf is what a lagging read shows; nil when it did not exist yet.
func (p past[T]) asOf(at time.Time, present *T) *T {
	if !at.IsZero() {
		for _, b := range p {
			if b.until.After(at) {
				return b.was
			}
		}
	}
	return present
}

func (s *Server) proxyChanges(p *proxy) {
	was := *p
	was.past = nil
	keep(s, &p.past, &was)
}

func (s *Server) orderChanges(o *order) {
	was := *o
	was.past = nil
	keep(s, &o.past, &was)
}

func (s *Server) balanceChanges(sp *space) {
	was := sp.balance
	keep(s, &sp.past, &was)
}
