// The sums of the books by order, renewal, proxy, label or day.

package tables

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"perennial/ledger/sqlite"
)

// BookTotal is the cost of one order, renewal, proxy, label or day, in cents. Net is charged
// less refunded, plus recorded.
type BookTotal struct {
	SubjectTotal

	// RecordedCents is what operators recorded: spent outside Perennial, less what was returned
	// for an order.
	RecordedCents int64 `json:"recorded_cents"`
	// Zone is the time zone of a day.
	Zone string `json:"zone,omitempty"`
}

// recordedOn sums the records for the order of operation o. It is 0 unless o is the first
// operation with that order number.
const recordedOn = `CASE WHEN o.order_no <> '' AND o.id = (SELECT min(x.id) FROM operations x WHERE x.order_no <> '' AND x.order_no = o.order_no)
	THEN (SELECT coalesce(sum(CASE r.credit WHEN 'wallet' THEN r.cents ELSE -r.cents END), 0) FROM transfers r
		WHERE r.order_no <> '' AND (r.kind = 'external' OR r.kind = 'funding') AND r.order_no = o.order_no) ELSE 0 END`

// TotalsBy has the queries of [Money.TotalsBy], by subject. They select subject, name,
// count, charged, refunded, recorded, and a rank by time or cost. The count is the number of
// proxies of an order or renewal, renewals of a proxy, commands of a label, or charges of a
// day. A command without a charge counts 0.
var TotalsBy = map[string]string{
	"order": `SELECT coalesce(nullif(o.order_no, ''), o.id) AS subject, '' AS name, CASE WHEN o.charged_cents > 0 THEN o.expected_count ELSE 0 END AS n, o.charged_cents AS charged, o.refunded_cents AS refunded,
			` + recordedOn + ` AS recorded, o.accepted_at AS rank
			FROM operations o WHERE o.kind = 'order'
		UNION ALL
		SELECT t.order_no, '', 0, 0, 0, sum(CASE t.credit WHEN 'wallet' THEN t.cents ELSE -t.cents END), max(t.booked_at)
			FROM transfers t WHERE t.order_no <> '' AND (t.kind = 'external' OR t.kind = 'funding')
			AND NOT EXISTS (SELECT 1 FROM operations x WHERE x.order_no <> '' AND x.order_no = t.order_no) GROUP BY t.order_no`,
	"renewal": `SELECT operation_id AS subject, '' AS name, CASE WHEN charged_cents > 0 THEN proxies ELSE 0 END AS n, charged_cents AS charged, refunded_cents AS refunded, 0 AS recorded, accepted_at AS rank FROM v_renewals`,
	"ip":      `SELECT proxy_id AS subject, '' AS name, renewals AS n, charged_cents AS charged, refunded_cents AS refunded, 0 AS recorded, net_cents AS rank FROM v_proxy_costs`,
	"label": `SELECT ` + LabelText + ` AS subject, e.key AS name, count(DISTINCT c.id) FILTER (WHERE o.charged_cents > 0) AS n, sum(o.charged_cents) AS charged, sum(o.refunded_cents) AS refunded,
			sum(` + recordedOn + `) AS recorded, 0 AS rank
		FROM commands c LEFT JOIN journal j ON j.seq = c.accepted_seq LEFT JOIN archived a ON a.seq = c.accepted_seq
			JOIN json_each(coalesce(j.data, a.data, '{}'), '$.labels') e
			JOIN operations o ON o.id > c.id || '/' AND o.id < c.id || '0' AND o.command_id = c.id
		GROUP BY e.key, e.value`,
	"day": `SELECT date(t.booked_at / 1000000, 'unixepoch') AS subject, '' AS name, count(*) FILTER (WHERE t.kind = 'charge' OR t.kind = 'suspense') AS n,
			coalesce(sum(t.cents) FILTER (WHERE t.kind = 'charge' OR t.kind = 'suspense'), 0) AS charged,
			coalesce(sum(t.cents) FILTER (WHERE t.kind = 'refund'), 0) AS refunded,
			coalesce(sum(CASE t.credit WHEN 'wallet' THEN t.cents ELSE -t.cents END) FILTER (WHERE t.kind = 'external' OR t.kind = 'funding'), 0) AS recorded,
			max(t.booked_at / 86400000000) AS rank
		FROM transfers t WHERE t.kind <> 'funding' OR t.order_no <> '' GROUP BY 1`,
}

// withoutSubject names, for each query, the remainder without a subject.
var withoutSubject = map[string]string{"order": "(no order)", "renewal": "(no renewal)", "ip": "(no single ip)", "label": "(no label)", "day": "(no day)"}

