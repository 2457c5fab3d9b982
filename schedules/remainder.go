package schedules

import (
	"context"
	"maps"
	"time"

	"perennial/ledger"
)

// remainder is what the last sweep could not take and may take before the next
// slot. It lives in memory: after a restart the next slot takes it.
type remainder struct {
	taken    map[string]bool       // published by the sweep so far
	spent    int64                 // the estimate of that, in cents
	canaries []string              // of taken, those whose price was not known
	wants    map[kind]ledger.Proxy // kinds that wait for their canary's price
	more     bool                  // the plan was full
}

// remainder is nil when the plan left nothing out that could be taken soon. A
// held plan has none: what it holds is not published.
func (p Plan) remainder(before remainder) *remainder {
	more := p.LeftOutCounts[ReasonBeyond] > 0 && len(p.Included) > 0
	if p.State != stateFinished || !more && len(p.unpriced) == 0 {
		return nil
	}
	rest := remainder{taken: map[string]bool{}, spent: before.spent + p.EstimateCents, canaries: before.canaries, wants: p.unpriced, more: more}
	maps.Copy(rest.taken, before.taken)
	maps.Copy(rest.taken, p.onItsWay)
	for _, one := range p.Included {
		rest.taken[one.ProxyID] = true
		if one.Canary {
			rest.canaries = append(rest.canaries, one.ProxyID)
		}
	}
	return &rest
}

// goOn sweeps the remainder under a slot of its own, when its time has come.
func (s *Sweeper) goOn(ctx context.Context, r *rota, rest *remainder) (*remainder, error) {
	if !rest.more && !s.priced(ctx, rest.wants) {
		return rest, nil
	}
	s.count(ctx, r, rest)
	plan, err := s.fire(ctx, r, firing{slot: s.Clock().UTC().Truncate(time.Second), taken: rest.taken, spent: rest.spent})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		s.log(r).WithError(err).Warn("the rest of the sweep has not been made; it is tried again")
		return rest, nil
	}
	return plan.remainder(*rest), nil
}

// priced reports whether the canary of a kind has told its price.
func (s *Sweeper) priced(ctx context.Context, wants map[kind]ledger.Proxy) bool {
	for _, like := range wants {
		if _, _, err := s.Ledger.LastPaid(ctx, like); err == nil {
			return true
		}
	}
	return false
}

// count adds to what the sweep has spent the canaries whose price is now known.
func (s *Sweeper) count(ctx context.Context, r *rota, rest *remainder) {
	var unknown []string
	for _, id := range rest.canaries {
		cents, days, err := s.Ledger.PaidPerDay(ctx, id)
		if err != nil {
			unknown = append(unknown, id)
			continue
		}
		rest.spent += ledger.ScalePrice(cents, days, r.DurationDays)
	}
	rest.canaries = unknown
}
