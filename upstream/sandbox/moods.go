// Quirks (extension): their names, their random draws, and the past states that lagging reads
// show.

package sandbox

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// The quirks (extension). Each quirk is behaviour that customer-api.md permits. README.md
// quotes the sentence that permits it, or says that the document is silent. A client that works
// with all quirks does not rely on undocumented behaviour.
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

// Moods returns the names of all quirks, in the order of README.md.
func Moods() []string {
	return []string{MoodLaggingReads, MoodEmptyLeftOut, MoodUnknownFields, MoodUnknownStatuses, MoodEarlyRefusals, MoodReplayedEnvelopes,
		MoodWildRetryAfter, MoodContradictingStatuses, MoodRenamedOffers, MoodShortTokens, MoodSmallPages, MoodSecondArray}
}

// moodSetting is the body of POST /moods. The name "all" selects every quirk.
type moodSetting struct {
	Moods []string `json:"moods"`
	Seed  uint64   `json:"seed"`
}

func (s *controls) setMoods(in *moodSetting) error {
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

// moodSet contains the active quirks and their random numbers. The numbers depend only on the
// seed and the order of the requests.
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

// draw returns true in one of n calls on average if the quirk is active.
func (m *moodSet) draw(mood string, n int) bool { return m.has(mood) && m.number(n) == 0 }

func (m *moodSet) number(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.random.IntN(n)
}

func (m *moodSet) choose(of ...string) string { return of[m.number(len(of))] }

// maxLag limits the age of the state that a lagging read shows.
const maxLag = 4 * time.Minute

// asOf returns the time whose state a read shows. Half of the reads lag. The zero time means
// the present.
func (m *moodSet) asOf(now time.Time) time.Time {
	if !m.draw(MoodLaggingReads, 2) {
		return time.Time{}
	}
	return now.Add(-time.Duration(m.number(int(maxLag/time.Second))+1) * time.Second)
}

// largestPage returns the largest page size for orders and proxies, or 0 without the quirk. The
// size depends only on the seed.
func (m *moodSet) largestPage(resource string) int {
	if resource == "offers" || !m.has(MoodSmallPages) { // the API document gives 200 for offers
		return 0
	}
	return []int{3, 10, 20, 49}[m.fixed(4)]
}

// fixed returns a number from 0 to n-1 that depends only on the seed.
func (m *moodSet) fixed(n uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seed % n
}

// renamed returns an offer with its current names. With the quirk the names change every three
// minutes.
func (m *moodSet) renamed(o *FixtureOffer, now time.Time) *FixtureOffer {
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

// refusesEarly imitates a provider that checks balance, offers and proxies before the
// idempotency key. The provider may then refuse a repeated request although it executed the
// first one. The caller holds the lock.
func (s *front) refusesEarly(r *request) (no *refusal) {
	if r.key.space.records[r.idempotencyKey()] == nil || !s.moods.draw(MoodEarlyRefusals, 2) {
		return nil // without a record the usual checks apply
	}
	again := invalid("proxy_ids.0", "was renewed a moment ago")
	if r.rt.name == routeOrders {
		again = refuse("offer_not_found", "An offer is unknown or no longer available.")
		_, _, no = s.writes.orderOf(r)
	} else {
		_, _, _, no = s.writes.renewalOf(r)
	}
	if no == nil && s.moods.number(3) == 0 {
		return again
	}
	return no
}

// past contains the earlier values of an item, in memory. It is empty without the quirk.
type past[T any] []before[T]

type before[T any] struct {
	until time.Time // the time when the value changed
	value *T        // nil: the item did not exist
}

// keepPast stores the value of an item before a change. The caller holds the lock.
func keepPast[T any](s *world, p *past[T], was *T) {
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

// asOf returns the value that a lagging read shows. It returns nil if the item did not exist at
// that time.
func (p past[T]) asOf(at time.Time, present *T) *T {
	if !at.IsZero() {
		for _, b := range p {
			if b.until.After(at) {
				return b.value
			}
		}
	}
	return present
}

func (s *quirks) proxyChanges(p *proxy) {
	was := *p
	was.past = nil
	keepPast(s.world, &p.past, &was)
}

func (s *quirks) orderChanges(o *order) {
	was := *o
	was.past = nil
	keepPast(s.world, &o.past, &was)
}

func (s *quirks) balanceChanges(sp *space) {
	was := sp.balance
	keepPast(s.world, &sp.past, &was)
}