const (
	shownRows = `) SELECT subject, name, n, charged, refunded, recorded FROM totals_by ORDER BY name, rank DESC, subject LIMIT +?`
	wholeName = `) SELECT name, count(*), sum(charged), sum(refunded), sum(recorded) FROM totals_by GROUP BY name ORDER BY name LIMIT +?`
	bookWhole = `SELECT coalesce(sum(cents) FILTER (WHERE kind = 'charge' OR kind = 'suspense'), 0), coalesce(sum(cents) FILTER (WHERE kind = 'refund'), 0),
		` + OutsideCents + ` - (SELECT coalesce(sum(CASE debit WHEN 'wallet' THEN cents ELSE -cents END), 0) FROM transfers WHERE order_no <> '' AND kind = 'funding') FROM totals`
)

// TotalsBy sums the books by order, renewal, ip, label or day (UTC). It returns up to limit
// rows: the newest orders, renewals or days, the ips with the highest cost, or the first
// labels. Further rows (Rest) have the remainder. The rows add up to what the account was
// charged and recorded; for labels, the rows of each label name do.
func (l *Money) TotalsBy(ctx context.Context, what string, limit int) ([]BookTotal, error) {
	query, ok := TotalsBy[what]
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
	names, err := totalsOf(ctx, tx, `WITH totals_by AS (`+query+wholeName, limit, func(s sqlite.Scanner) (x BookTotal, err error) {
		err = s.Scan(&x.Name, &x.Count, &x.ChargedCents, &x.RefundedCents, &x.RecordedCents)
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

func totalsOf(ctx context.Context, q sqlite.Queryer, query string, limit int, scan func(sqlite.Scanner) (BookTotal, error)) ([]BookTotal, error) {
	return sqlite.Collect(sqlite.Query(ctx, q, query, limit), scan)
}

func scanTotal(s sqlite.Scanner) (x BookTotal, err error) {
	err = s.Scan(&x.Subject, &x.Name, &x.Count, &x.ChargedCents, &x.RefundedCents, &x.RecordedCents)
	return x, err
}

func (x *BookTotal) less(y BookTotal) {
	x.ChargedCents, x.RefundedCents, x.RecordedCents = x.ChargedCents-y.ChargedCents, x.RefundedCents-y.RefundedCents, x.RecordedCents-y.RecordedCents
}

// withRests adds two remainders after the rows of each name: the rows that the limit cut
// off, and the amounts without such a subject.
func withRests(what string, shown, names []BookTotal, book BookTotal) (all []BookTotal) {
	for _, whole := range names {
		further, none := whole, book
		further.Rest, none.Rest, none.Name = true, true, whole.Name
		none.less(whole)
		for _, x := range shown {
			if x.Name == whole.Name {
				all = append(all, x)
				further.less(x)
				further.Count--
			}
		}
		of := cmp.Or(whole.Name, what)
		if further.Count = max(0, further.Count); further.Count > 0 {
			further.Subject = fmt.Sprintf("(%d further by %s)", further.Count, of)
			all = append(all, further)
		}
		if none.ChargedCents != 0 || none.RefundedCents != 0 || none.RecordedCents != 0 {
			if none.Subject = withoutSubject[what]; whole.Name != "" {
				none.Subject = "(without " + whole.Name + ")"
			}
			all = append(all, none)
		}
	}
	return all
}

// SubjectTotal is the total of one order, proxy, label or day, in cents. Charged is before
// refunds; net is charged less refunded.
type SubjectTotal struct {
	Subject       string `json:"subject"`
	Count         int64  `json:"count"` // number of charges; for a BookTotal see TotalsBy
	ChargedCents  int64  `json:"charged_cents"`
	RefundedCents int64  `json:"refunded_cents"`
	NetCents      int64  `json:"net_cents"`
	// Rest marks a remainder after the rows of the same name.
	Rest bool `json:"rest,omitempty"`

	Name string // the label's name; the rows of each name add up to the account's total
}

// LabelText is the SQL text of label e. A key of an older version may contain '='. It is
// quoted, so that its label differs from all others.
const LabelText = `iif(instr(e.key, '=') > 0, '"' || e.key || '"', e.key) || '=' || e.value`

// Add adds another total, or subtracts it if sign is -1.
func (x *SubjectTotal) Add(y SubjectTotal, sign int64) {
	x.Count, x.ChargedCents = x.Count+sign*y.Count, x.ChargedCents+sign*y.ChargedCents
	x.RefundedCents, x.NetCents = x.RefundedCents+sign*y.RefundedCents, x.NetCents+sign*y.NetCents
}
