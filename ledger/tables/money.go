package tables

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/sqlite"
)

// Posting is one side of a double entry, as in the view v_postings. The postings of a fact
// sum to zero.
type Posting struct {
	Seq         int64     `json:"seq"`
	Time        time.Time `json:"time"`
	Kind        string    `json:"kind"`
	Account     string    `json:"account"`
	AmountCents int64     `json:"amount_cents"`
	Operation   string    `json:"operation_id"`
	OrderNo     string    `json:"order_no"`
	ProxyID     string    `json:"proxy_id"`
	Hand
}

// Hand says who booked an entry by hand, and why. It is empty for entries that follow from the
// provider's replies. User is the NATS user who requested the entry (see UserOf). CorrectsSeq
// is the row that the entry takes back or corrects.
type Hand struct {
	By          string `json:"by,omitempty"`
	Reason      string `json:"reason,omitempty"`
	User        string `json:"user,omitempty"`
	CorrectsSeq int64  `json:"corrects_seq,omitempty"`
}

const handOf = `coalesce((SELECT j.data FROM journal j WHERE j.seq = v.seq AND j.data ->> '$.by' <> ''),
	(SELECT a.data FROM archived a WHERE a.seq = v.seq AND a.data ->> '$.by' <> ''), '')`

// Postings returns what EachPosting yields.
func (l *Money) Postings(ctx context.Context, from int64, limit int) (all []Posting, err error) {
	_, err = l.EachPosting(ctx, from, limit, func(p Posting) error {
		all = append(all, p)
		return nil
	})
	return all, err
}

// EachPosting calls yield for up to limit postings, starting at a journal sequence. All postings
// of a fact stay together, even if the first fact alone exceeds limit. next is the sequence to
// continue with. It is 0 at the end.
func (l *Money) EachPosting(ctx context.Context, from int64, limit int, yield func(Posting) error) (next int64, err error) {
	n := 0
	var ofFact []Posting
	hand := func() error {
		if n > 0 && n+len(ofFact) > limit {
			next = ofFact[0].Seq
			return sqlite.ErrEnough
		}
		n += len(ofFact)
		for _, p := range ofFact {
			if err := yield(p); err != nil {
				return err
			}
		}
		ofFact = ofFact[:0]
		return nil
	}
	err = sqlite.Each(l.query(ctx, `SELECT `+postingColumns+` FROM v_postings v WHERE seq >= ? ORDER BY seq, n, amount_cents DESC`, from), func(s sqlite.Scanner) error {
		p, err := scanPosting(s)
		if err == nil && len(ofFact) > 0 && ofFact[0].Seq != p.Seq {
			err = hand()
		}
		ofFact = append(ofFact, p)
		return err
	})
	if err == nil {
		err = hand()
	}
	if errors.Is(err, sqlite.ErrEnough) {
		err = nil
	}
	return next, err
}

const postingColumns = `seq, time, kind, account, amount_cents, operation, order_no, proxy_id, ` + handOf

func scanPosting(s sqlite.Scanner) (p Posting, err error) {
	var hand string
	err = s.Scan(&p.Seq, sqlite.At(&p.Time), &p.Kind, &p.Account, &p.AmountCents, &p.Operation, &p.OrderNo, &p.ProxyID, &hand)
	if err == nil && hand != "" {
		err = json.Unmarshal([]byte(hand), &p.Hand)
	}
	return p, err
}

// Kinds are the kinds of ledger entries.
var Kinds = []string{"charge", "refund", "suspense", "resolution", "funding", "external"}

