package sandbox

import (
	"database/sql"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wholeTables has the statements that may read a whole table, with the reasons.
var wholeTables = map[string]string{
	"SELECT at, batch FROM nonces ORDER BY seq":         "once, at the start: the nonces of a few minutes",
	"DELETE FROM nonces WHERE seq < (SELECT seq FROM n": "it ends at the first that stays: what it reads it deletes",
}

var statementText = regexp.MustCompile(`"(?:SELECT|INSERT|UPDATE|DELETE) [^"]*"`)

// The test asks SQLite for the query plan of every statement of the store.
func TestNoStatementReadsATableFromEndToEnd(t *testing.T) {
	source, err := os.ReadFile("store.go")
	if err != nil {
		t.Fatal(err)
	}
	st, err := openStore(t.TempDir() + "/sandbox.db")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.db.Close() }()
	statements, used := statementText.FindAllString(string(source), -1), map[string]bool{}
	if len(statements) < 10 {
		t.Fatalf("only %d statements were found", len(statements))
	}
	for _, quoted := range statements {
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		key := text[:min(len(text), 49)]
		if used[key] = true; wholeTables[key] != "" {
			continue
		}
		for _, step := range planOf(t, st.db, text) {
			if strings.HasPrefix(step, "SCAN ") {
				t.Errorf("%s\nreads a whole table: %s", text, step)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wholeTables)) {
		if !used[key] {
			t.Errorf("wholeTables names what is not there: %s", key)
		}
	}
}

func planOf(t *testing.T, db *sql.DB, text string) (steps []string) {
	t.Helper()
	rows, err := db.Query("EXPLAIN QUERY PLAN "+text, slices.Repeat([]any{1}, strings.Count(text, "?"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
