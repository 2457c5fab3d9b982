// What was spent, by a schedule's sweeps and by the account in a day, and what is
// reserved.

package ledger

import (
	"context"
	"time"
)

// SweepSpending is what the sweeps that a schedule planned at or after an
// instant have cost, less refunds; what has not ended counts at least at its
// estimate. Plans that wait for an approval do not count.
func (l *Money) SweepSpending(ctx context.Context, schedule string, since time.Time) (cents int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT coalesce(sum(CASE
		WHEN c.id IS NOT NULL THEN
			(SELECT CASE WHEN max(o.live) = 1 THEN max(s.estimate_cents, sum(o.charged_cents - o.refunded_cents))
				ELSE coalesce(sum(o.charged_cents - o.refunded_cents), 0) END
			FROM operations o WHERE o.id > s.command_id || '/' AND o.id < s.command_id || '0' AND o.command_id = s.command_id)
		WHEN l.state = 'held' OR r.id IS NOT NULL THEN 0
		ELSE s.estimate_cents END), 0)
		FROM sweep_commands s LEFT JOIN commands c ON c.id = s.command_id LEFT JOIN rejections r ON r.id = s.command_id
			LEFT JOIN slots l ON l.schedule = s.schedule AND l.slot_at = s.slot_at
		WHERE s.schedule = ? AND s.planned_at >= ?`, schedule, micros(since)).Scan(&cents)
	return cents, err
}

// Untaken is the estimate of the commands of sweeps planned at or after an instant that the
// runner has not taken in.
func (l *Money) Untaken(ctx context.Context, since time.Time) (cents int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT `+untaken, micros(since)).Scan(&cents)
	return cents, err
}

// RenewalsQueued are the proxies whose renewal is asked for and has no outcome: those of
// operations, but what waits for a person, and those of commands of sweeps planned at or after
// an instant that the runner has not taken in.
func (l *Money) RenewalsQueued(ctx context.Context, since time.Time) (proxies int, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM lines x CROSS JOIN operations o ON o.id = x.operation
			WHERE x.claim = 1 AND x.state = 'pending' AND o.state <> 'review')
		+ coalesce((SELECT sum(s.proxies) FROM sweep_commands s JOIN slots l ON l.schedule = s.schedule AND l.slot_at = s.slot_at
			WHERE s.planned_at >= ? AND l.state <> 'held'
			AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = s.command_id)
			AND NOT EXISTS (SELECT 1 FROM rejections r WHERE r.id = s.command_id)), 0)`, micros(since)).Scan(&proxies)
	return proxies, err
}

// RenewalsSettled counts the proxies whose renewal got an outcome at or after an instant, in
// rows of the journal after seq.
func (l *Money) RenewalsSettled(ctx context.Context, since time.Time, seq int64) (proxies int, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT DISTINCT +operation AS operation FROM journal WHERE seq > ? AND +operation <> '') j
		CROSS JOIN operations o ON o.id = j.operation CROSS JOIN lines x ON x.operation = o.id
		WHERE o.kind = 'renewal' AND x.settled_at >= ?`, seq, micros(since)).Scan(&proxies)
	return proxies, err
}

const untaken = `coalesce((SELECT sum(s.estimate_cents) FROM sweep_commands s JOIN slots l ON l.schedule = s.schedule AND l.slot_at = s.slot_at
	WHERE s.planned_at >= ?1 AND l.state <> 'held'
	AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = s.command_id)
	AND NOT EXISTS (SELECT 1 FROM rejections r WHERE r.id = s.command_id)), 0)`

