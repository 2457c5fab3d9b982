// Operations that were sent by the end of a period, may have been charged, and are not
// booked in it.

package report

import (
	"context"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// Outstanding is an operation that was charged, or may have been charged, by the end of a
// period without being booked in it.
type Outstanding struct {
	OperationID string     `json:"operation_id"`
	OrderNo     string     `json:"order_no,omitempty"`
	SentAt      time.Time  `json:"sent_at"`
	State       fact.State `json:"state"` // the present state
	// ExposureCents is the estimated cost; 0 if ExposureUnknown is set.
	ExposureCents   int64 `json:"exposure_cents"`
	ExposureUnknown bool  `json:"exposure_unknown,omitempty"`
	// BookedAt is the time of the first charge booked after the period, and BookedCents the sum
	// of such charges. BookedAt is nil while no charge is booked, or if the operation turned
	// out not to be charged (Ended).
	BookedAt    *time.Time `json:"booked_at,omitempty"`
	BookedCents int64      `json:"booked_cents,omitempty"`
	Ended       bool       `json:"ended,omitempty"`
}

// Later says in words what became of the operation after the period.
func (x Outstanding) Later() string {
	switch {
	case x.BookedAt != nil:
		return fact.Decimal(x.BookedCents) + " booked on " + day(*x.BookedAt)
	case x.Ended:
		return "not charged"
	}
	return "not known yet"
}

// Exposure returns ExposureCents as text, or "unknown".
func (x Outstanding) Exposure() string {
	if x.ExposureUnknown {
		return "unknown"
	}
	return fact.Amount(x.ExposureCents, "")
}

// outstandingMost limits how many operations a statement lists.
const outstandingMost = 1000

// outstandingQuery has three parameters: the first sequence after the period, the end of the
// period and a limit. It leaves out waiting operations without an attempt that may have been
// executed, because they were not charged. It also leaves out later corrections of what the
// period booked.
const outstandingQuery = `WITH since AS (
		SELECT operation, min(booked_at) AS at, sum(cents) AS cents FROM transfers
		WHERE seq >= ?1 AND operation <> '' AND (kind = 'charge' OR kind = 'suspense') AND seq NOT IN (
			SELECT r.seq FROM (` + tables.RecordRows + `) r WHERE r.seq >= ?1 AND r.data ->> '$.corrects_seq' > 0 AND EXISTS (
				SELECT 1 FROM (SELECT seq FROM journal WHERE operation = r.operation AND operation <> ''
					UNION ALL SELECT seq FROM archived WHERE operation = r.operation AND operation <> '') f CROSS JOIN transfers e ON e.seq = f.seq
				WHERE f.seq < ?1 AND e.proxy_id = coalesce(r.data ->> '$.proxy_id', '') AND (e.kind = 'charge' OR e.kind = 'suspense')))
		GROUP BY operation),
	unpriced AS (SELECT DISTINCT operation FROM lines WHERE claim = 1 AND state = 'unresolved' AND charged_cents = 0)
	SELECT o.id, o.order_no, o.first_sent_at, o.state, o.estimate_cents, s.at, coalesce(s.cents, 0), o.live = 0 AND u.operation IS NULL, count(*) OVER ()
	FROM operations o LEFT JOIN since s ON s.operation = o.id LEFT JOIN unpriced u ON u.operation = o.id
	WHERE o.first_sent_at < ?2 AND (s.operation IS NOT NULL OR u.operation IS NOT NULL
		OR o.charged_at IS NULL AND (o.live = 0 AND o.updated_at >= ?2
			OR o.live = 1 AND (o.state IN ('sending', 'open', 'review') OR o.state = 'waiting' AND o.ambiguous > 0)))
	ORDER BY o.first_sent_at, o.id LIMIT +?3`

// unbooked fills s.Outstanding with operations that the statement does not book. to is the
// first sequence after the period.
func (s *Statement) unbooked(ctx context.Context, q sqlite.Queryer, to int64) (err error) {
	var all int64
	s.Outstanding, err = sqlite.Collect(sqlite.Query(ctx, q, outstandingQuery, to, sqlite.Micros(s.To), outstandingMost), func(r sqlite.Scanner) (x Outstanding, err error) {
		err = r.Scan(&x.OperationID, &x.OrderNo, sqlite.At(&x.SentAt), &x.State, &x.ExposureCents, sqlite.NullAt(&x.BookedAt), &x.BookedCents, &x.Ended, &all)
		x.Ended, x.ExposureUnknown = x.Ended && x.BookedAt == nil, x.ExposureCents == 0
		return x, err
	})
	s.OutstandingFurther = max(all-outstandingMost, 0)
	return err
}
