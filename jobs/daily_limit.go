package jobs

import (
	"context"
	"fmt"
	"time"

	"perennial/ledger"
)

// The limit of the day (daily_limit_cents): what was charged today less refunds,
// and what is under way at its estimate.

// tomorrow is when the next day of the account's limit begins.
func (r *Runner) tomorrow() time.Time {
	return ledger.NextDay(r.clock.Now(), r.DailyLimitLocation)
}

// underDailyLimit holds an operation that would take the account over its limit
// of the day, until the day is over or a person releases it.
func (r *Runner) underDailyLimit(ctx context.Context, j *job, p *presend) error {
	if r.DailyLimitCents == 0 || j.released {
		return nil
	}
	day := ledger.StartOfDay(r.clock.Now(), r.DailyLimitLocation)
	spent, err := r.Ledger.Committed(ctx, day, j.op.ID)
	if err != nil {
		return err
	}
	if spent+p.estimateCents <= r.DailyLimitCents {
		return r.behindUnpriced(ctx, j, p)
	}
	if released, err := r.letGo(ctx, j); released || err != nil {
		return err
	}
	tomorrow := r.tomorrow()
	p.stop = ledger.CommandHeld{
		Ref: j.op.ref(""), EstimateCents: p.estimateCents, Until: &tomorrow,
		Reason: fmt.Sprintf("%s is spent or under way today, this would add %s, and daily_limit_cents is %s",
			r.binding.Amount(spent), r.estimateText(p), r.binding.Amount(r.DailyLimitCents)),
	}
	return nil
}

// estimateText never shows an unknown price as none.
func (r *Runner) estimateText(p *presend) string {
	if p.estimateCents == 0 && p.unpriced {
		return "an unknown price"
	}
	return r.binding.Amount(p.estimateCents)
}

// letGo reports whether a person has released the operation, at any time: what is
// put off since, because a look or a request failed, is not held again.
func (r *Runner) letGo(ctx context.Context, j *job) (bool, error) {
	if j.released {
		return true, nil
	}
	return r.Ledger.ReleasedByHand(ctx, j.op.ID)
}

// underLimitNow is underDailyLimit just before the intent, with a price that
// another operation may have told since the look.
func (r *Runner) underLimitNow(ctx context.Context, j *job, p *presend) error {
	if p.unpriced {
		p.estimateCents, p.unpriced = 0, false
		if err := r.estimate(ctx, j, p); err != nil {
			return err
		}
	}
	return r.underDailyLimit(ctx, j, p)
}

// behindUnpriced has an operation whose price is not known wait while another one
// of the kind is under way: together they could go over any limit.
func (r *Runner) behindUnpriced(ctx context.Context, j *job, p *presend) error {
	if !p.unpriced {
		return nil
	}
	another, err := r.Ledger.Unpriced(ctx, j.op.ID)
	if err != nil || !another {
		return err
	}
	d := waiting(j.op, false, r.clock.Now().Add(previousWait(j.op)), verdict{
		reason: "its price is not known, and so is that of another operation under way: daily_limit_cents waits for what that costs",
	})
	p.stop = d.Facts[0]
	return nil
}
