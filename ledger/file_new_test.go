package ledger

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	"perennial/ledger/sqlite"

	"github.com/pressly/goose/v3"
)

// A new ledger is created from empty.sql, which holds the schema and rows that all
// migrations leave.
func TestANewLedgersSchemaIsWhatTheMigrationsMake(t *testing.T) {
	t.Parallel()
	migrated := inMemory(t)
	err := withMigrations(migrated, func(p *goose.Provider) error {
		_, err := p.Up(t.Context())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := dump(t, migrated)
	if *update {
		if err := os.WriteFile("empty.sql", []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if emptySQL != want {
		t.Error("empty.sql is not what the migrations make: go test ./ledger -run NewLedgersSchema -update")
	}
	made := inMemory(t)
	if _, err := made.ExecContext(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got := dump(t, made); got != want {
		t.Errorf("read back: %s", got)
	}
}

func inMemory(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // each connection would have its own memory database
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// dump returns the SQL that recreates a database in one transaction: tables, rows, indexes
// and triggers. The list of migrations gets the time of its creation.
func dump(t *testing.T, db *sql.DB) string {
	t.Helper()
	var text, rest strings.Builder
	text.WriteString("-- What the migrations make: go test ./ledger -run NewLedgersSchema -update\nBEGIN IMMEDIATE;\n")
	for _, o := range textsOf(t, db, `SELECT json_array(type, name, sql) FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY rowid`) {
		parts := textsOf(t, db, `SELECT value FROM json_each(?)`, o)
		kind, name, create := parts[0], parts[1], parts[2]
		if kind != "table" {
			rest.WriteString(create + ";\n")
			continue
		}
		text.WriteString(create + ";\n")
		var columns []string
		for _, c := range textsOf(t, db, `SELECT name FROM pragma_table_info(?)`, name) {
			if name != "goose_db_version" || c != "tstamp" {
				columns = append(columns, `"`+c+`"`)
			}
		}
		values := "quote(" + strings.Join(columns, ") || ', ' || quote(") + ")"
		for _, row := range textsOf(t, db, `SELECT `+values+` FROM "`+name+`"`) {
			text.WriteString(`INSERT INTO "` + name + `" (` + strings.Join(columns, ", ") + `) VALUES (` + row + ");\n")
		}
	}
	return text.String() + rest.String() + "COMMIT;\n"
}

func textsOf(t *testing.T, db *sql.DB, query string, args ...any) (all []string) {
	t.Helper()
	err := sqlite.Each(sqlite.Query(t.Context(), db, query, args...), func(r sqlite.Scanner) error {
		var text string
		err := r.Scan(&text)
		all = append(all, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
