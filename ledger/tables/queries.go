package tables

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

type reading struct{ read *sql.DB }

func (r reading) query(ctx context.Context, query string, args ...any) sqlite.Rows {
	return sqlite.Query(ctx, r.read, query, args...)
}

func (r reading) row(ctx context.Context, query string, args ...any) sqlite.Scanner {
	return r.read.QueryRowContext(ctx, query, args...)
}

// from returns a source of rows for a query that also runs within the writer's transaction.
func (r reading) from(ctx context.Context) sqlite.Source { return source{ctx, r} }

type source struct {
	ctx  context.Context
	read reading
}

func (s source) Query(query string, args ...any) sqlite.Rows {
	return s.read.query(s.ctx, query, args...)
}

func (s source) QueryRow(query string, args ...any) sqlite.Scanner {
	return s.read.row(s.ctx, query, args...)
}

type journal interface {
	Row(ctx context.Context, seq int64) (chain.Row, error)
}

// Operations reads commands, operations, their lines and reviews.
type Operations struct {
	reading

	journal journal
}

// Fleet reads the table of proxies: listings, expiries, renewals and prices.
type Fleet struct{ reading }

// Sweeps reads the scheduled times of schedules, their plans and their commands.
type Sweeps struct {
	reading

	journal journal
}

// Money reads the books: postings, spending, exposure and comparisons with the provider.
type Money struct{ reading }

// Metrics reads the counts and ages that are exported as metrics.
type Metrics struct{ reading }

// Queries has the queries of a ledger, by subject.
type Queries struct {
	Operations *Operations
	Fleet      *Fleet
	Sweeps     *Sweeps
	Money      *Money
	Metrics    *Metrics
}

// New returns the queries of a ledger file. db must not write. j reads rows of the journal,
// including archived rows.
func New(db *sql.DB, j journal) Queries {
	r := reading{db}
	return Queries{&Operations{r, j}, &Fleet{r}, &Sweeps{r, j}, &Money{r}, &Metrics{r}}
}

// SQL sums of funding and of external spending. Reversals are subtracted.
const (
	FundingCents = "coalesce(sum(CASE debit WHEN 'wallet' THEN cents ELSE -cents END) FILTER (WHERE kind = 'funding'), 0)"
	OutsideCents = "coalesce(sum(CASE credit WHEN 'wallet' THEN cents ELSE -cents END) FILTER (WHERE kind = 'external'), 0)"
)

// Balance is the balance of one account's books, in cents: WalletCents = FundingCents -
// ExternalCents - (ChargedCents - RefundedCents). ChargedCents is before refunds and
// includes amounts in suspense.
type Balance struct {
	Account       string     `json:"account" doc:"The short name of the account."`
	Currency      string     `json:"currency" doc:"The account's currency, an ISO 4217 code."`
	WalletCents   int64      `json:"wallet_cents" doc:"The balance of the wallet by the books."`
	ChargedCents  int64      `json:"charged_cents" doc:"The amount charged, before refunds."`
	RefundedCents int64      `json:"refunded_cents" doc:"The amount refunded."`
	SuspenseCents int64      `json:"suspense_cents" doc:"Charges whose result is unknown."`
	FundingCents  int64      `json:"funding_cents" doc:"Money put in: the opening balance and top-ups."`
	ExternalCents int64      `json:"external_cents" doc:"Money spent outside Perennial."`
	Head          chain.Head `json:"head"`
	Unbooked      *Unbooked  `json:"unbooked,omitempty" doc:"'unbooked' is what may have been charged and is not booked yet; null if it was not requested."`
}

// Unbooked estimates what operations in progress or in review may have cost beyond the
// booked amounts.
type Unbooked struct {
	Operations    int        `json:"operations" doc:"The number of these operations."`
	EstimateCents fact.Cents `json:"estimate_cents" doc:"Their expected cost, without operations of unknown cost."`
	Unknown       int        `json:"unknown" doc:"How many of these operations have an unknown cost."`
}

const balanceQuery = `SELECT coalesce((SELECT currency FROM binding), ''),
	coalesce(sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents END), 0),
	coalesce(sum(cents) FILTER (WHERE kind IN ('charge', 'suspense')), 0),
	coalesce(sum(cents) FILTER (WHERE kind = 'refund'), 0),
	coalesce(sum(CASE WHEN debit = 'suspense' THEN cents WHEN credit = 'suspense' THEN -cents END), 0),
	` + FundingCents + `,
	` + OutsideCents + ` FROM totals`

