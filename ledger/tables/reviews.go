// Operations, lines and proxies that need review.

package tables

import (
	"context"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Review is an operation, one line of an operation, or a proxy, that needs review.
type Review struct {
	OperationID string    `json:"operation_id"`
	CommandID   string    `json:"command_id"`
	Kind        fact.Kind `json:"kind"`
	ProxyID     string    `json:"proxy_id,omitempty"`
	Reason      string    `json:"reason"`
	Code        string    `json:"code,omitempty"`
	TraceID     string    `json:"trace_id,omitempty"`
	Since       time.Time `json:"since"`
	// AtStakeCents is the exposure: the amount in suspense, booked, or expected to be charged.
	// It is unknown without an estimate.
	AtStakeCents fact.Cents `json:"at_stake_cents"`
	// Ended says that the outcome is known and no amount is exposed. The operator only decides
	// whether schedules renew the proxy again.
	Ended bool `json:"-"`
}

// Reviews lists what needs review, oldest first.
func (l *Operations) Reviews(ctx context.Context) ([]Review, error) { return l.FirstReviews(ctx, -1) }

// FirstReviews is Reviews with a limit; a negative limit means no limit.
func (l *Operations) FirstReviews(ctx context.Context, limit int) ([]Review, error) {
	return sqlite.Collect(l.query(ctx, `SELECT v.operation_id, v.command_id, v.kind, v.proxy_id, v.reason, v.code, v.trace_id, v.since,
		CASE WHEN v.proxy_id <> '' THEN (SELECT l.charged_cents - l.refunded_cents FROM lines l WHERE l.operation = o.id AND l.proxy_id = v.proxy_id)
		ELSE max(o.estimate_cents, o.charged_cents - o.refunded_cents) END,
		EXISTS (SELECT 1 FROM lines l WHERE l.operation = o.id AND l.proxy_id = v.proxy_id AND l.claim = 0)
		FROM v_reviews v JOIN operations o ON o.id = v.operation_id ORDER BY v.since, v.operation_id, v.proxy_id LIMIT +?`, limit), func(s sqlite.Scanner) (Review, error) {
		var x Review
		var since, stake, ended int64
		err := s.Scan(&x.OperationID, &x.CommandID, &x.Kind, &x.ProxyID, &x.Reason, &x.Code, &x.TraceID, &since, &stake, &ended)
		x.Since, x.Ended = sqlite.FromMicros(since), ended == 1
		if x.AtStakeCents = fact.Estimated(stake); x.Ended {
			x.AtStakeCents = fact.Known(stake)
		}
		return x, err
	})
}
