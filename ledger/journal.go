package ledger

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// Journal reads the file's binding and the rows of the journal. Archived rows come from
// their archives.
type Journal struct {
	read     *sql.DB // connections that never write
	clock    func() time.Time
	path     string
	written  bool // this process writes the file and keeps the newest rows in tail
	tail     *tail
	base     *tables.Base // the last archived row; nil if the journal starts with its first row
	archives archiveCache // the file's archives
}

// Binding returns the provider account to which ledger.opened bound the file. It returns
// ErrNotFound before ledger.opened.
func (l *Journal) Binding(ctx context.Context) (fact.Binding, error) {
	var b fact.Binding
	err := l.read.QueryRowContext(ctx, `SELECT account_id, environment, base_url, currency, epoch FROM binding`).
		Scan(&b.AccountID, &b.Environment, &b.BaseURL, &b.Currency, &b.Epoch)
	return b, sqlite.NotFound(err)
}

// Currency returns the currency code of the account. It returns "" before ledger.opened.
func (l *Journal) Currency(ctx context.Context) (string, error) {
	b, err := l.Binding(ctx)
	return b.Currency, sqlite.Optional(err)
}

// Head returns the sequence and hash of the newest journal row. For an empty journal it returns 0
// and chain.Genesis.
func (l *Journal) Head(ctx context.Context) (int64, string, error) {
	h, err := chain.LastRow(l.read.QueryRowContext(ctx, chain.LastRowQuery))
	return h.Seq, h.Hash, err
}

// HighWater returns the latest time among the newest 1000 facts. A clock that shows an
// earlier time is wrong.
func (l *Journal) HighWater(ctx context.Context) (at time.Time, err error) {
	// Unless its clock is set back, a writer's facts are ordered by time, so the newest
	// suffice.
	err = l.read.QueryRowContext(ctx, `SELECT coalesce(max(time), 0) FROM (SELECT time FROM journal ORDER BY seq DESC LIMIT 1000)`).Scan(sqlite.At(&at))
	return at, err
}

// Rows returns up to limit journal rows after seq, in order. Archived rows come from their
// archive; if it is missing, the error is an *ArchivedError. Other queries of the writing process
// may see a commit shortly before Rows does: see Changed.
func (l *Journal) Rows(ctx context.Context, after int64, limit int) ([]chain.Row, error) {
	if l.written {
		if rows, ok := l.tail.after(after, limit); ok {
			return rows, nil
		}
	}
	if l.archived(after + 1) {
		a, err := l.archiveOf(ctx, after+1)
		if err != nil {
			return nil, err
		}
		return a.Rows(ctx, after, limit)
	}
	return sqlite.Collect(l.query(ctx, `SELECT `+chain.Columns+` FROM journal WHERE seq > ? ORDER BY seq LIMIT +?`, after, limit), chain.Scan)
}

// RowsOf returns the journal rows of one operation or command, in order. It includes
// archived rows, except those of a command that was refused on arrival.
func (l *Journal) RowsOf(ctx context.Context, subject string) ([]chain.Row, error) {
	before, err := l.archivedRows(ctx, subject)
	if err != nil {
		return nil, err
	}
	rows, err := l.ownRowsOf(ctx, subject)
	return append(before, rows...), err
}

func (l *Journal) ownRowsOf(ctx context.Context, subject string) ([]chain.Row, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+chain.Columns+` FROM journal WHERE operation = ? AND operation <> '' ORDER BY seq`, subject), chain.Scan)
}

// Row reads one journal row, from its archive if it was archived. It returns ErrNotFound
// for a row after the end of the journal.
func (l *Journal) Row(ctx context.Context, seq int64) (chain.Row, error) {
	if l.archived(seq) {
		a, err := l.archiveOf(ctx, seq)
		if err != nil {
			return chain.Row{}, err
		}
		return a.Row(ctx, seq)
	}
	return sqlite.One(chain.Scan, l.read.QueryRowContext(ctx, `SELECT `+chain.Columns+` FROM journal WHERE seq = ?`, seq))
}

// SeqAt returns the sequence of the last row before an instant. It may return an earlier row
// instead if all balances are the same after both rows.
func (l *Journal) SeqAt(ctx context.Context, at time.Time) (int64, error) {
	return tables.SeqAt(ctx, l.read, at)
}

