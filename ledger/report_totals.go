// The sums of a span of time, by day, command, order, proxy or label.

package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// BookTotal is what one order, renewal, proxy, label or day cost, in integer
// cents. Net is charged less refunded, and what was recorded.
type BookTotal struct {
	SubjectTotal

	// RecordedCents is what a person recorded: spent elsewhere, less what came back
	// on an order.
	RecordedCents int64 `json:"recorded_cents"`
	// Zone is the one that a day is of.
	Zone string `json:"zone,omitempty"`
}

// recordedOn is what people recorded on the order of operation o, where it is the
// first with that number.
const recordedOn = `CASE WHEN o.order_no <> '' AND o.id = (SELECT min(x.id) FROM operations x WHERE x.order_no <> '' AND x.order_no = o.order_no)
	THEN (SELECT coalesce(sum(CASE r.kind WHEN 'external' THEN r.cents ELSE -r.cents END), 0) FROM transfers r
		WHERE r.order_no <> '' AND (r.kind = 'external' OR r.kind = 'funding') AND r.order_no = o.order_no) ELSE 0 END`

// totalsBy are the questions that TotalsBy answers: subject, name, count, charged,
// refunded, recorded, and by what the latest or dearest come first. The count is of
// the proxies of an order or a renewal, the renewals of a proxy, the commands of a
// label and the charges of a day; what was refused has bought nothing and counts 0.
var totalsBy = map[string]string{
	"order": `SELECT coalesce(nullif(o.order_no, ''), o.id) AS subject, '' AS name, CASE WHEN o.charged_cents > 0 THEN o.expected_count ELSE 0 END AS n, o.charged_cents AS charged, o.refunded_cents AS refunded,
			` + recordedOn + ` AS recorded, o.accepted_at AS rank
			FROM operations o WHERE o.kind = 'order'
		UNION ALL
		SELECT t.order_no, '', 0, 0, 0, sum(CASE t.kind WHEN 'external' THEN t.cents ELSE -t.cents END), max(t.booked_at)
			FROM transfers t WHERE t.order_no <> '' AND (t.kind = 'external' OR t.kind = 'funding')
			AND NOT EXISTS (SELECT 1 FROM operations x WHERE x.order_no <> '' AND x.order_no = t.order_no) GROUP BY t.order_no`,
	"renewal": `SELECT operation_id AS subject, '' AS name, CASE WHEN charged_cents > 0 THEN proxies ELSE 0 END AS n, charged_cents AS charged, refunded_cents AS refunded, 0 AS recorded, accepted_at AS rank FROM v_renewals`,
	"ip":      `SELECT proxy_id AS subject, '' AS name, renewals AS n, charged_cents AS charged, refunded_cents AS refunded, 0 AS recorded, net_cents AS rank FROM v_proxy_costs`,
	"label": `SELECT ` + labelText + ` AS subject, e.key AS name, count(DISTINCT c.id) FILTER (WHERE o.charged_cents > 0) AS n, sum(o.charged_cents) AS charged, sum(o.refunded_cents) AS refunded,
			sum(` + recordedOn + `) AS recorded, 0 AS rank
		FROM commands c LEFT JOIN journal j ON j.seq = c.accepted_seq LEFT JOIN archived a ON a.seq = c.accepted_seq
			JOIN json_each(coalesce(j.data, a.data, '{}'), '$.labels') e
			JOIN operations o ON o.id > c.id || '/' AND o.id < c.id || '0' AND o.command_id = c.id
		GROUP BY e.key, e.value`,
	"day": `SELECT date(t.booked_at / 1000000, 'unixepoch') AS subject, '' AS name, count(*) FILTER (WHERE t.kind = 'charge' OR t.kind = 'suspense') AS n,
			coalesce(sum(t.cents) FILTER (WHERE t.kind = 'charge' OR t.kind = 'suspense'), 0) AS charged,
			coalesce(sum(t.cents) FILTER (WHERE t.kind = 'refund'), 0) AS refunded,
			coalesce(sum(CASE WHEN t.kind = 'external' THEN t.cents WHEN t.kind = 'funding' AND t.order_no <> '' THEN -t.cents END), 0) AS recorded,
			max(t.booked_at / 86400000000) AS rank
		FROM transfers t WHERE t.kind <> 'funding' OR t.order_no <> '' GROUP BY 1`,
}