// PostingsBefore lists the postings of up to limit rows before a journal sequence, newest first.
// kind filters by kind of entry. If it is "", all kinds are listed. If before is 0, the list
// starts with the newest row. next is the sequence to pass for the next page. It is 0 after the
// last page.
func (l *Money) PostingsBefore(ctx context.Context, kind string, before int64, limit int) (all []Posting, next int64, err error) {
	if before <= 0 {
		before = 1 << 62
	}
	query := `SELECT DISTINCT seq FROM transfers WHERE seq < ?2 AND (?1 = '' OR kind = +?1) ORDER BY seq DESC LIMIT +?3`
	if kind != "" && kind != "charge" {
		query = `SELECT DISTINCT seq FROM transfers WHERE kind = +?1 AND kind <> 'charge' AND seq < ?2 ORDER BY seq DESC LIMIT +?3`
	}
	seqs, err := sqlite.Collect(l.query(ctx, query, kind, before, limit+1), sqlite.Value[int64])
	if err != nil {
		return nil, 0, err
	}
	if len(seqs) > limit {
		seqs = seqs[:limit]
		next = seqs[limit-1]
	}
	all, err = l.PostingsOf(ctx, seqs)
	if kind != "" {
		all = slices.DeleteFunc(all, func(p Posting) bool { return p.Kind != kind })
	}
	return all, next, err
}

