package ledger

import "context"

// Unpriced reports whether an operation may be charging an amount that nothing
// foretells: it is being sent or may have executed, and it has no estimate.
func (l *Ledger) Unpriced(ctx context.Context, except string) (found bool, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM operations
		WHERE live = 1 AND estimate_cents = 0 AND charged_cents = 0 AND id <> ?
		AND (state = 'sending' OR state = 'open' OR state = 'review' OR (state = 'waiting' AND ambiguous > 0)))`, except).Scan(&found)
	return found, err
}

// dearestOf is how many of the latest bookings Dearest looks at.
const dearestOf = 2000

// Dearest is the most that one proxy's renewal for so many days would cost at any
// price that was paid lately, in cents; 0 when none was paid.
func (l *Ledger) Dearest(ctx context.Context, days int64) (most int64, err error) {
	rows, err := l.read.QueryContext(ctx, `SELECT x.charged_cents, x.duration_days
		FROM (SELECT operation, proxy_id FROM transfers ORDER BY seq DESC, n DESC LIMIT ?) t
		CROSS JOIN lines x ON x.operation = t.operation AND x.proxy_id = t.proxy_id
		WHERE x.charged_cents > 0 AND (x.state = 'succeeded' OR x.state = 'charged')`, dearestOf)
	if err != nil {
		return 0, err
	}
	return most, each(rows, func(s scanner) error {
		var cents, paid int64
		err := s.Scan(&cents, &paid)
		most = max(most, ScalePrice(cents, paid, days))
		return err
	})
}
