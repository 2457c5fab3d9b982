// What schedules and the account have spent, may spend, and have reserved.

package tables

import (
	"context"
	"time"

	"perennial/ledger/sqlite"
)

// SweepSpending returns the cost of the runs that a schedule planned at or after an instant,
// in cents, less refunds. An unfinished command counts at least its estimate. Plans that
// need approval do not count.
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
		WHERE s.schedule = ? AND s.planned_at >= ?`, schedule, sqlite.Micros(since)).Scan(&cents)
	return cents, err
}

// Untaken returns the estimated cost, in cents, of schedules' commands that were planned at
// or after an instant and are neither accepted nor refused yet. Plans that need approval do
// not count.
func (l *Money) Untaken(ctx context.Context, since time.Time) (cents int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT `+untaken, sqlite.Micros(since)).Scan(&cents)
	return cents, err
}

// RenewalsQueued counts the proxies whose requested renewal has no outcome yet and is not in
// review. It includes schedules' commands that were planned at or after an instant and are
// neither accepted nor refused yet.
func (l *Money) RenewalsQueued(ctx context.Context, since time.Time) (proxies int, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM lines x CROSS JOIN operations o ON o.id = x.operation
			WHERE x.claim = 1 AND x.state = 'pending' AND o.state <> 'review')
		+ coalesce((SELECT sum(s.proxies) FROM sweep_commands s JOIN slots l ON l.schedule = s.schedule AND l.slot_at = s.slot_at
			WHERE s.planned_at >= ? AND l.state <> 'held'
			AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = s.command_id)
			AND NOT EXISTS (SELECT 1 FROM rejections r WHERE r.id = s.command_id)), 0)`, sqlite.Micros(since)).Scan(&proxies)
	return proxies, err
}

// RenewalsSettled counts the proxies whose renewal settled at or after an instant, in
// operations with journal rows after seq.
func (l *Money) RenewalsSettled(ctx context.Context, since time.Time, seq int64) (proxies int, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT DISTINCT +operation AS operation FROM journal WHERE seq > ? AND +operation <> '') j
		CROSS JOIN operations o ON o.id = j.operation CROSS JOIN lines x ON x.operation = o.id
		WHERE o.kind = 'renewal' AND x.settled_at >= ?`, seq, sqlite.Micros(since)).Scan(&proxies)
	return proxies, err
}

const untaken = `coalesce((SELECT sum(s.estimate_cents) FROM sweep_commands s JOIN slots l ON l.schedule = s.schedule AND l.slot_at = s.slot_at
	WHERE s.planned_at >= ?1 AND l.state <> 'held'
	AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = s.command_id)
	AND NOT EXISTS (SELECT 1 FROM rejections r WHERE r.id = s.command_id)), 0)`

// Reserved returns what work in progress may still charge, in cents, beyond what the
// provider's wallet shows: unfinished operations, and Untaken. It leaves out operations in
// review or awaiting delivery, because the wallet shows their charges already, or may. It
// also leaves out orders on hold: an order that may be released later must not keep a proxy
// from its renewal.
func (l *Money) Reserved(ctx context.Context, since time.Time) (cents int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT `+untaken+`
		+ coalesce((SELECT sum(max(planned - paid, estimate - net, 0)) FROM (
			SELECT coalesce(s.estimate_cents, 0) AS planned, sum(o.estimate_cents) AS estimate, sum(o.charged_cents - o.refunded_cents) AS net,
				(SELECT sum(x.charged_cents - x.refunded_cents) FROM operations x
					WHERE x.id > o.command_id || '/' AND x.id < o.command_id || '0' AND x.command_id = o.command_id) AS paid
			FROM operations o LEFT JOIN sweep_commands s ON s.command_id = o.command_id
			WHERE o.live = 1 AND (o.state IN ('accepted', 'sending', 'waiting') OR o.state = 'held' AND o.kind <> 'order') GROUP BY o.command_id)), 0)`, sqlite.Micros(since)).Scan(&cents)
	return cents, err
}

// Committed returns the charges since an instant less their refunds, plus the expected cost
// of pending operations other than except. It counts the whole quarter of an hour that
// contains the instant; every midnight begins such a quarter.
func (l *Money) Committed(ctx context.Context, since time.Time, except string) (cents int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT
		max((SELECT coalesce(sum(cents), 0) FROM net_charges WHERE quarter >= ?), 0)
		+ coalesce((SELECT sum(estimate_cents - charged_cents) FROM operations
			WHERE live = 1 AND state IN ('sending', 'waiting', 'open', 'review') AND charged_cents < estimate_cents AND id <> ?), 0)`,
		QuarterOf(sqlite.Micros(since)), except).Scan(&cents)
	return cents, err
}