// WalletsAfter returns the ledger's wallet balance, in cents, after each of the given rows.
// The rows must be in descending order. It looks through at most the newest LookedMost
// entries and leaves out older rows.
func (l *Money) WalletsAfter(ctx context.Context, seqs []int64) (map[int64]int64, error) {
	tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	now, err := balanceOf(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	wallet, after, left, above := now.WalletCents, map[int64]int64{}, failpoint.Size(ctx, "list.looked", LookedMost), int64(math.MaxInt64)
	for _, seq := range seqs {
		var moved, looked int64
		err := tx.QueryRowContext(ctx, `SELECT coalesce(sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents END), 0), count(*)
			FROM (SELECT debit, credit, cents FROM transfers WHERE seq > ? AND seq <= ? LIMIT +?)`, seq, above, left+1).Scan(&moved, &looked)
		if left -= looked; err != nil || left < 0 {
			return after, err
		}
		wallet, above = wallet-moved, seq
		after[seq] = wallet
	}
	return after, nil
}

// KindTotal is the sum of the entries of one kind from one ledger account to another.
type KindTotal struct {
	Debit, Credit string
	Cents         int64
}

// TotalsOf sums the entries of a kind.
func (l *Money) TotalsOf(ctx context.Context, kind string) ([]KindTotal, error) {
	return sqlite.Collect(l.query(ctx, `SELECT debit, credit, cents FROM totals WHERE kind = ? ORDER BY debit, credit`, kind), sqlite.Into(func(t *KindTotal) []any {
		return []any{&t.Debit, &t.Credit, &t.Cents}
	}))
}

// PostingsOf lists the postings of the given journal rows, in the order of seqs.
func (l *Money) PostingsOf(ctx context.Context, seqs []int64) (all []Posting, err error) {
	for _, seq := range seqs {
		of, err := sqlite.Collect(l.query(ctx, `SELECT `+postingColumns+` FROM v_postings v WHERE seq = ? ORDER BY n, amount_cents DESC`, seq), scanPosting)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

// Corrects returns the row that the entry takes back or corrects. It returns "" if there is none.
func (h Hand) Corrects() string {
	if h.CorrectsSeq == 0 {
		return ""
	}
	return strconv.FormatInt(h.CorrectsSeq, 10)
}

// BookTotal is the cost of one order, renewal, proxy, label or day, in cents. NetCents is
// ChargedCents less RefundedCents plus RecordedCents.
type BookTotal struct {
	SubjectTotal

	// RecordedCents is the sum of operators' records. A record is money spent outside Perennial,
	// or money returned for an order, which is subtracted.
	RecordedCents int64 `json:"recorded_cents"`
	// Zone is the time zone of a day.
	Zone string `json:"zone,omitempty"`
}

// recordedOn sums the records for the order of operation o. It is 0 unless o is the first
// operation with that order number.
const recordedOn = `CASE WHEN o.order_no <> '' AND o.id = (SELECT min(x.id) FROM operations x WHERE x.order_no <> '' AND x.order_no = o.order_no)
	THEN (SELECT coalesce(sum(CASE r.credit WHEN 'wallet' THEN r.cents ELSE -r.cents END), 0) FROM transfers r
		WHERE r.order_no <> '' AND (r.kind = 'external' OR r.kind = 'funding') AND r.order_no = o.order_no) ELSE 0 END`

// TotalsBy has the queries of [Money.TotalsBy], by subject. They select subject, name, count,
// charged, refunded, recorded, and a rank by time or cost. The count is the number of proxies in
// an order or renewal, of renewals of a proxy, of commands with a label, or of charges on a day.
// A command without a charge counts 0.
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

var withoutSubject = map[string]string{"order": "(no order)", "renewal": "(no renewal)", "ip": "(no single ip)", "label": "(no label)", "day": "(no day)"}

const (
	shownRows = `) SELECT subject, name, n, charged, refunded, recorded FROM totals_by ORDER BY name, rank DESC, subject LIMIT +?`
	wholeName = `) SELECT name, count(*), sum(charged), sum(refunded), sum(recorded) FROM totals_by GROUP BY name ORDER BY name LIMIT +?`
	bookWhole = `SELECT coalesce(sum(cents) FILTER (WHERE kind = 'charge' OR kind = 'suspense'), 0), coalesce(sum(cents) FILTER (WHERE kind = 'refund'), 0),
		` + OutsideCents + ` - (SELECT coalesce(sum(CASE debit WHEN 'wallet' THEN cents ELSE -cents END), 0) FROM transfers WHERE order_no <> '' AND kind = 'funding') FROM totals`
)

// TotalsBy sums the books by order, renewal, ip, label or day (UTC). It returns up to limit rows:
// the newest orders, renewals or days, the ips with the highest cost, or the first labels.
// Additional rows (Rest) have the remainder. The rows add up to what the account was charged and
// recorded. For labels, the rows of each label name add up to that sum.
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
	shown, err := sqlite.Collect(sqlite.Query(ctx, tx, `WITH totals_by AS (`+query+shownRows, limit), sqlite.Into(func(x *BookTotal) []any {
		return []any{&x.Subject, &x.Name, &x.Count, &x.ChargedCents, &x.RefundedCents, &x.RecordedCents}
	}))
	if err != nil {
		return nil, err
	}
	names, err := sqlite.Collect(sqlite.Query(ctx, tx, `WITH totals_by AS (`+query+wholeName, limit), sqlite.Into(func(x *BookTotal) []any {
		return []any{&x.Name, &x.Count, &x.ChargedCents, &x.RefundedCents, &x.RecordedCents}
	}))
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

func (x *BookTotal) less(y BookTotal) {
	x.ChargedCents, x.RefundedCents, x.RecordedCents = x.ChargedCents-y.ChargedCents, x.RefundedCents-y.RefundedCents, x.RecordedCents-y.RecordedCents
}

// withRests adds two remainders after the rows of each name. One is for the rows that the limit
// cut off. The other is for the amounts that belong to no row of this name.
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

// SubjectTotal is the total of one order, proxy, label or day, in cents. ChargedCents is before
// refunds. NetCents is ChargedCents less RefundedCents.
type SubjectTotal struct {
	Subject       string `json:"subject"`
	Count         int64  `json:"count"` // number of charges; for a BookTotal see TotalsBy
	ChargedCents  int64  `json:"charged_cents"`
	RefundedCents int64  `json:"refunded_cents"`
	NetCents      int64  `json:"net_cents"`
	// Rest marks a remainder after the rows of the same name.
	Rest bool `json:"rest,omitempty"`

	// Name is the label's name. The rows of each name add up to the account's total.
	Name string `json:"name,omitempty"`
}

// LabelText is the SQL text of label e. A key of an older version may contain '='. Such a key is
// quoted, so that no two labels have the same text.
const LabelText = `iif(instr(e.key, '=') > 0, '"' || e.key || '"', e.key) || '=' || e.value`

// Add adds another total, or subtracts it if sign is -1.
func (x *SubjectTotal) Add(y SubjectTotal, sign int64) {
	x.Count, x.ChargedCents = x.Count+sign*y.Count, x.ChargedCents+sign*y.ChargedCents
	x.RefundedCents, x.NetCents = x.RefundedCents+sign*y.RefundedCents, x.NetCents+sign*y.NetCents
}

// Exposure is the effect of one unfinished or unresolved operation on the provider's wallet
// beyond the booked amounts. The operation may have moved this money already, or may still move
// it.
type Exposure struct {
	OperationID string
	CommandID   string
	Kind        fact.Kind
	State       fact.State
	Unpriced    int64 // lines of a renewal that may still be charged
	OrderNo     string
	// Charge is the estimated amount that may still be charged. It is unknown without an
	// estimate.
	Charge fact.Cents
	// ReturnCents is the part of the booked amount that may still be refunded.
	ReturnCents int64
}

// Zero reports whether nothing may still be charged or refunded.
func (x Exposure) Zero() bool { return x.Charge == fact.Known(0) && x.ReturnCents == 0 }

// Position is the balance and all exposures at one moment.
type Position struct {
	Balance
	Open []Exposure
}

// WithUnbooked returns the balance with Unbooked set. Unbooked is the sum of the amounts that may
// still be charged.
func (p Position) WithUnbooked() Balance {
	var sum fact.Sum
	operations := 0
	for _, x := range p.Open {
		if x.Charge != fact.Known(0) {
			operations++
			sum = sum.Add(x.Charge)
		}
	}
	p.Unbooked = &Unbooked{operations, sum.Total(), sum.Lacks}
	return p.Balance
}

// exposureQuery selects operations that may have been sent and whose outcome is not booked.
// It also selects settled renewals with unresolved proxies, because a proxy without a booked
// amount may still be charged. It leaves out operations that are accepted, held or waiting without
// an attempt that may have been executed: they have not moved money.
const exposureQuery = `SELECT o.id, o.command_id, o.kind, o.state, o.order_no, o.estimate_cents, o.charged_cents, o.refunded_cents,
	(SELECT count(*) FROM lines l WHERE l.operation = o.id AND (l.state = 'pending' OR l.state = 'unresolved' AND l.charged_cents = 0)),
	(SELECT coalesce(sum(l.charged_cents - l.refunded_cents), 0) FROM lines l WHERE l.operation = o.id AND l.state = 'unresolved')
	FROM operations o WHERE o.id IN (
		SELECT id FROM operations WHERE live = 1 AND (state IN ('sending', 'open', 'review') OR (state IN ('waiting', 'held', 'accepted') AND ambiguous > 0))
		UNION ALL
		SELECT s.id FROM lines u CROSS JOIN operations s ON s.id = u.operation WHERE u.claim = 1 AND u.state = 'unresolved' AND s.live = 0)
	ORDER BY o.id`

// Position reads the account's balance and its exposures at one moment.
func (l *Money) Position(ctx context.Context, account string) (p Position, err error) {
	err = sqlite.Snapshot(ctx, l.read, func(tx *sql.Tx) error {
		if p.Balance, err = balanceOf(ctx, tx, account); err == nil {
			p.Open, err = sqlite.Collect(sqlite.Query(ctx, tx, exposureQuery), scanExposure)
		}
		return err
	})
	p.Open = slices.DeleteFunc(p.Open, Exposure.Zero)
	return p, err
}

func scanExposure(s sqlite.Scanner) (Exposure, error) {
	var x Exposure
	var estimate, charged, refunded, unresolved int64
	err := s.Scan(&x.OperationID, &x.CommandID, &x.Kind, &x.State, &x.OrderNo, &estimate, &charged, &refunded, &x.Unpriced, &unresolved)
	x.ReturnCents = unresolved
	mayCharge := x.Unpriced > 0
	if x.Kind.MakesOrder() {
		mayCharge, x.ReturnCents = charged == 0, charged-refunded
	}
	if x.Charge = fact.Known(0); mayCharge {
		x.Charge = fact.Estimated(estimate)
	}
	return x, err
}

const walletsMost = 10_000

// WalletsSince lists the ledger's wallet balance, in cents, before each booking since an
// instant, newest first. It leaves out corrections, because they do not change the
// provider's wallet.
func (l *Money) WalletsSince(ctx context.Context, since time.Time) (before []int64, err error) {
	tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	after, err := SeqAt(ctx, tx, since)
	if err != nil {
		return nil, err
	}
	now, err := balanceOf(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	wallet := now.WalletCents
	err = sqlite.Each(sqlite.Query(ctx, tx, `SELECT sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents ELSE 0 END),
			seq IN (SELECT seq FROM journal WHERE seq > ?1 AND type = 'ledger.recorded' AND data ->> '$.corrects_seq' > 0)
		FROM transfers WHERE seq > ?1 GROUP BY seq ORDER BY seq DESC LIMIT +?2`, after, walletsMost), func(s sqlite.Scanner) error {
		var moved int64
		var corrects bool
		err := s.Scan(&moved, &corrects)
		if wallet -= moved; !corrects {
			before = append(before, wallet)
		}
		return err
	})
	return before, err
}

// WalletChange returns by how many cents the entries booked since an instant have changed the
// ledger's wallet.
func (l *Money) WalletChange(ctx context.Context, since time.Time) (cents int64, err error) {
	after, err := SeqAt(ctx, l.read, since)
	if err != nil {
		return 0, err
	}
	return sqlite.Value[int64](l.row(ctx, `SELECT coalesce(sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents END), 0) FROM transfers WHERE seq > ?`, after))
}

// MoneyMoved reports whether a fact may have moved money. It looks at the rows after the sequence
// after, up to and including the sequence through.
func (l *Money) MoneyMoved(ctx context.Context, after, through int64) (bool, error) {
	if after == through {
		return false, nil
	}
	return sqlite.Found(l.row(ctx, `SELECT EXISTS (SELECT 1 FROM journal WHERE seq > ? AND seq <= ? AND (
		type IN ('operation.sending', 'operation.waiting', 'operation.review', 'operation.resolved', 'ledger.recorded')
		OR type LIKE 'order.%' OR type LIKE 'renewal.%'))`, after, through))
}

func balanceOf(ctx context.Context, tx *sql.Tx, account string) (b Balance, err error) {
	b.Account = account
	err = tx.QueryRowContext(ctx, balanceQuery).
		Scan(&b.Currency, &b.WalletCents, &b.ChargedCents, &b.RefundedCents, &b.SuspenseCents, &b.FundingCents, &b.ExternalCents)
	if err != nil {
		return b, err
	}
	b.Head, err = chain.LastRow(tx.QueryRowContext(ctx, chain.LastRowQuery))
	return b, err
}

// SweepSpending returns the cost of the runs that a schedule planned at or after an instant. The
// cost is in cents, with refunds subtracted. An unfinished command counts at least its estimate.
// Plans that need approval do not count.
func (l *Money) SweepSpending(ctx context.Context, schedule string, since time.Time) (int64, error) {
	return sqlite.Value[int64](l.row(ctx, `SELECT coalesce(sum(CASE
		WHEN c.id IS NOT NULL THEN
			(SELECT CASE WHEN max(o.live) = 1 THEN max(s.estimate_cents, sum(o.charged_cents - o.refunded_cents))
				ELSE coalesce(sum(o.charged_cents - o.refunded_cents), 0) END
			FROM operations o WHERE o.id > s.command_id || '/' AND o.id < s.command_id || '0' AND o.command_id = s.command_id)
		WHEN l.state = 'held' OR r.id IS NOT NULL THEN 0
		ELSE s.estimate_cents END), 0)
		FROM sweep_commands s LEFT JOIN commands c ON c.id = s.command_id LEFT JOIN rejections r ON r.id = s.command_id
			LEFT JOIN slots l ON l.schedule = s.schedule AND l.slot_at = s.slot_at
		WHERE s.schedule = ? AND s.planned_at >= ?`, schedule, sqlite.Micros(since)))
}

// Untaken returns the estimated cost, in cents, of schedules' commands that were planned at
// or after an instant and are neither accepted nor refused yet. Plans that need approval do
// not count.
func (l *Money) Untaken(ctx context.Context, since time.Time) (int64, error) {
	return sqlite.Value[int64](l.row(ctx, `SELECT `+untaken, sqlite.Micros(since)))
}

// RenewalsQueued counts the proxies whose requested renewal has no outcome yet and is not in
// review. It includes schedules' commands that were planned at or after an instant and are
// neither accepted nor refused yet.
func (l *Money) RenewalsQueued(ctx context.Context, since time.Time) (int, error) {
	return sqlite.Value[int](l.row(ctx, `SELECT (SELECT count(*) FROM lines x CROSS JOIN operations o ON o.id = x.operation
			WHERE x.claim = 1 AND x.state = 'pending' AND o.state <> 'review')
		+ coalesce((SELECT sum(s.proxies) FROM sweep_commands s JOIN slots l ON l.schedule = s.schedule AND l.slot_at = s.slot_at
			WHERE s.planned_at >= ? AND l.state <> 'held'
			AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = s.command_id)
			AND NOT EXISTS (SELECT 1 FROM rejections r WHERE r.id = s.command_id)), 0)`, sqlite.Micros(since)))
}

// RenewalsSettled counts the proxies whose renewal settled at or after an instant, in
// operations with journal rows after seq.
func (l *Money) RenewalsSettled(ctx context.Context, since time.Time, seq int64) (int, error) {
	return sqlite.Value[int](l.row(ctx, `SELECT count(*) FROM (SELECT DISTINCT +operation AS operation FROM journal WHERE seq > ? AND +operation <> '') j
		CROSS JOIN operations o ON o.id = j.operation CROSS JOIN lines x ON x.operation = o.id
		WHERE o.kind = 'renewal' AND x.settled_at >= ?`, seq, sqlite.Micros(since)))
}

const untaken = `coalesce((SELECT sum(s.estimate_cents) FROM sweep_commands s JOIN slots l ON l.schedule = s.schedule AND l.slot_at = s.slot_at
	WHERE s.planned_at >= ?1 AND l.state <> 'held'
	AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = s.command_id)
	AND NOT EXISTS (SELECT 1 FROM rejections r WHERE r.id = s.command_id)), 0)`

// Reserved returns what work in progress may still charge, in cents, beyond what the
// provider's wallet shows: unfinished operations, and Untaken. It leaves out operations in
// review or awaiting delivery, because the wallet may already show their charges. It also
// leaves out orders on hold: an order that may be released later must not prevent a renewal.
func (l *Money) Reserved(ctx context.Context, since time.Time) (int64, error) {
	return sqlite.Value[int64](l.row(ctx, `SELECT `+untaken+`
		+ coalesce((SELECT sum(max(planned - paid, estimate - net, 0)) FROM (
			SELECT coalesce(s.estimate_cents, 0) AS planned, sum(o.estimate_cents) AS estimate, sum(o.charged_cents - o.refunded_cents) AS net,
				(SELECT sum(x.charged_cents - x.refunded_cents) FROM operations x
					WHERE x.id > o.command_id || '/' AND x.id < o.command_id || '0' AND x.command_id = o.command_id) AS paid
			FROM operations o LEFT JOIN sweep_commands s ON s.command_id = o.command_id
			WHERE o.live = 1 AND (o.state IN ('accepted', 'sending', 'waiting') OR o.state = 'held' AND o.kind <> 'order') GROUP BY o.command_id)), 0)`, sqlite.Micros(since)))
}

// Committed returns the charges since an instant minus their refunds, plus the expected cost of
// pending operations. It leaves out the operation except. It counts the whole quarter of an hour
// that contains the instant; every midnight begins such a quarter.
func (l *Money) Committed(ctx context.Context, since time.Time, except string) (int64, error) {
	return sqlite.Value[int64](l.row(ctx, `SELECT
		max((SELECT coalesce(sum(cents), 0) FROM net_charges WHERE quarter >= ?), 0)
		+ coalesce((SELECT sum(estimate_cents - charged_cents) FROM operations
			WHERE live = 1 AND state IN ('sending', 'waiting', 'open', 'review') AND charged_cents < estimate_cents AND id <> ?), 0)`,
		QuarterOf(sqlite.Micros(since)), except))
}

// Exposed returns what the renewals that Unpriced counts may cost, at the highest known price. It
// returns 0 if no price is known. Committed leaves out these renewals.
func (l *Money) Exposed(ctx context.Context, since time.Time, except string) (cents int64, err error) {
	return l.exposed(ctx, `SELECT x.duration_days, count(*) FROM operations o CROSS JOIN lines x ON x.operation = o.id
		WHERE o.live = 1 AND `+unpriced+` AND (`+sentUnpriced+` OR `+openUnpriced+`) AND x.claim = 1 GROUP BY x.duration_days`, sqlite.Micros(since), except)
}

// SweepExposed returns what a schedule's renewals of unknown price may cost, at the highest known
// price. It counts renewals that were planned at or after an instant, have been sent, and have no
// outcome. SweepSpending leaves out these renewals.
func (l *Money) SweepExposed(ctx context.Context, schedule string, since time.Time) (cents int64, err error) {
	return l.exposed(ctx, `SELECT x.duration_days, count(*) FROM sweep_commands s
		CROSS JOIN operations o ON o.id > s.command_id || '/' AND o.id < s.command_id || '0' AND o.command_id = s.command_id
		CROSS JOIN lines x ON x.operation = o.id
		WHERE s.schedule = ?1 AND s.planned_at >= ?2 AND s.estimate_cents = 0 AND o.live = 1 AND o.estimate_cents = 0 AND o.charged_cents = 0
			AND o.first_sent_at IS NOT NULL AND x.claim = 1 GROUP BY x.duration_days`, schedule, sqlite.Micros(since))
}

// exposed sums the possible cost of the rows of a query. Each row has a duration in days and
// a number of proxies.
func (l *Money) exposed(ctx context.Context, query string, args ...any) (cents int64, err error) {
	type term struct{ days, proxies int64 }
	terms, err := sqlite.Collect(l.query(ctx, query, args...), sqlite.Into(func(t *term) []any { return []any{&t.days, &t.proxies} }))
	for _, t := range terms {
		most, err := l.Dearest(ctx, t.days)
		if err != nil {
			return 0, err
		}
		cents += t.proxies * most
	}
	return cents, err
}

// Conditions on an operation o of unknown price, other than ?2. Either it is being sent or
// awaits delivery, or it was first sent at or after instant ?1, may have been executed, and
// has no outcome yet.
const (
	unpriced     = `o.estimate_cents = 0 AND o.charged_cents = 0 AND o.id <> ?2`
	sentUnpriced = `(o.state = 'sending' OR o.state = 'open')`
	openUnpriced = `((o.state = 'review' OR (o.state = 'waiting' AND o.ambiguous > 0)) AND coalesce(o.first_sent_at, o.updated_at) >= ?1)`
)

// Unpriced counts the operations that may be charged an unknown amount, because they have no
// estimate and no charge. It leaves out the operation except. underWay counts the operations that
// are being sent or await delivery. open counts the operations that were first sent at or after
// an instant, may have been executed and have no outcome yet.
func (l *Money) Unpriced(ctx context.Context, except string, since time.Time) (underWay, open int64, err error) {
	err = l.row(ctx, `SELECT count(*) FILTER (WHERE `+sentUnpriced+`), count(*) FILTER (WHERE `+openUnpriced+`)
		FROM operations o WHERE o.live = 1 AND `+unpriced, sqlite.Micros(since), except).Scan(&underWay, &open)
	return underWay, open, err
}

// QuarterMicros is the span of one row of net_charges. In every present time zone midnight
// starts a new quarter.
const QuarterMicros = int64(15 * time.Minute / time.Microsecond)

// QuarterOf returns the quarter of an hour that contains an instant, counted since 1970 UTC.
func QuarterOf(at int64) int64 {
	q := at / QuarterMicros
	if at%QuarterMicros < 0 {
		q-- // before 1970
	}
	return q
}
