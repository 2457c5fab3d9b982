package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// Verified describes a ledger that Verify has found to be sound.
type Verified struct {
	Rows int64      `json:"rows"`
	Head chain.Head `json:"head"`
	// Behind is the last row that was not verified, because it is in an archive that was not
	// given. It is nil if the verification started with the first row.
	Behind *chain.Head `json:"behind,omitempty"`
	// Backdated lists the first rows whose amounts are booked more than fact.ClockTolerance
	// after the row's own time.
	Backdated []Backdated `json:"backdated,omitempty"`
}

// projections lists the tables that apply writes, in the order in which differences are
// reported. The table proxies is a cache and not among them.
var projections = []string{"binding", "commands", "rejections", "operations", "lines", "transfers", "totals", "pauses", "slots", "archives",
	"retired", "proxy_labels", "warned", "sweep_commands", "replacements", "sweep_reviews", "month_ends", "refused_contents", "finished", "bought",
	"schedule_pauses", "schedule_calendars", "delivered"}

// Verify checks SQLite's structures, the hash chain and the schema. It folds all facts a
// second time and compares projections and balances. It also checks that the months add up,
// and checks the cache of proxies as far as possible. If the first rows were archived, it
// starts with the snapshot whose hash is in the chain. It returns a *chain.BrokenError for
// the first check that fails.
func (l *Ledger) Verify(ctx context.Context) (v Verified, err error) {
	// A changed row is reported before a dropped trigger, because somebody may have dropped the
	// trigger in order to change the row. Other errors may only follow from a wrong schema.
	schema := l.schemaHolds(ctx)
	v, err = l.verifyContent(ctx)
	if _, ok := errors.AsType[*chain.BrokenError](err); err != nil && (ok || schema == nil) {
		return v, err
	}
	return v, schema
}

func (l *Ledger) schemaHolds(ctx context.Context) error {
	_, err := checkSchema(ctx, l.read, l.path)
	if changed, ok := errors.AsType[*SchemaError](err); ok && changed.Difference != "" {
		return &chain.BrokenError{Check: "schema", Detail: changed.Difference}
	}
	return err
}

// VerifyIn sets the directory in which Verify builds its second ledger, for this ledger and
// its archives. Call it before Verify.
func (l *Ledger) VerifyIn(dir string) { l.temp = dir }

// verifyContent verifies the tables. The file's structures are checked at the same time;
// their faults are reported first.
func (l *Ledger) verifyContent(ctx context.Context) (v Verified, err error) {
	folding, stop := context.WithCancel(ctx)
	defer stop()
	checked := make(chan error, 1)
	go func() {
		err := l.checkFile(ctx)
		if err == nil {
			err = checkProxies(ctx, l.read)
		}
		if err != nil {
			stop()
		}
		checked <- err
	}()
	err = writeBeside(filepath.Join(l.temp, filepath.Base(l.path)), ".perennial-verify-*", func(path string) error {
		v, err = l.foldInto(folding, path, true)
		return err
	})
	if first := <-checked; first != nil {
		return Verified{}, first
	}
	return v, err
}

// checkProxies looks for content that no listing would write into the cache of proxies. Only
// another listing can show whether the content matches the provider's.
func checkProxies(ctx context.Context, q sqlite.Queryer) error {
	id, err := sqlite.Value[string](q.QueryRowContext(ctx, `SELECT proxy_id FROM proxies WHERE proxy_id = '' OR gone NOT IN (0, 1) OR pass < 0 OR seen_at < 0 LIMIT 1`))
	if err != nil {
		return sqlite.Optional(err)
	}
	return &chain.BrokenError{Check: "proxies", Detail: fmt.Sprintf("proxy %q holds what no listing writes: gone is 0 or 1, and a pass or a look is not before 1970", id)}
}

// foldInto folds the journal into a new file and compares all projections of the ledger with
// those of the new file. The new file is complete if err is nil, or if err only reports that a projection differs.
func (l *Ledger) foldInto(ctx context.Context, path string, scratch bool) (v Verified, err error) {
	with, err := l.compare(ctx)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, with.end()) }()
	base, err := tables.BaseOf(ctx, with.tx)
	if err != nil {
		return v, err
	}
	if base != nil {
		v.Behind = &base.Head
	}
	err = fillFile(ctx, path, scratch, func(f *fold) error {
		if err := f.beginAs(ctx, with.tx); err != nil {
			return err
		}
		v.Rows, err = f.replay(journalOf(ctx, with.tx, 0, math.MaxInt64))
		v.Head = f.at()
		return err
	})
	if err != nil {
		return v, err
	}
	if err := with.compare(ctx, path, snapshotted); err != nil {
		return v, err
	}
	if err := errors.Join(checkEnds(ctx, with.tx, base, v.Head), checkKeys(ctx, with.tx)); err != nil {
		return v, err
	}
	if !with.byRows {
		if err := checkMonths(ctx, with.tx); err != nil {
			return v, err
		}
		if v.Backdated, err = backdated(ctx, with.tx); err != nil {
			return v, err
		}
	}
	return v, sqlite.IfMade(ctx, with.tx, "published", func() error { return checkNote(ctx, with.tx, base, v.Head) })
}

