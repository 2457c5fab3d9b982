package jobs

import (
	"context"
	"slices"
	"strings"
	"time"

	"perennial/ledger/fact"
)

// unpricedMost is decide.unpricedMost.
const unpricedMost = 3

// firstLeave is the state when the first request under a key was sent.
type firstLeave struct {
	limit    int64     // 0: none, or another one held when it was decided to send it
	from     time.Time // its day
	unpriced bool      // a renewal, and no renewal was ever paid for
	old      bool      // a renewal, and the price has changed since the last one that was paid for
	order    int       // how many keys had left before
}

func (s *simulation) firstLeave(key string, renewal bool, days int64) (f firstLeave) {
	f.order = len(s.left)
	if s.config.limit > 0 && !s.intended[s.operationOf(key).ID] {
		f.limit, f.from = s.config.limit, fact.StartOfDay(s.now(), s.config.zone)
	}
	if renewal {
		dearest, err := s.ledger.Money.Dearest(context.Background(), days)
		s.must(err, "dearest")
		f.unpriced, f.old = dearest == 0, s.unlearned
	}
	return f
}

// underLimit finds a day on which the provider charged more than the limit for requests of
// that day. It allows for unpricedMost proxies of unknown price and outcome, for requests from
// before there was a limit, and for operations that an operator released. It does not check
// runs with clock skew or wrong answers, because these change the sums.
func (s *simulation) underLimit(key string) {
	first, o := s.left[key], s.operationOf(key)
	if first.limit == 0 || s.skewed || len(s.mistaken) > 0 || s.letGo(key) {
		return
	}
	var sum, unlimited int64
	var unpriced []int64
	mine, of := false, map[string]int64{}
	for _, c := range s.charged() {
		at, err := time.Parse(time.RFC3339Nano, c.Time)
		s.must(err, "time of a charge")
		if at.Before(first.from) || strings.HasPrefix(c.IdempotencyKey, outsideKey) {
			continue
		}
		mine = mine || c.IdempotencyKey == key
		of[c.IdempotencyKey] += signed(c)
	}
	for key, cents := range of {
		cents = max(cents, 0) // a refund alone is of an earlier day's charge
		sum += cents
		switch left := s.left[key]; {
		case left.limit == 0 && s.operationOf(key).EstimateCents == 0:
			unlimited += cents
		case left.order > first.order && s.letGo(key): // decided before, and without it
			unlimited += cents
		case left.old: // as dear as it turns out to be
			unlimited += cents
		case left.unpriced:
			unpriced = append(unpriced, cents)
		}
	}
	slices.Sort(unpriced)
	for _, cents := range unpriced[max(0, len(unpriced)-unpricedMost):] {
		unlimited += cents
	}
	if mine && sum-unlimited > first.limit {
		s.failf("%s left under a limit of %d, and %d cents were charged since %s, %d of them of unknown price", o.ID, first.limit, sum, first.from, unlimited)
	}
}

// operationOf returns the operation to which a key belongs.
func (s *simulation) operationOf(key string) fact.Operation {
	for _, c := range slices.Backward(s.commands) { // most often one of the latest
		operations, err := s.ledger.Operations.OperationsOf(context.Background(), c.id)
		s.must(err, "operations")
		for _, o := range operations {
			if o.Key == key {
				return o
			}
		}
	}
	s.failf("no operation has the key %s", key)
	return fact.Operation{}
}

// letGo reports whether an operator released a request above the limit.
func (s *simulation) letGo(key string) bool {
	o := s.operationOf(key)
	return s.let[o.ID] || s.let[o.CommandID]
}
