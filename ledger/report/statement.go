// The statement of a period: opening balance, movements, closing balance.

package report

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

var scanSubject = sqlite.Into(func(x *tables.SubjectTotal) []any {
	return []any{&x.Subject, &x.Name, &x.Count, &x.ChargedCents, &x.RefundedCents, &x.NetCents}
})

// Statement is one account's books over a period, in cents: the opening balance, the
// movements by day and by label, and the closing balance. OpeningCents plus the wallet's
// movements equals ClosingCents.
type Statement struct {
	Account      string    `json:"account"`
	AccountID    string    `json:"account_id"`
	Environment  string    `json:"environment"`
	Currency     string    `json:"currency"`
	From         time.Time `json:"from"`
	To           time.Time `json:"to"`
	OpeningCents int64     `json:"opening_cents"`
	ClosingCents int64     `json:"closing_cents"`
	// FundingCents is all the money put in. OpenedCents is the part that was in the wallet when
	// the ledger was opened.
	FundingCents  int64               `json:"funding_cents"`
	OpenedCents   int64               `json:"opened_cents"`
	OutsideCents  int64               `json:"external_cents"`
	Orders        tables.SubjectTotal `json:"orders"`
	Renewals      tables.SubjectTotal `json:"renewals"`
	SuspenseCents int64               `json:"suspense_cents"` // charged and unresolved at the end of the period
	// Movements of suspense: SuspenseOpeningCents + SuspenseChargedCents -
	// SuspenseResolvedCents - SuspenseReturnedCents = SuspenseCents.
	SuspenseOpeningCents  int64 `json:"suspense_opening_cents"`
	SuspenseChargedCents  int64 `json:"suspense_charged_cents"`
	SuspenseResolvedCents int64 `json:"suspense_resolved_cents"`
	SuspenseReturnedCents int64 `json:"suspense_returned_cents"`
	// Corrections is the part of the sums above that takes back or corrects earlier
	// entries; nil if there is none.
	Corrections *Corrections          `json:"corrections,omitempty"`
	Days        []tables.SubjectTotal `json:"days"`
	Labels      []tables.SubjectTotal `json:"labels"`
	// Outstanding lists operations that are not in the sums above: they were charged, or may
	// have been charged, by the end of the period and are not booked in it. OutstandingFurther
	// is how many more there are.
	Outstanding        []Outstanding `json:"outstanding"`
	OutstandingFurther int64         `json:"outstanding_further,omitempty"`
	// Head is the last row before the end of the period. HeadNote says why Head is unknown, or
	// is "".
	Head     chain.Head `json:"head"`
	HeadNote string     `json:"head_note,omitempty"`
	// Finished says that the period has ended by every clock that is accurate enough for the
	// provider, so that nothing more can be booked in it. Otherwise Until is the time up to
	// which the statement was summed.
	Finished bool       `json:"finished"`
	Until    *time.Time `json:"until,omitempty"`
}

// Corrections sums operators' entries that take back or correct an earlier entry.
type Corrections struct {
	Count         int64 `json:"count"`
	ChargedCents  int64 `json:"charged_cents"`
	RefundedCents int64 `json:"refunded_cents"`
	FundingCents  int64 `json:"funding_cents"`
	OutsideCents  int64 `json:"external_cents"`
}

// Text returns the number of corrections and the sums that are not 0.
func (c Corrections) Text() string {
	parts := []string{english.Plural(int(c.Count), "correction", "") + " in these sums"}
	for _, x := range []Movement{{"charged", c.ChargedCents, false}, {"refunded", c.RefundedCents, false}, {"top-ups", c.FundingCents, false}, {"spent outside Perennial", c.OutsideCents, false}} {
		if x.Cents != 0 {
			parts = append(parts, x.Name+" "+fact.Amount(x.Cents, ""))
		}
	}
	return strings.Join(parts, ", ")
}

