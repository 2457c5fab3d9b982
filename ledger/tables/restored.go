// Requests that a restored ledger may have lost, and what explains them.

package tables

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"perennial/ledger/sqlite"
)

// Forgotten returns the time from which the ledger may have lost sent requests: the time of
// the last restored row. It returns nil if the ledger was never restored, or if the pause
// that followed the restore has ended.
func (l *Operations) Forgotten(ctx context.Context) (*time.Time, error) {
	var since sql.NullInt64
	err := l.read.QueryRowContext(ctx, `SELECT max(forgotten_since) FROM binding`).Scan(&since)
	return sqlite.Instant(since), err
}

// RestoredAlone returns when the ledger was restored without the events stream, or with a
// stream that ends before the backup. It returns nil if the last 1,000 rows contain no such
// restore.
func (l *Operations) RestoredAlone(ctx context.Context) (*time.Time, error) {
	var at sql.NullInt64
	err := l.read.QueryRowContext(ctx, `SELECT CASE WHEN data ->> '$.restored.proven' = 0 THEN time END
		FROM journal WHERE seq > (SELECT max(seq) FROM journal) - 1000 AND type = 'ledger.opened' ORDER BY seq DESC LIMIT 1`).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return sqlite.Instant(at), err
}

// HasOrder reports whether an operation has this order number.
func (l *Operations) HasOrder(ctx context.Context, orderNo string) (bool, error) {
	return sqlite.Found(l.read.QueryRowContext(ctx, `SELECT count(*) FROM operations WHERE order_no = +? AND order_no <> ''`, orderNo))
}

// RenewedDays returns by how many days the renewals that settled since an instant have
// extended a proxy. Unresolved renewals count.
func (l *Operations) RenewedDays(ctx context.Context, proxyID string, since time.Time) (days int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT coalesce(sum(duration_days), 0) FROM lines
		WHERE proxy_id = ? AND settled_at >= ? AND state IN ('succeeded', 'charged', 'unresolved')`, proxyID, sqlite.Micros(since)).Scan(&days)
	return days, err
}