// Exposed returns what the renewals that Unpriced counts may cost, at the highest known
// price; 0 without a known price. Committed leaves them out.
func (l *Money) Exposed(ctx context.Context, since time.Time, except string) (cents int64, err error) {
	return l.exposed(ctx, `SELECT x.duration_days, count(*) FROM operations o CROSS JOIN lines x ON x.operation = o.id
		WHERE o.live = 1 AND `+unpriced+` AND (`+sentUnpriced+` OR `+openUnpriced+`) AND x.claim = 1 GROUP BY x.duration_days`, sqlite.Micros(since), except)
}

// SweepExposed returns what a schedule's renewals of unknown price may cost, at the highest
// known price. It counts renewals that were planned at or after an instant and sent, and
// have no outcome. SweepSpending leaves them out.
func (l *Money) SweepExposed(ctx context.Context, schedule string, since time.Time) (cents int64, err error) {
	return l.exposed(ctx, `SELECT x.duration_days, count(*) FROM sweep_commands s
		CROSS JOIN operations o ON o.id > s.command_id || '/' AND o.id < s.command_id || '0' AND o.command_id = s.command_id
		CROSS JOIN lines x ON x.operation = o.id
		WHERE s.schedule = ?1 AND s.planned_at >= ?2 AND s.estimate_cents = 0 AND o.live = 1 AND o.estimate_cents = 0 AND o.charged_cents = 0
			AND o.first_sent_at IS NOT NULL AND x.claim = 1 GROUP BY x.duration_days`, schedule, sqlite.Micros(since))
}

// exposed sums the possible cost of the rows of a query. Each row has a duration in days and
// a number of proxies.
func (l *Money) exposed(ctx context.Context, query string, args ...any) (cents int64, err error) {
	type term struct{ days, proxies int64 }
	terms, err := sqlite.Collect(l.query(ctx, query, args...), func(s sqlite.Scanner) (t term, err error) {
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

// Conditions on an operation o of unknown price, other than ?2. Either it is being sent or
// awaits delivery, or it was first sent at or after instant ?1, may have been executed, and
// has no outcome yet.
const (
	unpriced     = `o.estimate_cents = 0 AND o.charged_cents = 0 AND o.id <> ?2`
	sentUnpriced = `(o.state = 'sending' OR o.state = 'open')`
	openUnpriced = `((o.state = 'review' OR (o.state = 'waiting' AND o.ambiguous > 0)) AND coalesce(o.first_sent_at, o.updated_at) >= ?1)`
)

// Unpriced counts the operations other than except that may be charged an unknown amount:
// they have no estimate and no charge. underWay counts those that are being sent or await
// delivery. open counts those that were first sent at or after an instant, may have been
// executed and have no outcome yet.
func (l *Money) Unpriced(ctx context.Context, except string, since time.Time) (underWay, open int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE `+sentUnpriced+`), count(*) FILTER (WHERE `+openUnpriced+`)
		FROM operations o WHERE o.live = 1 AND `+unpriced, sqlite.Micros(since), except).Scan(&underWay, &open)
	return underWay, open, err
}

// QuarterMicros is the span of one row of net_charges. In every present time zone midnight
// starts a new quarter.
const QuarterMicros = int64(15 * time.Minute / time.Microsecond)

// QuarterOf returns the quarter of an hour that contains an instant, counted since 1970 UTC.
func QuarterOf(at int64) int64 {
	q := at / QuarterMicros
	if at%QuarterMicros < 0 {
		q-- // before 1970
	}
	return q
}
