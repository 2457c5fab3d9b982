package ledger

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
	"perennial/ledger/testrun"
)

// changedSchemas are changes of a ledger's schema that leave every row as it is.
var changedSchemas = map[string]struct{ statements, says string }{
	"a trigger dropped":        {`DROP TRIGGER journal_no_update`, "trigger journal_no_update is missing"},
	"a guard of money dropped": {`DROP TRIGGER transfers_no_replace`, "trigger transfers_no_replace is missing"},
	"a trigger made toothless": {
		`DROP TRIGGER transfers_no_delete; CREATE TRIGGER transfers_no_delete BEFORE DELETE ON transfers WHEN 0 BEGIN SELECT 1; END`,
		"trigger transfers_no_delete was changed",
	},
	"a trigger added":        {`CREATE TRIGGER mine AFTER INSERT ON journal BEGIN SELECT 1; END`, "trigger mine was added"},
	"a unique index dropped": {`DROP INDEX one_open_renewal_per_proxy`, "index one_open_renewal_per_proxy is missing"},
	"a unique index that is none": {
		`DROP INDEX one_open_renewal_per_proxy; CREATE INDEX one_open_renewal_per_proxy ON lines (proxy_id) WHERE claim = 1`,
		"index one_open_renewal_per_proxy was changed",
	},
	"a view emptied": {
		`CREATE TEMP TABLE x AS SELECT sql || ' LIMIT 0' AS s FROM sqlite_schema WHERE name = 'v_orders';
		PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = (SELECT s FROM x) WHERE name = 'v_orders'; PRAGMA writable_schema = OFF`,
		"view v_orders was changed",
	},
	"a view replaced":     {`DROP VIEW v_days; CREATE VIEW v_days AS SELECT '2026-11-21' AS day, 0 AS charges`, "view v_days was changed"},
	"a view dropped":      {`DROP VIEW v_labels`, "view v_labels is missing"},
	"a table added":       {`CREATE TABLE mine (x)`, "table mine was added"},
	"a column added":      {`ALTER TABLE retired ADD COLUMN mine TEXT`, "table retired was changed"},
	"an arrow added":      {`INSERT INTO arrows VALUES ('failed', 'sending')`, "arrow failed to sending was added"},
	"an arrow taken away": {`DELETE FROM arrows WHERE from_state = 'held' AND to_state = 'rejected'`, "arrow held to rejected is missing"},
}

func TestAChangedSchemaIsRefusedAndNamed(t *testing.T) {
	t.Parallel()
	for name, test := range changedSchemas {
		t.Run(name, func(t *testing.T) {
			path := tampered(t, test.statements)
			whole := contentOf(t, path)
			for _, c := range []Config{{}, {ReadOnly: true}} {
				c.Path, c.Clock = path, ticking()
				l, err := Open(t.Context(), c)
				var changed *SchemaError
				if !errors.As(err, &changed) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("opened: %v", err)
				}
				if l != nil {
					_ = l.Close()
				}
			}
			if !bytes.Equal(contentOf(t, path), whole) {
				t.Error("a file that was refused was written")
			}
		})
	}
}

func TestAChangedSchemaDoesNotVerify(t *testing.T) {
	t.Parallel()
	for name, test := range changedSchemas {
		t.Run(name, func(t *testing.T) {
			l, err := Open(t.Context(), Config{Path: tampered(t, test.statements), Clock: ticking(), ReadOnly: true, Inspect: true})
			check(t, err)
			defer func() { _ = l.Close() }()
			_, err = l.Verify(t.Context())
			var broken *chain.BrokenError
			if !errors.As(err, &broken) || broken.Check != "schema" || !strings.Contains(broken.Detail, test.says) {
				t.Errorf("verified: %v", err)
			}
		})
	}
}

// The next verification finds a trigger that was dropped while the ledger was open.
func TestAChangeBesideAnOpenLedgerDoesNotVerify(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	_, err := raw(t, b.path).Exec(`DROP TRIGGER journal_no_delete`)
	check(t, err)
	_, err = b.Verify(t.Context())
	var broken *chain.BrokenError
	if !errors.As(err, &broken) || broken.Check != "schema" {
		t.Fatal(err)
	}
}

