// Reviews of proxies that schedules skip, and the renewals that ended without success.

package tables

import (
	"context"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// CountReviews counts the operations, lines and proxies that need review.
func (l *Operations) CountReviews(ctx context.Context) (n int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT count(*) FROM v_reviews`).Scan(&n)
	return n, err
}

// SweepReviewsQuery selects the proxies of an operation that schedules skip until they are
// reviewed.
const SweepReviewsQuery = `SELECT v.proxy_id FROM v_reviews v JOIN sweep_reviews s ON s.proxy_id = v.proxy_id AND s.operation = v.operation_id
	WHERE v.operation_id = ? AND s.answered_at IS NULL
	AND EXISTS (SELECT 1 FROM lines l WHERE l.operation = v.operation_id AND l.proxy_id = v.proxy_id AND l.claim = 0) ORDER BY v.proxy_id`

// SweepReviews lists the proxies of an operation that schedules skip until they are
// reviewed.
func (l *Operations) SweepReviews(ctx context.Context, operationID string) ([]string, error) {
	return sqlite.Collect(l.query(ctx, SweepReviewsQuery, operationID), sqlite.Text)
}

// EndingsQuery selects the renewals that ended without renewing a proxy, newest first.
const EndingsQuery = `SELECT l.operation, o.command_id, o.trace_id FROM lines l JOIN operations o ON o.id = l.operation
	WHERE l.proxy_id = ? AND l.state IN ('failed', 'not_charged', 'skipped') ORDER BY l.settled_at DESC, l.operation DESC LIMIT +?`

// ScanEnding reads a row of EndingsQuery.
func ScanEnding(s sqlite.Scanner) (fact.Ref, error) {
	var r fact.Ref
	err := s.Scan(&r.OperationID, &r.CommandID, &r.TraceID)
	return r, err
}

// EndingsOf lists up to limit operations that ended without renewing the proxy, the newest
// first.
func (l *Operations) EndingsOf(ctx context.Context, proxyID string, limit int) ([]fact.Ref, error) {
	return sqlite.Collect(l.query(ctx, EndingsQuery, proxyID, limit), ScanEnding)
}