func (s *Statement) corrected(ctx context.Context, q sqlite.Queryer, from, to int64) error {
	var c Corrections
	err := q.QueryRowContext(ctx, `SELECT count(DISTINCT t.seq), coalesce(sum(t.cents) FILTER (WHERE t.kind = 'charge'), 0), coalesce(sum(t.cents) FILTER (WHERE t.kind = 'refund'), 0),
		`+tables.FundingCents+`, `+tables.OutsideCents+`
		FROM (SELECT seq FROM journal WHERE type = 'ledger.recorded' AND seq >= ?1 AND seq < ?2 AND data ->> '$.corrects_seq' > 0
			UNION ALL SELECT seq FROM archived WHERE type = 'ledger.recorded' AND seq >= ?1 AND seq < ?2 AND data ->> '$.corrects_seq' > 0) r
		CROSS JOIN transfers t ON t.seq = r.seq`, from, to).Scan(&c.Count, &c.ChargedCents, &c.RefundedCents, &c.FundingCents, &c.OutsideCents)
	if err != nil {
		return fmt.Errorf("sum the corrections: %w", err)
	}
	if c.Count > 0 {
		s.Corrections = &c
	}
	return nil
}

// Statement returns the statement of a period, from one snapshot of the books.
func (l Books) Statement(ctx context.Context, account string, p Period) (*Statement, error) {
	snapshot, err := l.DB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = snapshot.Rollback() }()
	s := &Statement{Account: account, From: p.From, To: p.To, Finished: true}
	if now := l.Clock().UTC().Truncate(time.Second); now.Before(p.To.Add(fact.ClockTolerance)) {
		if now.After(p.To) {
			now = p.To
		}
		s.Finished, s.Until = false, &now
	}
	err = snapshot.QueryRowContext(ctx, `SELECT account_id, environment, currency FROM binding`).Scan(&s.AccountID, &s.Environment, &s.Currency)
	if err != nil {
		return nil, fmt.Errorf("whose book it is: %w", sqlite.NotFound(err))
	}
	from, to, err := p.bounds(ctx, snapshot)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(s.sumUp(ctx, snapshot, from, to), s.corrected(ctx, snapshot, from, to), s.subjects(ctx, snapshot, from, to), s.unbooked(ctx, snapshot, to))
}

// inPeriod selects the transfers of the period: from sequence ?1 up to, but not including,
// ?2.
const inPeriod = ` FROM transfers t WHERE t.seq >= ?1 AND t.seq < ?2`

// sumUp works back from the present sums, so that it reads only the entries in and after
// the period.
func (s *Statement) sumUp(ctx context.Context, q sqlite.Queryer, from, to int64) error {
	const change = `coalesce(sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents END), 0),
		coalesce(sum(CASE WHEN debit = 'suspense' THEN cents WHEN credit = 'suspense' THEN -cents END), 0)`
	var wallet, suspense, walletSince, suspenseSince, walletIn int64
	if err := q.QueryRowContext(ctx, `SELECT `+change+` FROM totals`).Scan(&wallet, &suspense); err != nil {
		return fmt.Errorf("sum the book: %w", err)
	}
	if err := q.QueryRowContext(ctx, `SELECT `+change+inPeriod, to, int64(math.MaxInt64)).Scan(&walletSince, &suspenseSince); err != nil {
		return fmt.Errorf("sum what came after: %w", err)
	}
	err := q.QueryRowContext(ctx, `SELECT coalesce(sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents END), 0),
		`+tables.FundingCents+`, `+tables.OutsideCents+`,
		coalesce(sum(cents) FILTER (WHERE debit = 'suspense'), 0), coalesce(sum(cents) FILTER (WHERE credit = 'suspense' AND debit <> 'wallet'), 0),
		coalesce(sum(cents) FILTER (WHERE credit = 'suspense' AND debit = 'wallet'), 0)`+inPeriod, from, to).
		Scan(&walletIn, &s.FundingCents, &s.OutsideCents, &s.SuspenseChargedCents, &s.SuspenseResolvedCents, &s.SuspenseReturnedCents)
	if err != nil {
		return fmt.Errorf("sum the period: %w", err)
	}
	err = q.QueryRowContext(ctx, `SELECT coalesce(sum(t.cents), 0) FROM transfers t LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq
		WHERE t.kind = 'funding' AND t.kind <> 'charge' AND t.seq >= ?1 AND t.seq < ?2 AND coalesce(j.type, a.type) = 'ledger.opened'`, from, to).Scan(&s.OpenedCents)
	if err != nil {
		return fmt.Errorf("find the opening balance: %w", err)
	}
	s.ClosingCents = wallet - walletSince
	s.OpeningCents = s.ClosingCents - walletIn
	s.SuspenseCents = suspense - suspenseSince
	s.SuspenseOpeningCents = s.SuspenseCents - s.SuspenseChargedCents + s.SuspenseResolvedCents + s.SuspenseReturnedCents
	head, known, err := tables.HeadBefore(ctx, q, s.To)
	if known {
		s.Head = head
	}
	switch {
	case !known:
		s.HeadNote = "the last row of the period is in an archive, and it was archived by a version that kept no heads of months"
	case head.Seq == 0:
		s.HeadNote = "the journal begins after the period"
	}
	return err
}