func TestProxiesThatNoListingWritesDoNotVerify(t *testing.T) {
	for _, statement := range []string{
		`UPDATE proxies SET gone = 2`, `UPDATE proxies SET seen_at = -1`, `UPDATE proxies SET pass = -1`, `UPDATE proxies SET proxy_id = ''`,
	} {
		b := newBook(t)
		b.add(opened(1))
		check(t, b.Write(t.Context(), func(tx *Tx) error {
			return tx.Observe(1, tables.Proxy{ProxyID: "px_1", Status: "active", SeenAt: noon})
		}))
		if _, err := b.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := raw(t, b.path).Exec(statement)
		check(t, err)
		_, err = b.Verify(t.Context())
		var broken *chain.BrokenError
		if !errors.As(err, &broken) || broken.Check != "proxies" {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

func TestANewerSchemaIsRefusedAndNotWritten(t *testing.T) {
	known, err := knownVersion()
	check(t, err)
	path := tampered(t, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9001, 1); CREATE TABLE of_the_future (x)`)
	whole := contentOf(t, path)
	refused := func(what string, err error) {
		t.Helper()
		var newer *SchemaError
		if !errors.As(err, &newer) || !strings.Contains(err.Error(), "schema version 9001") || !strings.Contains(err.Error(), fmt.Sprintf("up to %d", known)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, c := range []Config{{}, {ReadOnly: true}, {ReadOnly: true, Inspect: true}} {
		c.Path, c.Clock = path, ticking()
		_, err := Open(t.Context(), c)
		refused(fmt.Sprintf("%+v", c), err)
	}
	other := newBook(t)
	other.add(opened(1))
	_, err = other.VerifyWith(t.Context(), path)
	refused("as an archive", err)
	_, err = Restore{Path: filepath.Join(t.TempDir(), "r.db"), From: path, Clock: ticking()}.Run(t.Context())
	refused("restored", err)
	_, err = Archive{Path: path, Before: noon, Clock: func() time.Time { return noon.AddDate(1, 0, 0) }}.Run(t.Context())
	refused("archived", err)
	if !bytes.Equal(contentOf(t, path), whole) {
		t.Error("the file was written")
	}
}

func TestAFileThatIsNoLedgerIsNotMadeOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	db := raw(t, path)
	_, err := db.Exec(`CREATE TABLE notes (text)`)
	check(t, err)
	check(t, db.Close())
	whole := contentOf(t, path)
	for _, c := range []Config{{}, {ReadOnly: true}} {
		c.Path, c.Clock = path, ticking()
		if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "table notes was added") {
			t.Error(err)
		}
	}
	if !bytes.Equal(contentOf(t, path), whole) {
		t.Error("the file was written")
	}
}

// Comments and blanks do not count: SQLite stores a statement's text as written.
func TestSpaceAndCommentsAreNoPartOfASchema(t *testing.T) {
	for text, want := range map[string]string{
		"CREATE TABLE a (\n\tb -- of c\n)":      "CREATE TABLE a ( b )",
		"CREATE /* x\ny */ TABLE  a":            "CREATE TABLE a",
		"SELECT 'a  -- b', \"c  d\";":           "SELECT 'a  -- b', \"c  d\"",
		"RAISE(ABORT, 'it''s   here')  ; -- no": "RAISE(ABORT, 'it''s   here')",
		"":                                      "",
	} {
		if got := normalised(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func contentOf(t *testing.T, path string) []byte {
	t.Helper()
	whole, err := os.ReadFile(path)
	check(t, err)
	return whole
}

// migrateTo makes an empty ledger file with the schema of a version.
func migrateTo(t *testing.T, path string, version int64) (err error) {
	t.Helper()
	db, err := sql.Open("sqlite3", dsn(path, nil))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return withMigrations(db, func(p *goose.Provider) error {
		_, err := p.UpTo(t.Context(), version)
		return err
	})
}

// bornWith maps tables younger than the ledger to the version that added them.
var bornWith = map[string]int64{"net_charges": 17, "month_ends": 10, "refused_contents": 11, "finished": 13, "bought": 13, "schedule_pauses": 15, "schedule_calendars": 22, "command_labels": 16, "delivered": 16}

// atVersion creates a ledger as written by a program with an older schema version, with
// populated tables.
func atVersion(t *testing.T, version int64, facts ...fact.Fact) string {
	t.Helper()
	b := newBook(t)
	b.add(facts...)
	path := filepath.Join(t.TempDir(), "older.ledger.db")
	check(t, migrateTo(t, path, version))
	check(t, b.Close())
	tamper(t, path, func(conn *sql.Conn) error {
		if _, err := conn.ExecContext(t.Context(), `ATTACH ? AS newer`, b.path); err != nil {
			return err
		}
		for _, table := range append([]string{"journal", "proxies", "net_charges", "command_labels"}, projections...) { // triggers fill state_counts
			columns, err := sqlite.Columns(t.Context(), conn, table)
			if err != nil {
				return err
			}
			if len(columns) == 0 || version < bornWith[table] {
				continue // younger than the version
			}
			list := strings.Join(columns, ", ")
			if _, err := conn.ExecContext(t.Context(), `INSERT INTO main.`+table+` (`+list+`) SELECT `+list+` FROM newer.`+table); err != nil {
				return err
			}
		}
		return nil
	})
	return path
}

func TestALedgerOfAnOlderSchemaIsMigratedWhole(t *testing.T) {
	t.Parallel()
	known, err := knownVersion()
	check(t, err)
	for version := range known {
		if files, err := filepath.Glob(fmt.Sprintf("migrations/%05d_*.sql", version)); err != nil || len(files) == 0 {
			continue // no migration has this number
		}
		if !testrun.Check && version%4 != 0 && version < known-2 {
			continue // a ledger of each schema is in TestTheKeptLedgersAreOpenedVerifiedAndCarriedOn
		}
		path := atVersion(t, version, historyOf(version)...)
		reader, err := Open(t.Context(), Config{Path: path, Clock: ticking(), ReadOnly: true})
		check(t, err)
		if _, err := reader.Verify(t.Context()); err != nil {
			t.Errorf("version %d, before it is migrated: %v", version, err)
		}
		check(t, reader.Close())
		l := openBook(t, path)
		if _, err := l.Verify(t.Context()); err != nil {
			t.Errorf("version %d: %v", version, err)
		}
		l.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: 5, By: "ada", Reason: "card"})
		if _, err := l.Verify(t.Context()); err != nil {
			t.Errorf("version %d, written: %v", version, err)
		}
	}
}