// withoutSubject is how the rest of a question is called that has no subject.
var withoutSubject = map[string]string{"order": "(no order)", "renewal": "(no renewal)", "ip": "(no single ip)", "label": "(no label)", "day": "(no day)"}

const (
	shownRows = `) SELECT subject, name, n, charged, refunded, recorded FROM totals_by ORDER BY name, rank DESC, subject LIMIT +?`
	wholeName = `) SELECT name, count(*), sum(charged), sum(refunded), sum(recorded) FROM totals_by GROUP BY name ORDER BY name LIMIT +?`
	bookWhole = `SELECT coalesce(sum(cents) FILTER (WHERE kind = 'charge' OR kind = 'suspense'), 0), coalesce(sum(cents) FILTER (WHERE kind = 'refund'), 0),
		coalesce(sum(cents) FILTER (WHERE kind = 'external'), 0) - (SELECT coalesce(sum(cents), 0) FROM transfers WHERE order_no <> '' AND kind = 'funding') FROM totals`
)

// TotalsBy sums the book by order, renewal, ip, label or day (UTC), up to limit,
// the latest orders, renewals and days first and the dearest ips. The rows add up
// to what the account spent, charged and recorded; by label, those of each name of
// a label do. What is left is in rows of its own (Rest).
func (l *Money) TotalsBy(ctx context.Context, what string, limit int) ([]BookTotal, error) {
	query, ok := totalsBy[what]
	if !ok {
		return nil, fmt.Errorf("the book is not summed by %q: use order, renewal, ip, label or day", what)
	}
	tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	shown, err := totalsOf(ctx, tx, `WITH totals_by AS (`+query+shownRows, limit, scanTotal)
	if err != nil {
		return nil, err
	}
	names, err := totalsOf(ctx, tx, `WITH totals_by AS (`+query+wholeName, limit, func(s scanner) (x BookTotal, err error) {
		err = s.Scan(&x.name, &x.Count, &x.ChargedCents, &x.RefundedCents, &x.RecordedCents)
		return x, err
	})
	var book BookTotal
	err = errors.Join(err, tx.QueryRowContext(ctx, bookWhole).Scan(&book.ChargedCents, &book.RefundedCents, &book.RecordedCents))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = []BookTotal{{}}
	}
	all := withRests(what, shown, names, book)
	for i := range all {
		all[i].NetCents = all[i].ChargedCents - all[i].RefundedCents + all[i].RecordedCents
		if what == "day" {
			all[i].Zone = "UTC"
		}
	}
	return all, nil
}

func totalsOf(ctx context.Context, q queryer, query string, limit int, scan func(scanner) (BookTotal, error)) ([]BookTotal, error) {
	return collect(queryOf(ctx, q, query, limit), scan)
}

func scanTotal(s scanner) (x BookTotal, err error) {
	err = s.Scan(&x.Subject, &x.name, &x.Count, &x.ChargedCents, &x.RefundedCents, &x.RecordedCents)
	return x, err
}

// less takes another total away.
func (x *BookTotal) less(y BookTotal) {
	x.ChargedCents, x.RefundedCents, x.RecordedCents = x.ChargedCents-y.ChargedCents, x.RefundedCents-y.RefundedCents, x.RecordedCents-y.RecordedCents
}

// withRests puts after the rows of each name what they leave of it, and what it
// leaves of the book.
func withRests(what string, shown, names []BookTotal, book BookTotal) (all []BookTotal) {
	for _, whole := range names {
		further, none := whole, book
		further.Rest, none.Rest, none.name = true, true, whole.name
		none.less(whole)
		for _, x := range shown {
			if x.name == whole.name {
				all = append(all, x)
				further.less(x)
				further.Count--
			}
		}
		of := cmp.Or(whole.name, what)
		if further.Count = max(0, further.Count); further.Count > 0 {
			further.Subject = fmt.Sprintf("(%d further by %s)", further.Count, of)
			all = append(all, further)
		}
		if none.ChargedCents != 0 || none.RefundedCents != 0 || none.RecordedCents != 0 {
			if none.Subject = withoutSubject[what]; whole.name != "" {
				none.Subject = "(without " + whole.name + ")"
			}
			all = append(all, none)
		}
	}
	return all
}