// Balance returns the sums of the account's books. Sums and Head are from the same moment.
func (l *Money) Balance(ctx context.Context, account string) (b Balance, err error) {
	err = sqlite.Snapshot(ctx, l.read, func(tx *sql.Tx) error {
		b, err = balanceOf(ctx, tx, account)
		return err
	})
	if err != nil {
		err = fmt.Errorf("sum the book: %w", err)
	}
	return b, err
}

// Pause says why the account, or one kind of its operations, sends nothing.
type Pause struct {
	Scope  string     `json:"scope" doc:"The scope of the pause: the account, or one kind of operation."`
	Cause  string     `json:"cause" doc:"The cause, in one word: rate_limited, insufficient_wallet_balance, …"`
	Since  time.Time  `json:"since" doc:"When the pause began."`
	Until  *time.Time `json:"until,omitempty" doc:"When the pause ends automatically."`
	Detail string     `json:"detail" doc:"The reason, for people."`
}

// Pauses lists the pauses, oldest first.
func (l *Operations) Pauses(ctx context.Context) ([]Pause, error) {
	return sqlite.Collect(l.query(ctx, `SELECT scope, cause, since, until, detail FROM pauses ORDER BY since, scope, cause`), ScanPause)
}

// ScanPause reads a row of the table pauses.
var ScanPause = sqlite.Into(func(p *Pause) []any {
	return []any{&p.Scope, &p.Cause, sqlite.At(&p.Since), sqlite.NullAt(&p.Until), &p.Detail}
})

// ReleasedByHand reports whether an operator released an operation that was on hold.
func (l *Operations) ReleasedByHand(ctx context.Context, operation string) (bool, error) {
	return sqlite.Found(l.row(ctx, `SELECT EXISTS (SELECT 1 FROM journal
		WHERE operation = ? AND operation <> '' AND type = 'command.released' AND coalesce(json_extract(data, '$.automatic'), 0) = 0)`, operation))
}

// HeadBefore returns the last row whose money counts before an instant (see FirstBooked). The sums
// up to h contain exactly what was booked before the instant. known is false if the rows around
// the instant were archived and the archive keeps no head for it. In that case h has no hash, but
// the balances as of row h.Seq are still those at the instant.
func HeadBefore(ctx context.Context, q sqlite.Queryer, at time.Time) (h chain.Head, known bool, err error) {
	first, err := FirstBooked(ctx, q, at)
	if err != nil {
		return h, false, err
	}
	next, err := sqlite.Value[int64](q.QueryRowContext(ctx, `SELECT coalesce(min(seq), 1 << 62) FROM transfers WHERE seq >= ?`, first))
	if err != nil {
		return h, false, err
	}
	b, err := BaseOf(ctx, q)
	if err != nil {
		return h, false, err
	}
	if b == nil {
		b = &Base{Head: chain.Head{Hash: chain.Genesis}}
	} else if first <= b.Seq {
		h, known, err = archivedHead(ctx, q, at, first, next)
		if err != nil || known || next <= b.Seq || b.Time >= sqlite.Micros(at) {
			return h, known, err
		}
	}
	err = q.QueryRowContext(ctx, `SELECT seq, hash FROM journal WHERE seq < coalesce(
			(SELECT seq FROM journal WHERE seq >= max(?1, ?2 + 1) AND seq < ?3 AND time >= ?4 ORDER BY seq LIMIT 1), ?3)
		ORDER BY seq DESC LIMIT 1`, first, b.Seq, next, sqlite.Micros(at)).Scan(&h.Seq, &h.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		return b.Head, true, nil
	}
	return h, err == nil, err
}