func (l *Journal) query(ctx context.Context, query string, args ...any) sqlite.Rows {
	return sqlite.Query(ctx, l.read, query, args...)
}

// tailRows is how many of the newest rows stay in memory, so that the outbox need not read
// them back.
const tailRows = 8192

type tail struct {
	mu      sync.Mutex
	rows    []chain.Row // contiguous, ending at head
	head    chain.Head
	changed chan struct{}
}

func newTail(h chain.Head) *tail { return &tail{head: h, changed: make(chan struct{})} }

func (t *tail) add(rows []chain.Row, h chain.Head) {
	if len(rows) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, rows...)
	if over := len(t.rows) - tailRows; over > tailRows/2 {
		t.rows = append(make([]chain.Row, 0, 2*tailRows), t.rows[over:]...)
	}
	t.head = h
	close(t.changed)
	t.changed = make(chan struct{})
}

// The result is up to limit rows after seq. It is false if the tail starts too late.
func (t *tail) after(seq int64, limit int) ([]chain.Row, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq >= t.head.Seq {
		return nil, true
	}
	if len(t.rows) == 0 || t.rows[0].Seq > seq+1 {
		return nil, false
	}
	rows := t.rows[seq+1-t.rows[0].Seq:]
	if len(rows) > limit {
		rows = rows[:limit]
	}
	return rows, true
}

// Changed returns a channel that is closed once the journal has a row after seq, possibly
// already.
func (l *Journal) Changed(seq int64) <-chan struct{} {
	l.tail.mu.Lock()
	defer l.tail.mu.Unlock()
	if l.tail.head.Seq > seq {
		now := make(chan struct{})
		close(now)
		return now
	}
	return l.tail.changed
}

// withMoney adds fact.Money to a fact that books something. It runs before the fact is
// applied.
func (t *Tx) withMoney(f fact.Fact) (fact.Fact, error) {
	booked, operation, books, err := t.bookedBy(f)
	if err != nil || !books {
		return f, err
	}
	if booked.Currency, err = t.currency(f); err != nil {
		return nil, err
	}
	m := fact.Money{Booked: &booked}
	if operation != "" {
		totals, err := t.totalsOf(operation)
		if err != nil {
			return nil, err
		}
		totals = booked.Plus(totals)
		m.Totals = &totals
	}
	return fact.WithMoney(f, m), nil
}

// bookedBy returns what a fact books, and on which operation. The third result is false for a
// fact that books nothing, such as a read of an order without new amounts.
func (t *Tx) bookedBy(f fact.Fact) (b fact.Booked, operation string, books bool, err error) {
	switch f := f.(type) {
	case fact.LedgerOpened:
		return b, "", true, nil
	case fact.LedgerRecorded:
		switch f.Movement {
		case fact.MovementCharge:
			b.ChargedCents = f.AmountCents
		case fact.MovementRefund:
			b.RefundedCents = f.AmountCents
		}
		return b, f.OperationID, true, nil
	case fact.OrderProgressed:
		b = f.Books()
		return b, f.OperationID, b != fact.Booked{}, nil
	case fact.OrderDelivered:
		return f.Books(), f.OperationID, true, nil
	case fact.OrderRefunded:
		return f.Books(), f.OperationID, true, nil
	case fact.RenewalSettled:
		return f.Books(), f.OperationID, true, nil
	case fact.OperationReview:
		if f.Settlement != nil {
			b = f.Settlement.Books()
		}
		return b, f.OperationID, f.Settlement != nil, nil
	case fact.OperationResolved:
		_, b.ChargedCents, b.RefundedCents, err = resolution(t.queryRow, f)
		return b, f.OperationID, true, err
	}
	return b, "", false, nil
}

func (t *Tx) totalsOf(operation string) (fact.Booked, error) {
	o, err := t.Operation(operation)
	return fact.Booked{ChargedCents: o.ChargedCents, RefundedCents: o.RefundedCents}, err
}

// currency returns the account's currency. The ledger.opened fact sets it, and it never
// changes.
func (t *Tx) currency(f fact.Fact) (currency string, err error) {
	if opened, ok := f.(fact.LedgerOpened); ok && opened.Restored == nil {
		return opened.Currency, nil
	}
	if t.w.currency == "" {
		err = sqlite.Optional(t.queryRow(`SELECT currency FROM binding`).Scan(&t.w.currency))
	}
	return t.w.currency, err
}
