// Verify: the hash chain, a second fold of the journal, and a comparison of all
// projections.

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mattn/go-sqlite3"

	"perennial/ledger/chain"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// Verified describes a ledger that Verify has found to be sound.
type Verified struct {
	Rows int64      `json:"rows"`
	Head chain.Head `json:"head"`
	// Behind is the last row of the archives that were not verified. The first verified row
	// follows it. It is nil if the verification started with the first row.
	Behind *chain.Head `json:"behind,omitempty"`
	// Backdated lists the first rows whose amounts are booked more than fact.ClockTolerance
	// after the row's own time.
	Backdated []Backdated `json:"backdated,omitempty"`
}

// projections lists the tables that apply writes, in a useful order for reporting
// differences. The table proxies is a cache and not among them.
var projections = []string{"binding", "commands", "rejections", "operations", "lines", "transfers", "totals", "pauses", "slots", "archives",
	"retired", "proxy_labels", "warned", "sweep_commands", "replacements", "sweep_reviews", "month_ends", "refused_contents", "finished", "bought",
	"schedule_pauses", "schedule_calendars", "delivered"}

// Verify checks SQLite's structures, the hash chain and the schema. It folds all facts a
// second time and compares projections and balances. It also checks that the months add up,
// and checks the cache of proxies as far as possible. If the first rows were archived, it
// starts with the snapshot whose hash is in the chain. It returns a *chain.BrokenError for
// the first check that fails.
func (l *Ledger) Verify(ctx context.Context) (v Verified, err error) {
	// With a wrong schema, other checks may fail only because a table is missing. A changed row
	// is reported in preference to the trigger that was dropped to change it.
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
		v, err = l.foldInto(folding, path, newScratch)
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

// foldInto folds the journal into a new file and compares all projections of the ledger and
// the file. The file is complete if err is nil or concerns a projection.
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

// checkKeys returns an error if two operations have the same idempotency key. The provider
// would take the second request for a repetition of the first.
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

// checkFile runs SQLite's own checks of pages, indexes and foreign keys.
func (l *Ledger) checkFile(ctx context.Context) error {
	var answer string
	if err := l.read.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&answer); err != nil {
		return unsound(err)
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