// checkKeys returns an error if two operations have the same idempotency key. The provider
// would take the second request for a repetition of the first.
func checkKeys(ctx context.Context, snapshot *sql.Tx) error {
	var key, first, last string
	err := snapshot.QueryRowContext(ctx, `SELECT idempotency_key, min(id), max(id) FROM operations
		GROUP BY idempotency_key HAVING count(*) > 1 LIMIT 1`).Scan(&key, &first, &last)
	if err != nil {
		return sqlite.Optional(err)
	}
	return &chain.BrokenError{Check: "key", Detail: fmt.Sprintf("operations %s and %s share the idempotency key %s", first, last, key)}
}

// checkFile runs SQLite's own checks of pages, indexes and foreign keys.
func (l *Ledger) checkFile(ctx context.Context) error {
	switch answer, err := sqlite.Value[string](l.read.QueryRowContext(ctx, `PRAGMA integrity_check(1)`)); {
	case err != nil:
		return unsound(err)
	case answer != "ok":
		return &chain.BrokenError{Check: "sqlite", Detail: answer}
	}
	var table string
	var rowid, parent, fk sql.NullString
	err := l.read.QueryRowContext(ctx, `PRAGMA foreign_key_check`).Scan(&table, &rowid, &parent, &fk)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return unsound(err)
	}
	return &chain.BrokenError{Check: "sqlite", Detail: "a row of " + table + " refers to a missing row of " + parent.String}
}

// unsound returns the error of a check of the file: a *chain.BrokenError if SQLite says that
// the file is damaged. Any other error, such as the end of a context, says nothing about the
// file.
func unsound(err error) error {
	failed, _ := errors.AsType[sqlite3.Error](err)
	if failed.Code == sqlite3.ErrCorrupt || failed.Code == sqlite3.ErrNotADB {
		return &chain.BrokenError{Check: "sqlite", Detail: err.Error()}
	}
	return fmt.Errorf("check the file: %w", err)
}

// Backdated is a row whose amount is booked at a later time than the row's own, because the
// clock was slow or was set back. The books and statements use BookedAt.
type Backdated struct {
	Seq      int64     `json:"seq"`
	Time     time.Time `json:"time"`
	BookedAt time.Time `json:"booked_at"`
}

const backdatedMost = 100

func backdated(ctx context.Context, q sqlite.Queryer) ([]Backdated, error) {
	return sqlite.Collect(sqlite.Query(ctx, q, `SELECT DISTINCT t.seq, coalesce(j.time, a.time) AS at, t.booked_at
		FROM transfers t LEFT JOIN journal j ON j.seq = t.seq LEFT JOIN archived a ON a.seq = t.seq
		WHERE at < t.booked_at - ? ORDER BY t.seq LIMIT +?`, fact.ClockTolerance.Microseconds(), backdatedMost), sqlite.Into(func(x *Backdated) []any {
		return []any{&x.Seq, sqlite.At(&x.Time), sqlite.At(&x.BookedAt)}
	}))
}

type monthSums struct {
	begins        time.Time
	first, last   int64 // sequences
	walletChanged int64
}

// checkMonths checks that the transfers of each month follow those of the previous month, and
// that the months add up to the wallet. The head of a month must be after all transfers of the
// month and before all later ones. Otherwise a replay up to the head would not give the month's
// sums.
func checkMonths(ctx context.Context, q sqlite.Queryer) error {
	months, err := sqlite.Collect(sqlite.Query(ctx, q, `SELECT 1000000 * unixepoch(booked_at / 1000000, 'unixepoch', 'start of month') AS begins, min(seq), max(seq),
		sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents ELSE 0 END) FROM transfers GROUP BY 1 ORDER BY 1`),
		sqlite.Into(func(m *monthSums) []any { return []any{sqlite.At(&m.begins), &m.first, &m.last, &m.walletChanged} }))
	if err != nil {
		return err
	}
	var before monthSums // walletChanged is the sum of all months so far
	for _, m := range months {
		h, _, err := tables.HeadBefore(ctx, q, m.begins)
		if err != nil {
			return err
		}
		if m.first <= before.last || h.Seq < before.last || h.Seq >= m.first {
			return &chain.BrokenError{Check: "months", Seq: m.first, Detail: fmt.Sprintf("%s begins here, after row %d, and what was booked before ends with row %d",
				m.begins.Format("January 2006"), h.Seq, before.last)}
		}
		m.walletChanged += before.walletChanged
		before = m
	}
	wallet, err := sqlite.Value[int64](q.QueryRowContext(ctx, `SELECT coalesce(sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents END), 0) FROM totals`))
	if err == nil && wallet != before.walletChanged {
		err = &chain.BrokenError{Check: "months", Seq: before.last, Detail: fmt.Sprintf("the months add up to %d cents and the wallet holds %d", before.walletChanged, wallet)}
	}
	return err
}

