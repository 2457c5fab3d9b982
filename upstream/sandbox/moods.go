// Moods (extension): which there are, what they draw, and the past states that lagging reads
// show.

package sandbox

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Moods (extension): freedoms that customer-api.md leaves to the provider, each
// with the sentence, or the silence, that allows it in README.md. A client
// that works under all of them relies on no undocumented behaviour.
const (
	MoodLaggingReads          = "lagging_reads"
	MoodEmptyLeftOut          = "empty_left_out"
	MoodUnknownFields         = "unknown_fields"
	MoodUnknownStatuses       = "unknown_statuses"
	MoodEarlyRefusals         = "early_refusals"
	MoodReplayedEnvelopes     = "replayed_envelopes"
	MoodWildRetryAfter        = "wild_retry_after"
	MoodContradictingStatuses = "contradicting_statuses"
	MoodRenamedOffers         = "renamed_offers"
	MoodShortTokens           = "short_tokens"
	MoodSmallPages            = "small_pages"
	MoodSecondArray           = "second_array"
)

// Moods names all of them, in the order of README.md.
func Moods() []string {
	return []string{MoodLaggingReads, MoodEmptyLeftOut, MoodUnknownFields, MoodUnknownStatuses, MoodEarlyRefusals, MoodReplayedEnvelopes,
		MoodWildRetryAfter, MoodContradictingStatuses, MoodRenamedOffers, MoodShortTokens, MoodSmallPages, MoodSecondArray}
}

// moodSetting is the body of POST /moods. "all" stands for every mood.
type moodSetting struct {
	Moods []string `json:"moods"`
	Seed  uint64   `json:"seed"`
}

func (s *Server) setMoods(in *moodSetting) error {
	var on []string
	for _, name := range in.Moods {
		switch {
		case name == "all":
			on = Moods()
		case slices.Contains(Moods(), name):
			on = append(on, name)
		default:
			return invalid("moods", "%q is no mood: choose all, or of %s", shorten(name), strings.Join(Moods(), ", "))
		}
	}
	s.moods.set(on, in.Seed)
	return nil
}

// moodSet draws by the seed and the order of the requests alone.
type moodSet struct {
	mu     sync.Mutex
	on     []string
	seed   uint64
	random *rand.Rand
}

func (m *moodSet) set(on []string, seed uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on, m.seed, m.random = on, seed, rand.New(rand.NewPCG(seed, 0x6d6f6f64))
}

func (m *moodSet) clear() { m.set(nil, 0) }

func (m *moodSet) has(mood string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.on, mood)
}

// draw is true once in n times while the mood is there.
func (m *moodSet) draw(mood string, n int) bool { return m.has(mood) && m.number(n) == 0 }

func (m *moodSet) number(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.random.IntN(n)
}

func (m *moodSet) one(of ...string) string { return of[m.number(len(of))] }

// maxLag is how far a read may lie behind what was written.
const maxLag = 4 * time.Minute

// asOf is the moment whose state a read shows: every second one lags. Zero is the present.
func (m *moodSet) asOf(now time.Time) time.Time {
	if !m.draw(MoodLaggingReads, 2) {
		return time.Time{}
	}
	return now.Add(-time.Duration(m.number(int(maxLag/time.Second))+1) * time.Second)
}

// largestPage is of orders and proxies; 0: as without the mood. The seed says it, so that it stays.
func (m *moodSet) largestPage(resource string) int {
	if resource == "offers" || !m.has(MoodSmallPages) { // the document gives 200 for offers
		return 0
	}
	return []int{3, 10, 20, 49}[m.fixed(4)]
}

// fixed is a number from 0 to n-1 that stays the same as long as the seed does.
func (m *moodSet) fixed(n uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seed % n
}

// shrinksPages reports that a page size over the greatest is reduced, not refused.
func (m *moodSet) shrinksPages() bool { return m.fixed(3) == 0 }

// named is an offer with its names of this moment, which change every few minutes.
func (m *moodSet) named(o *FixtureOffer, now time.Time) *FixtureOffer {
	if !m.has(MoodRenamedOffers) {
		return o
	}
	turn := (uint64(now.Unix()/180) + m.fixed(3) + uint64(len(o.OfferCode))) % 3
	if turn == 0 {
		return o
	}
	called := *o
	suffix := [...]string{"", " (new)", " II"}[turn]
	called.Name, called.Region, called.LineName = o.Name+suffix, o.Region+suffix, o.LineName+suffix
	return &called
}

// refusesEarly acts as a provider that checks balance, offers and proxies before the key: a
// repeated request may be refused although the first was executed. It needs the lock.
func (s *Server) refusesEarly(r *request) (no *refusal) {
	if r.key.space.records[r.idempotencyKey()] == nil || !s.moods.draw(MoodEarlyRefusals, 2) {
		return nil // without a record the checks are the usual ones
	}
	again := invalid("proxy_ids.0", "was renewed a moment ago")
	if r.rt.name == routeOrders {
		again = refuse("offer_not_found", "An offer is unknown or no longer available.")
		_, _, no = s.orderOf(r)
	} else {
		_, _, _, no = s.renewalOf(r)
	}
	if no == nil && s.moods.number(3) == 0 {
		return again
	}
	return no
}

// past is what something was before each of its last changes, in memory and only under
// the mood.
type past[T any] []before[T]

type before[T any] struct {
	until time.Time // when it changed
	was   *T        // nil: it did not exist
}

// keep remembers what something was until now, before a change, with the lock held.
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
