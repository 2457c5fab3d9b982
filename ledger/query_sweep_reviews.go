// Reviews of proxies that sweeps gave up, and the renewals that ended before.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// CountReviews counts the operations, lines and proxies that need review.
func (l *Operations) CountReviews(ctx context.Context) (n int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT count(*) FROM v_reviews`).Scan(&n)
	return n, err
}

const sweepReviewsQuery = `SELECT v.proxy_id FROM v_reviews v JOIN sweep_reviews s ON s.proxy_id = v.proxy_id AND s.operation = v.operation_id
	WHERE v.operation_id = ? AND s.answered_at IS NULL
	AND EXISTS (SELECT 1 FROM lines l WHERE l.operation = v.operation_id AND l.proxy_id = v.proxy_id AND l.claim = 0) ORDER BY v.proxy_id`

// SweepReviews lists the proxies of an operation that sweeps left to review.
func (l *Operations) SweepReviews(ctx context.Context, operationID string) ([]string, error) {
	return sqlite.Collect(l.query(ctx, sweepReviewsQuery, operationID), sqlite.Text)
}

// SweepReviews is Operations.SweepReviews inside the transaction.
func (t *Tx) SweepReviews(operationID string) ([]string, error) {
	return sqlite.Collect(t.query(sweepReviewsQuery, operationID), sqlite.Text)
}

// InSweepReview reports whether the proxy has an unanswered review at this expiry.
func (t *Tx) InSweepReview(proxyID string, expiresAt time.Time) (bool, error) {
	return sqlite.Found(t.queryRow(`SELECT count(*) FROM sweep_reviews WHERE proxy_id = ? AND abs(expires_at - ?)`+isNoMove+`AND answered_at IS NULL`,
		proxyID, sqlite.Micros(expiresAt)))
}

const endingsQuery = `SELECT l.operation, o.command_id, o.trace_id FROM lines l JOIN operations o ON o.id = l.operation
	WHERE l.proxy_id = ? AND l.state IN ('failed', 'not_charged', 'skipped') ORDER BY l.settled_at DESC, l.operation DESC LIMIT +?`

func scanEnding(s sqlite.Scanner) (fact.Ref, error) {
	var r fact.Ref
	err := s.Scan(&r.OperationID, &r.CommandID, &r.TraceID)
	return r, err
}

// LastEnding returns the last operation that ended without renewing the proxy; ErrNotFound
// if none has.
func (t *Tx) LastEnding(proxyID string) (fact.Ref, error) {
	r, err := scanEnding(t.queryRow(endingsQuery, proxyID, 1))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return r, err
}

// LastPaidBy returns the last operation that renewed the proxy; ErrNotFound if none has.
func (t *Tx) LastPaidBy(proxyID string) (fact.Ref, error) {
	r, err := scanEnding(t.queryRow(`SELECT l.operation, o.command_id, o.trace_id FROM lines l JOIN operations o ON o.id = l.operation
		WHERE l.proxy_id = ? AND (l.state = 'succeeded' OR l.state = 'charged') AND l.settled_at IS NOT NULL ORDER BY l.settled_at DESC LIMIT 1`, proxyID))
	return r, sqlite.NotFound(err)
}

// EndingsOf lists up to limit operations that ended without renewing the proxy, the newest
// first.
func (l *Operations) EndingsOf(ctx context.Context, proxyID string, limit int) ([]fact.Ref, error) {
	return sqlite.Collect(l.query(ctx, endingsQuery, proxyID, limit), scanEnding)
}