// charges counts and sums charges and refunds.
const charges = `count(*) FILTER (WHERE t.kind = 'charge' OR t.kind = 'suspense'),
	coalesce(sum(t.cents) FILTER (WHERE t.kind = 'charge' OR t.kind = 'suspense'), 0),
	coalesce(sum(t.cents) FILTER (WHERE t.kind = 'refund'), 0),
	coalesce(sum(CASE WHEN t.kind = 'charge' OR t.kind = 'suspense' THEN t.cents WHEN t.kind = 'refund' THEN -t.cents END), 0)`

// subjects sums the period by kind, day and label.
func (s *Statement) subjects(ctx context.Context, q sqlite.Queryer, from, to int64) error {
	sum := func(query string) ([]tables.SubjectTotal, error) {
		return sqlite.Collect(sqlite.Query(ctx, q, query, from, to), scanSubject)
	}
	kinds, err := sum(`SELECT CASE WHEN t.debit = 'orders' OR t.credit = 'orders' THEN 'orders' ELSE 'renewals' END, '', ` + charges + inPeriod + ` AND t.operation <> '' GROUP BY 1`)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		if k.Subject == "orders" {
			s.Orders = k
		} else {
			s.Renewals = k
		}
	}
	if s.Days, err = sum(`SELECT date(t.booked_at / 1000000, 'unixepoch'), '', ` + charges + inPeriod + ` AND t.operation <> '' GROUP BY 1 ORDER BY 1`); err != nil {
		return err
	}
	labels, err := sum(`SELECT ` + tables.LabelText + `, e.key, ` + charges + ` FROM transfers t JOIN operations o ON o.id = t.operation JOIN commands c ON c.id = o.command_id
		LEFT JOIN journal cj ON cj.seq = c.accepted_seq LEFT JOIN archived ca ON ca.seq = c.accepted_seq
		JOIN json_each(coalesce(cj.data, ca.data, '{}'), '$.labels') e
		WHERE t.seq >= ?1 AND t.seq < ?2 GROUP BY e.key, e.value ORDER BY e.key, e.value`)
	s.Labels = s.withoutLabels(labels)
	return err
}

// withoutLabels adds, for each label name, a row with the charges that do not have this
// label. The rows of each name then add up to all orders and renewals.
func (s *Statement) withoutLabels(labels []tables.SubjectTotal) (all []tables.SubjectTotal) {
	without := s.Orders
	without.Add(s.Renewals, 1)
	rest := without
	for i, x := range labels {
		all = append(all, x)
		rest.Add(x, -1)
		if i+1 < len(labels) && labels[i+1].Name == x.Name {
			continue
		}
		rest.Subject, rest.Name, rest.Rest = "(without "+x.Name+")", x.Name, true
		if rest.Count != 0 || rest.ChargedCents != 0 || rest.RefundedCents != 0 {
			all = append(all, rest)
		}
		rest = without
	}
	return all
}
