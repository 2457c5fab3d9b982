// Metrics of a ledger: counters, ages and sizes.

package tables

import (
	"context"
	"math"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Spent is what operations of one kind were charged and refunded, in cents. Both amounts
// only grow. The totals over all kinds are those of Balance.
type Spent struct {
	Kind          fact.Kind
	ChargedCents  int64 // includes suspense
	RefundedCents int64
}

// SpentByKind sums the books by kind of operation. Only renewals use suspense.
func (l *Metrics) SpentByKind(ctx context.Context) ([]Spent, error) {
	orders, renewals := Spent{Kind: fact.KindOrder}, Spent{Kind: fact.KindRenewal}
	err := l.row(ctx, `SELECT
		coalesce(sum(cents) FILTER (WHERE kind IN ('charge', 'suspense') AND debit = 'orders'), 0),
		coalesce(sum(cents) FILTER (WHERE kind = 'refund' AND credit = 'orders'), 0),
		coalesce(sum(cents) FILTER (WHERE kind IN ('charge', 'suspense') AND debit <> 'orders'), 0),
		coalesce(sum(cents) FILTER (WHERE kind = 'refund' AND credit <> 'orders'), 0) FROM totals`).
		Scan(&orders.ChargedCents, &orders.RefundedCents, &renewals.ChargedCents, &renewals.RefundedCents)
	return []Spent{orders, renewals}, err
}

// NetSpentSince returns the charges since an instant less their refunds, in cents, and at
// least 0. It counts whole quarters of an hour, including the one that contains the instant.
func (l *Metrics) NetSpentSince(ctx context.Context, since time.Time) (int64, error) {
	return sqlite.Value[int64](l.row(ctx, `SELECT max(coalesce(sum(cents), 0), 0) FROM net_charges WHERE quarter >= ?`, QuarterOf(sqlite.Micros(since))))
}

// OldestAmbiguous returns the time of the oldest attempt with an unknown outcome, among
// operations that are being sent or wait for the next attempt. It returns nil if there is
// none.
func (l *Metrics) OldestAmbiguous(ctx context.Context) (at *time.Time, err error) {
	err = l.row(ctx, `SELECT min(first_ambiguous_at) FROM operations WHERE live = 1 AND ambiguous > 0 AND state IN ('sending', 'waiting')`).Scan(sqlite.NullAt(&at))
	return at, err
}

// OldestLive returns the oldest unfinished operation, or sqlite.ErrNone.
func (l *Metrics) OldestLive(ctx context.Context) (id string, acceptedAt time.Time, err error) {
	err = l.row(ctx, `SELECT id, accepted_at FROM operations WHERE live = 1 ORDER BY accepted_at LIMIT 1`).Scan(&id, sqlite.At(&acceptedAt))
	return id, acceptedAt, sqlite.NotFound(err)
}

// CountExpiring counts the proxies that are not gone and expire before each of the given
// instants, which must be ascending. It reads each index entry once.
func (l *Metrics) CountExpiring(ctx context.Context, before []time.Time) ([]int64, error) {
	counts := make([]int64, len(before))
	from, sum := int64(math.MinInt64), int64(0)
	for i, t := range before {
		n, err := sqlite.Value[int64](l.row(ctx, `SELECT count(*) FROM proxies WHERE expires_at IS NOT NULL AND gone = 0 AND lasts_until >= ? AND lasts_until < ?`, from, sqlite.Micros(t)))
		if err != nil {
			return nil, err
		}
		sum += n
		from, counts[i] = sqlite.Micros(t), sum
	}
	return counts, nil
}

// LastFinishedSlot returns the latest finished run of a schedule, or sqlite.ErrNone.
func (l *Metrics) LastFinishedSlot(ctx context.Context, schedule string) (Slot, error) {
	return sqlite.One(ScanSlot, l.row(ctx, `SELECT `+SlotColumns+` FROM slots WHERE schedule = ? AND state = 'finished' ORDER BY slot_at DESC LIMIT 1`, schedule))
}