// comparison reads one moment of a ledger over one connection. A second fold of the journal is
// attached to the connection.
type comparison struct {
	conn     *sql.Conn
	tx       *sql.Tx
	attached bool
	byRows   bool // the file predates transfers.booked_at, so the times of rows decide the days
}

func (l *Ledger) compare(ctx context.Context) (*comparison, error) {
	c, err := l.read.Conn(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := c.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &comparison{conn: c, tx: tx}, nil
}

func (b *comparison) end() error {
	_ = b.tx.Rollback()
	var err error
	if b.attached {
		_, err = b.conn.ExecContext(context.Background(), `DETACH again`)
	}
	return errors.Join(err, b.conn.Close())
}

// compare attaches a finished fold and compares the given tables and the tables derived
// from them.
func (b *comparison) compare(ctx context.Context, path string, tables []string) error {
	if _, err := b.tx.ExecContext(ctx, `ATTACH ? AS again`, immutable(path)); err != nil {
		return fmt.Errorf("compare with %s: %w", path, err)
	}
	b.attached = true
	booked, err := sqlite.Columns(ctx, b.tx, "transfers")
	if err != nil {
		return err
	}
	b.byRows = !slices.Contains(booked, "booked_at")
	for _, table := range append(slices.Clone(tables), running...) {
		if err := sqlite.IfMade(ctx, b.tx, table, func() error { return b.compareTable(ctx, table) }); err != nil {
			return err
		}
	}
	return nil
}

// immutable returns the URI for attaching a file read-only. No process may write to the
// file.
func immutable(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=ro&immutable=1"
}

// compareTable compares a table with the same table rebuilt from the journal: the number of
// rows and every column. If they differ, the error names the first row that differs.
func (b *comparison) compareTable(ctx context.Context, table string) error {
	columns, err := sqlite.Columns(ctx, b.tx, table)
	if err != nil {
		return err
	}
	if b.byRows && table == "net_charges" {
		return nil
	}
	if b.byRows && table == "operations" {
		columns = slices.DeleteFunc(columns, func(name string) bool { return name == "charged_at" })
	}
	key, err := sqlite.Collect(sqlite.Query(ctx, b.tx, `SELECT name FROM pragma_table_info(?, 'again') WHERE pk > 0 ORDER BY pk`, table), sqlite.Value[string])
	if err != nil {
		return err
	}
	equal := func(names []string) string {
		parts := make([]string, len(names))
		for i, name := range names {
			parts[i] = `b.` + name + ` IS a.` + name // b first: the comparison follows this program's tables
		}
		return strings.Join(parts, ` AND `)
	}
	var have, want, same int64
	err = b.tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM main.`+table+`), count(*), coalesce(sum(`+equal(columns)+`), 0)
		FROM again.`+table+` b LEFT JOIN main.`+table+` a ON `+equal(key)).Scan(&have, &want, &same)
	if err == nil && (have != want || same != want || len(key) == 0) {
		err = b.walk(ctx, table, columns)
	}
	return err
}

// Returns an error with the first row in which a table and its second fold differ.
func (b *comparison) walk(ctx context.Context, table string, columns []string) (err error) {
	x, y := sqlite.Query(ctx, b.tx, wholeRows(`main.`+table, columns)), sqlite.Query(ctx, b.tx, wholeRows(`again.`+table, columns))
	defer func() { err = errors.Join(err, x.Close(), y.Close()) }()
	for {
		have, okHave, errHave := nextRow(x)
		want, okWant, errWant := nextRow(y)
		if err := errors.Join(errHave, errWant); err != nil {
			return err
		}
		if have != want {
			return &chain.BrokenError{Check: "projection", Detail: fmt.Sprintf("%s holds (%s) and the journal gives (%s)", table, have, want)}
		}
		if !okHave || !okWant {
			return nil
		}
	}
}

// wholeRows returns the query for a table's rows, each as one text, ordered by the primary
// key.
func wholeRows(table string, columns []string) string {
	parts := make([]string, 0, len(columns))
	for _, c := range columns {
		parts = append(parts, `'`+c+`=' || quote(`+c+`)`)
	}
	return `SELECT ` + strings.Join(parts, ` || ', ' || `) + ` FROM ` + table + ` ORDER BY ` + keyOf(columns)
}

// keyOf returns the columns by which a table's rows are ordered: the first three. These
// include the primary key of every table except command_labels.
func keyOf(columns []string) string { return strings.Join(columns[:min(3, len(columns))], `, `) }

func nextRow(r sqlite.Rows) (text string, ok bool, err error) {
	if !r.Next() {
		return "", false, r.Err()
	}
	err = r.Scan(&text)
	return text, err == nil, err
}