// archivedHead is HeadBefore for an instant between two transfers, the first of which was
// archived. It ignores a stored month end that is not between the two transfers: an earlier
// version stored a wrong month end when a row booked nothing.
func archivedHead(ctx context.Context, q sqlite.Queryer, at time.Time, first, next int64) (h chain.Head, known bool, err error) {
	err = sqlite.IfMade(ctx, q, "month_ends", func() error {
		err := q.QueryRowContext(ctx, `SELECT seq, hash FROM month_ends WHERE until = ? AND seq >= ? AND seq < ?`, sqlite.Micros(at), first-1, next).Scan(&h.Seq, &h.Hash)
		known = err == nil
		return sqlite.Optional(err)
	})
	if err != nil || known {
		return h, known, err
	}
	opened, err := sqlite.Value[int64](q.QueryRowContext(ctx, `SELECT coalesce((SELECT opened_at FROM binding), 0)`))
	if sqlite.Micros(at) <= opened {
		return chain.Head{Hash: chain.Genesis}, true, err
	}
	return chain.Head{Seq: max(first-1, 0)}, false, err
}

// Base is the last archived row: the file's journal starts after it.
type Base struct {
	chain.Head

	Time         int64
	SnapshotHash string
}

// BaseOf reads the file's base. It returns nil if the journal starts with the first row.
func BaseOf(ctx context.Context, q sqlite.Queryer) (*Base, error) {
	var b Base
	err := q.QueryRowContext(ctx, `SELECT seq, hash, time, snapshot_hash FROM base`).Scan(&b.Seq, &b.Hash, &b.Time, &b.SnapshotHash)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // most ledgers start with their first row
	}
	return &b, err
}

// SeqAt returns the sequence of the last row before an instant. It may return an earlier row
// instead if all balances are the same after both rows.
func SeqAt(ctx context.Context, q sqlite.Queryer, at time.Time) (int64, error) {
	h, _, err := HeadBefore(ctx, q, at)
	return h.Seq, err
}

// ErrOldBook is returned for a read-only file that this version has not migrated.
var ErrOldBook = errors.New("the ledger is of an older version, and does not say when its entries are booked: `perennial run` of this version migrates it")

// FirstBooked returns the first sequence after the transfers that were booked before an
// instant. Booking times never decrease from one transfer to the next.
func FirstBooked(ctx context.Context, q sqlite.Queryer, at time.Time) (int64, error) {
	columns, err := sqlite.Columns(ctx, q, "transfers")
	if err == nil && !slices.Contains(columns, "booked_at") {
		err = ErrOldBook
	}
	if err != nil {
		return 0, err
	}
	last, err := sqlite.Value[int64](q.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM transfers`))
	if err != nil {
		return 0, err
	}
	first, end := int64(0), last+1
	for first < end {
		middle := (first + end) / 2
		booked, err := sqlite.Value[int64](q.QueryRowContext(ctx, `SELECT booked_at FROM transfers WHERE seq >= ? ORDER BY seq LIMIT 1`, middle))
		switch {
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return 0, fmt.Errorf("find %s in the book: %w", at.UTC().Format(time.RFC3339), err)
		case err == nil && booked < sqlite.Micros(at):
			first = middle + 1
		default:
			end = middle
		}
	}
	return first, nil
}

// ScanFact reads a row whose only column is the data of a fact of type T.
func ScanFact[T fact.Fact](s sqlite.Scanner) (f T, err error) {
	data, err := sqlite.Value[string](s)
	if err != nil {
		return f, err
	}
	decoded, err := fact.Decode(f.FactType(), []byte(data))
	f, _ = decoded.(T)
	return f, err
}

// RecordRows selects the rows of operators' records, including archived ones.
const RecordRows = `SELECT seq, time, operation, data FROM journal WHERE type = 'ledger.recorded'
	UNION ALL SELECT seq, time, operation, data FROM archived WHERE type = 'ledger.recorded'`

// Spent is what operations of one kind were charged and refunded, in cents. Both amounts only
// grow. The totals over all kinds equal the amounts in Balance.
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

// NetSpentSince returns the charges since an instant minus their refunds, in cents. It returns at
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

// OldestLive returns the oldest unfinished operation. It returns sqlite.ErrNone if there is none.
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

// LastFinishedSlot returns the latest finished run of a schedule. It returns sqlite.ErrNone if
// there is none.
func (l *Metrics) LastFinishedSlot(ctx context.Context, schedule string) (Slot, error) {
	return sqlite.One(ScanSlot, l.row(ctx, `SELECT `+SlotColumns+` FROM slots WHERE schedule = ? AND state = 'finished' ORDER BY slot_at DESC LIMIT 1`, schedule))
}
