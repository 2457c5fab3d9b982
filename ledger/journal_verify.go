// Verify: the chain, a second fold of it, and a comparison of every projection.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"perennial/ledger/chain"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// Verified is the content of a sound ledger.
type Verified struct {
	Rows int64      `json:"rows"`
	Head chain.Head `json:"head"`
	// Behind is the row that the first one follows; nil at the journal's beginning. Earlier
	// rows are in archives that were not verified.
	Behind *chain.Head `json:"behind,omitempty"`
	// Backdated lists the first rows that booked something at a time already passed.
	Backdated []Backdated `json:"backdated,omitempty"`
}

// projections lists the tables that apply writes, in an order that suits the report of a
// difference. The proxies table is a cache and not among them.
var projections = []string{"binding", "commands", "rejections", "operations", "lines", "transfers", "totals", "pauses", "slots", "archives",
	"retired", "proxy_labels", "warned", "sweep_commands", "replacements", "sweep_reviews", "month_ends", "refused_contents", "finished", "bought",
	"schedule_pauses", "schedule_calendars", "delivered"}

// Verify checks that SQLite's structures and the hash chain are sound and that every fact
// can be folded. A second fold must give the same projections and balances, and the months
// must add up. It also checks what it can of the cache of proxies, and that the schema is
// the migrations'. If the first rows were archived it begins with the snapshot that the
// chain vouches for. The first failed check is a *chain.BrokenError.
func (l *Ledger) Verify(ctx context.Context) (v Verified, err error) {
	// With a wrong schema other checks may fail for a missing table. A changed row is
	// reported before the trigger that was dropped to change it.
	schema := l.schemaHolds(ctx)
	v, err = l.verifyContent(ctx)
	if _, ok := errors.AsType[*chain.BrokenError](err); err != nil && (ok || schema == nil) {
		return v, err
	}
	return v, schema
}

// schemaHolds runs checkSchema and reports a difference as a *chain.BrokenError.
func (l *Ledger) schemaHolds(ctx context.Context) error {
	_, err := checkSchema(ctx, l.read, l.path)
	if changed, ok := errors.AsType[*SchemaError](err); ok && changed.Difference != "" {
		return &chain.BrokenError{Check: "schema", Detail: changed.Difference}
	}
	return err
}

// VerifyIn sets the directory in which Verify, of this ledger and its archives, builds its
// second ledger. Call it before Verify.
func (l *Ledger) VerifyIn(dir string) { l.temp = dir }

// verifyContent verifies the tables. The file's own structures are checked concurrently
// with the fold; their defects are reported first.
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
		v, err = l.foldInto(folding, path, newScratch)
		return err
	})
	if first := <-checked; first != nil {
		return Verified{}, first
	}
	return v, err
}

// checkProxies looks for content that no listing writes into the cache of proxies. A file
// cannot prove that the content is the provider's; the next listing shows it.
func checkProxies(ctx context.Context, q sqlite.Queryer) error {
	var id string
	err := q.QueryRowContext(ctx, `SELECT proxy_id FROM proxies WHERE proxy_id = '' OR gone NOT IN (0, 1) OR pass < 0 OR seen_at < 0 LIMIT 1`).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return &chain.BrokenError{Check: "proxies", Detail: fmt.Sprintf("proxy %q holds what no listing writes: gone is 0 or 1, and a pass or a look is not before 1970", id)}
}

// foldInto folds the journal into a new file and compares every projection of the two. The
// file is complete if err is nil or names a projection.
func (l *Ledger) foldInto(ctx context.Context, path string, open openFold) (v Verified, err error) {
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
	if v.Rows, v.Head, err = with.foldAll(ctx, path, open); err != nil {
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

// checkKeys looks for an idempotency key that two operations share: the provider would take
// the second for a repetition of the first.
func checkKeys(ctx context.Context, snapshot *sql.Tx) error {
	var key, first, last string
	err := snapshot.QueryRowContext(ctx, `SELECT idempotency_key, min(id), max(id) FROM operations
		GROUP BY idempotency_key HAVING count(*) > 1 LIMIT 1`).Scan(&key, &first, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return &chain.BrokenError{Check: "key", Detail: fmt.Sprintf("operations %s and %s share the idempotency key %s", first, last, key)}
}

// checkFile has SQLite check its pages, indexes and foreign keys.
func (l *Ledger) checkFile(ctx context.Context) error {
	var answer string
	if err := l.read.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&answer); err != nil {
		return &chain.BrokenError{Check: "sqlite", Detail: err.Error()}
	}
	if answer != "ok" {
		return &chain.BrokenError{Check: "sqlite", Detail: answer}
	}
	var table string
	var rowid, parent, fk sql.NullString
	err := l.read.QueryRowContext(ctx, `PRAGMA foreign_key_check`).Scan(&table, &rowid, &parent, &fk)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return &chain.BrokenError{Check: "sqlite", Detail: err.Error()}
	}
	return &chain.BrokenError{Check: "sqlite", Detail: "a row of " + table + " refers to a missing row of " + parent.String}
}
