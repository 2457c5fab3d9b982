package ledger

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perennial/ledger/chain"
)

// archivedTwice is a ledger with two archives.
func archivedTwice(t *testing.T) (path string, archives []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "main.ledger.db")
	check(t, oldBook(t, path, append(history(), over()...)...).Close())
	for _, n := range []int64{30, 60} {
		out, err := archiveOf(t, path, n).Run(t.Context())
		check(t, err)
		archives = append(archives, out.File)
	}
	return path, archives
}

func TestTheChainIsVerifiedFromSnapshotOrArchives(t *testing.T) {
	t.Parallel()
	path, archives := archivedTwice(t)
	b := openBook(t, path)
	head := b.balance().Head
	v, err := b.Verify(t.Context())
	if err != nil || v.Behind == nil || v.Behind.Seq != 59 || v.Rows != head.Seq-59 || v.Head != head {
		t.Errorf("%+v %v", v, err)
	}
	v, err = b.VerifyWith(t.Context(), archives[1])
	if err != nil || v.Behind == nil || v.Behind.Seq != 29 || v.Rows != head.Seq-29 {
		t.Errorf("%+v %v", v, err)
	}
	v, err = b.VerifyWith(t.Context(), archives[1], archives[0])
	if err != nil || v.Behind != nil || v.Rows != head.Seq || v.Head != head {
		t.Errorf("%+v %v", v, err)
	}
	var broken *chain.BrokenError
	if _, err := b.VerifyWith(t.Context(), archives[0]); !errors.As(err, &broken) || broken.Check != "archive" || !strings.Contains(err.Error(), "missing") {
		t.Errorf("without the second: %v", err)
	}
	if _, err := b.VerifyWith(t.Context(), path); err == nil || !strings.Contains(err.Error(), "not an archive") {
		t.Errorf("the ledger itself: %v", err)
	}
	out := filepath.Join(t.TempDir(), "rebuilt.db")
	if v, err := b.Rebuild(t.Context(), out); err != nil || v.Head != head {
		t.Errorf("rebuilt: %+v %v", v, err)
	}
	if tablesIn(t, out) != tablesIn(t, path) {
		t.Error("the rebuilt tables are not those of the ledger")
	}
	if _, err := openBook(t, out).Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTamperingWithAnArchivedLedgerIsFound(t *testing.T) {
	t.Parallel()
	path, archives := archivedTwice(t)
	for name, test := range map[string]struct{ file, statements, check string }{
		"what is left of a row":     {path, `UPDATE archived SET time = time + 1 WHERE seq = 10`, "projection"},
		"a row less":                {path, `DELETE FROM archived WHERE seq = 10`, "projection"},
		"an old transfer":           {path, `DROP TRIGGER transfers_no_update; UPDATE transfers SET cents = cents + 1 WHERE seq = 10`, "projection"},
		"an old command":            {path, `PRAGMA foreign_keys = OFF; DELETE FROM commands WHERE id = 'o2'; DELETE FROM operations WHERE command_id = 'o2'`, "projection"},
		"the snapshot":              {path, `UPDATE snapshot SET rows = (SELECT rows FROM snapshot WHERE tbl = 'binding') WHERE tbl = 'totals'`, "snapshot"},
		"part of the snapshot gone": {path, `DELETE FROM snapshot WHERE tbl = 'lines'`, "snapshot"},
		"snapshot and its hash":     {path, `DELETE FROM snapshot WHERE tbl = 'slots'; DELETE FROM slots; UPDATE base SET snapshot_hash = (SELECT snapshot_hash FROM archives LIMIT 1)`, "snapshot"},
		"where it begins":           {path, `UPDATE base SET hash = replace(hash, substr(hash, 1, 1), 'x')`, "chain"},
		"the first row that stayed": {path, openJournal + `UPDATE journal SET time = time + 1 WHERE seq = 60`, "chain"},
		"that it begins at all":     {path, `DELETE FROM base`, "chain"},
		"that it was archived":      {path, `DELETE FROM archives`, "projection"},
		"a row of an archive":       {archives[0], openJournal + `UPDATE journal SET data = replace(data, '900', '800') WHERE seq = 10`, "chain"},
		"an archive's end":          {archives[1], openJournal + `DELETE FROM journal WHERE seq = 59`, "archive"},
		"an archive's seal":         {archives[1], `UPDATE seal SET seq = 58`, "archive"},
		"a table of an archive":     {archives[0], `UPDATE totals SET cents = cents + 1`, "projection"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range append(slices.Clone(archives), path) {
				whole, err := os.ReadFile(file)
				check(t, err)
				check(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), whole, 0o600))
			}
			in := func(file string) string { return filepath.Join(dir, filepath.Base(file)) }
			tamper(t, in(test.file), func(conn *sql.Conn) error {
				_, err := conn.ExecContext(context.Background(), test.statements)
				return err
			})
			l, err := Open(t.Context(), Config{Path: in(path), Clock: ticking(), ReadOnly: true, Inspect: true})
			check(t, err)
			defer func() { _ = l.Close() }()
			_, err = l.VerifyWith(t.Context(), in(archives[0]), in(archives[1]))
			if test.file == path {
				_, err = l.Verify(t.Context())
			}
			var broken *chain.BrokenError
			if !errors.As(err, &broken) || broken.Check != test.check {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A ledger refolded from a forged snapshot agrees with itself. Its chain does not vouch for
// the snapshot, even after another archiving.
func TestAForgedSnapshotIsFoundAndNotArchived(t *testing.T) {
	t.Parallel()
	path, archives := archivedTwice(t)
	for name, statements := range map[string]string{
		"a table":                 `UPDATE operations SET trace_id = 'forged' WHERE id = 'o1/1'`,
		"and what vouches for it": `INSERT INTO archives SELECT 70, 1, 59, hash, 'forged', 'x', 1, 0 FROM seal`,
	} {
		t.Run(name, func(t *testing.T) {
			forged := forge(t, path, archives[1], statements)
			l, err := Open(t.Context(), Config{Path: forged, Clock: ticking(), ReadOnly: true})
			check(t, err)
			_, err = l.Verify(t.Context())
			check(t, l.Close())
			var broken *chain.BrokenError
			if !errors.As(err, &broken) || broken.Check != "archive" {
				t.Errorf("got %v", err)
			}
			if _, err := archiveOf(t, forged, 80).Run(t.Context()); !errors.As(err, &broken) {
				t.Errorf("it was archived: %v", err)
			}
		})
	}
}

// forge creates a ledger that claims to continue from an archive in which something was
// changed.
func forge(t *testing.T, path, archive, statements string) string {
	t.Helper()
	changed := filepath.Join(t.TempDir(), "archive.db")
	whole, err := os.ReadFile(archive)
	check(t, errors.Join(err, os.WriteFile(changed, whole, 0o600)))
	tamper(t, changed, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(context.Background(), statements)
		return err
	})
	begin, err := raw(t, changed).BeginTx(t.Context(), nil)
	check(t, err)
	defer func() { _ = begin.Rollback() }()
	rest, err := raw(t, path).BeginTx(t.Context(), nil)
	check(t, err)
	defer func() { _ = rest.Rollback() }()
	forged := filepath.Join(t.TempDir(), "main.ledger.db")
	f, err := newFold(t.Context(), forged, false)
	check(t, err)
	b, err := f.beginBehind(t.Context(), begin, changed)
	check(t, err)
	_, err = f.replay(journalOf(t.Context(), rest, b.Seq, 1000))
	check(t, err)
	check(t, f.close())
	return forged
}

// Rows of an archive named twice, or of a ledger that holds the archived rows itself, are
// counted once.
func TestNoRowIsCountedTwice(t *testing.T) {
	t.Parallel()
	whole := filepath.Join(t.TempDir(), "whole.ledger.db")
	check(t, oldBook(t, whole, append(history(), over()...)...).Close())
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	text, err := os.ReadFile(whole)
	check(t, errors.Join(err, os.WriteFile(path, text, 0o600)))
	first, err := archiveOf(t, path, 30).Run(t.Context())
	check(t, err)
	b := openBook(t, path)
	if v, err := b.VerifyWith(t.Context(), first.File, first.File); err == nil || !strings.Contains(err.Error(), "once") {
		t.Errorf("%+v %v", v, err)
	}
	b = openBook(t, whole)
	if v, err := b.VerifyWith(t.Context(), first.File); err != nil || v.Rows != v.Head.Seq {
		t.Errorf("%+v %v", v, err)
	}
}

// A damaged archive is no reason to replace the ledger.
func TestADamagedArchiveIsNotReportedAsTheLedger(t *testing.T) {
	t.Parallel()
	path, archives := archivedTwice(t)
	b := openBook(t, path)
	info, err := os.Stat(archives[1])
	check(t, err)
	check(t, os.Truncate(archives[1], info.Size()/2))
	_, err = b.VerifyWith(t.Context(), archives...)
	if damaged, is := errors.AsType[*DamagedError](err); !is || !strings.HasPrefix(damaged.Error(), archives[1]) || strings.Contains(damaged.Error(), "restore") {
		t.Errorf("%v", err)
	}
}