// Reserved is what is on its way and has certainly not been charged in full yet:
// commands of sweeps planned at or after an instant that were not taken in, and
// operations before their end. What waits for a person or for a delivery is not
// in it: the provider's wallet shows it already, or it is not known.
func (l *Money) Reserved(ctx context.Context, since time.Time) (cents int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT `+untaken+`
		+ coalesce((SELECT sum(max(estimate - net, 0)) FROM (
			SELECT max(coalesce(s.estimate_cents, 0), sum(o.estimate_cents)) AS estimate, sum(o.charged_cents - o.refunded_cents) AS net
			FROM operations o LEFT JOIN sweep_commands s ON s.command_id = o.command_id
			WHERE o.live = 1 AND o.state IN ('accepted', 'held', 'sending', 'waiting') GROUP BY o.command_id)), 0)`, micros(since)).Scan(&cents)
	return cents, err
}

// Committed is what was charged since an instant, less what came back of these charges,
// and what the operations in progress are expected to cost; except is left out of it. The
// quarter of an hour that the instant is in counts as a whole: midnights begin one.
func (l *Money) Committed(ctx context.Context, since time.Time, except string) (cents int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT
		max((SELECT coalesce(sum(cents), 0) FROM net_charges WHERE quarter >= ?), 0)
		+ coalesce((SELECT sum(estimate_cents - charged_cents) FROM operations
			WHERE live = 1 AND state IN ('sending', 'waiting', 'open', 'review') AND charged_cents < estimate_cents AND id <> ?), 0)`,
		quarterOf(micros(since)), except).Scan(&cents)
	return cents, err
}

// Exposed is what the operations that Unpriced counts may cost, at the dearest price that is
// known; 0 while none is. Committed leaves it out.
func (l *Money) Exposed(ctx context.Context, since time.Time, except string) (cents int64, err error) {
	return l.exposed(ctx, `SELECT x.duration_days, count(*) FROM operations o CROSS JOIN lines x ON x.operation = o.id
		WHERE o.live = 1 AND `+unpriced+` AND (`+sentUnpriced+` OR `+openUnpriced+`) AND x.claim = 1 GROUP BY x.duration_days`, micros(since), except)
}

// SweepExposed is what the renewals of unknown price may cost that a schedule planned at or
// after an instant, that were sent and have no outcome, at the dearest price that is known.
// SweepSpending leaves it out.
func (l *Money) SweepExposed(ctx context.Context, schedule string, since time.Time) (cents int64, err error) {
	return l.exposed(ctx, `SELECT x.duration_days, count(*) FROM sweep_commands s
		CROSS JOIN operations o ON o.id > s.command_id || '/' AND o.id < s.command_id || '0' AND o.command_id = s.command_id
		CROSS JOIN lines x ON x.operation = o.id
		WHERE s.schedule = ?1 AND s.planned_at >= ?2 AND s.estimate_cents = 0 AND o.live = 1 AND o.estimate_cents = 0 AND o.charged_cents = 0
			AND o.first_sent_at IS NOT NULL AND x.claim = 1 GROUP BY x.duration_days`, schedule, micros(since))
}

// exposed adds up a query of durations and numbers of proxies.
func (l *Money) exposed(ctx context.Context, query string, args ...any) (cents int64, err error) {
	type term struct{ days, proxies int64 }
	terms, err := collect(l.query(ctx, query, args...), func(s scanner) (t term, err error) {
		err = s.Scan(&t.days, &t.proxies)
		return t, err
	})
	for _, t := range terms {
		most, err := l.Dearest(ctx, t.days)
		if err != nil {
			return 0, err
		}
		cents += t.proxies * most
	}
	return cents, err
}

// unpriced is an operation o, but one (2), of unknown price. It is being sent, or may have
// executed at or after an instant (1) and waits for its outcome.
const (
	unpriced     = `o.estimate_cents = 0 AND o.charged_cents = 0 AND o.id <> ?2`
	sentUnpriced = `(o.state = 'sending' OR o.state = 'open')`
	openUnpriced = `((o.state = 'review' OR (o.state = 'waiting' AND o.ambiguous > 0)) AND coalesce(o.first_sent_at, o.updated_at) >= ?1)`
)

// Unpriced counts the operations that may be charging an unknown amount, which have no
// estimate and no charge: those that are being sent, and those first sent at or after an
// instant that may have executed and wait for their outcome.
func (l *Money) Unpriced(ctx context.Context, except string, since time.Time) (underWay, open int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE `+sentUnpriced+`), count(*) FILTER (WHERE `+openUnpriced+`)
		FROM operations o WHERE o.live = 1 AND `+unpriced, micros(since), except).Scan(&underWay, &open)
	return underWay, open, err
}
