// Ledgers written by earlier programs; testdata/before says which, and how.

package ledger

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/report"
	"perennial/ledger/sqlite"
)

// before unpacks a file of testdata/before into a directory, under a name.
func before(t *testing.T, dir, packed, name string) string {
	t.Helper()
	return unpacked(t, filepath.Join("testdata", "before", packed+".gz"), filepath.Join(dir, name))
}

// unpacked unpacks a file to a path, and returns the path.
func unpacked(t *testing.T, packed, path string) string {
	t.Helper()
	file, err := os.Open(packed)
	check(t, err)
	defer func() { _ = file.Close() }()
	from, err := gzip.NewReader(file)
	check(t, err)
	data, err := io.ReadAll(from)
	check(t, err)
	check(t, os.WriteFile(path, data, 0o600))
	return path
}

// tablesOf returns the content of the journal and of all tables that follow from it.
func tablesOf(t testing.TB, path string) map[string]string {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	check(t, err)
	defer func() { _ = db.Close() }()
	all := map[string]string{}
	for _, table := range append([]string{"journal", "net_charges", "state_counts", "command_labels"}, projections...) {
		columns, err := sqlite.Columns(t.Context(), db, table)
		check(t, err)
		columns = slices.DeleteFunc(columns, func(name string) bool {
			return table == "commands" && name == "reply_to" || table == "operations" && name == "charged_at" || table == "transfers" && name == "booked_at"
		}) // younger than those files
		if len(columns) == 0 {
			continue // the file is older than the table
		}
		rows, err := db.Query(`SELECT ` + strings.Join(columns, ", ") + ` FROM ` + table)
		check(t, err)
		var lines []string
		check(t, sqlite.Each(rows, func(s sqlite.Scanner) error {
			values := make([]any, len(columns))
			dest := make([]any, len(columns))
			for i := range values {
				dest[i] = &values[i]
			}
			err := s.Scan(dest...)
			lines = append(lines, fmt.Sprintf("%q", values))
			return err
		}))
		slices.Sort(lines)
		all[table] = strings.Join(lines, "\n")
	}
	return all
}

func sameTables(t testing.TB, what string, want, got map[string]string) {
	t.Helper()
	for _, table := range slices.Sorted(maps.Keys(want)) {
		if want[table] != got[table] {
			t.Errorf("%s: %s holds\n%s\n\nand before it was\n%s", what, table, got[table], want[table])
		}
	}
}

// clockBehind returns a clock after the newest fact of a ledger.
func clockBehind(t *testing.T, path string) func() time.Time {
	t.Helper()
	var us int64
	check(t, raw(t, path).QueryRow(`SELECT max(time) FROM journal`).Scan(&us))
	now := sqlite.FromMicros(us)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

// goOn completes each pending operation of the earlier program.
func goOn(t *testing.T, b *book) {
	t.Helper()
	to := func(id string, facts ...fact.Fact) {
		t.Helper()
		check(t, b.Write(t.Context(), func(tx *Tx) error {
			o, err := tx.Operation(id)
			if err != nil {
				return err
			}
			_, err = tx.AppendTo(id, o.Version, facts...)
			return err
		}))
	}
	way := settled("under-way/0001", "completed", line("px_way_1", "succeeded", 300, 0), line("px_way_2", "succeeded", 300, 0))
	to("open-order/1", fact.OrderProgressed{OrderState: orderState("open-order/1", "procuring", 400, 0), NextAt: noon})
	to("open-order/1", fact.OrderDelivered{OrderState: orderState("open-order/1", "completed", 0, 0), ProxyIDs: []string{"px_bought"}})
	to("under-way/0001", way)
	to("waits/0001", sending("waits/0001", 2), settled("waits/0001", "failed", line("px_wait", "failed", 300, 300)))
	to("is-held/1", fact.CommandReleased{Ref: ref("is-held/1"), By: "ada", Reason: "go"})
	to("is-held/1", sending("is-held/1", 1))
	to("sweep-1/0001", resolved("sweep-1/0001", "px_sweep_2", "charged", 300))
	to("split/0001a", settled("split/0001a", "completed", line("px_s1", "succeeded", 300, 0)))
	to("split/0001b~2", sending("split/0001b~2", 1))
	if err := b.tryAdd(accepted(fact.KindRenewal, "new/0001", "px_s2")); err == nil {
		t.Error("a proxy that an earlier operation has reserved was reserved again")
	}
	b.add(accepted(fact.KindRenewal, "new/0001", "px_s1"), sending("new/0001", 1))
}

// verifiedAndRebuilt proves that the ledger's tables follow from its journal.
func (b *book) verifiedAndRebuilt(what string) {
	b.t.Helper()
	if _, err := b.Verify(b.t.Context()); err != nil {
		b.t.Errorf("%s: %v", what, err)
	}
	out := filepath.Join(b.t.TempDir(), "rebuilt.ledger.db")
	if _, err := b.Rebuild(b.t.Context(), out); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	sameTables(b.t, what+", rebuilt", tablesOf(b.t, b.path), tablesOf(b.t, out))
}

// sentLine matches lines that older Beancount exports lacked.
var sentLine = regexp.MustCompile(`(?m)^  (sent|refunded): .*\n`)

// olderColumns keeps the columns that an export had before booked_at was added at the end.
func olderColumns(t *testing.T, table []byte) []byte {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(table)).ReadAll()
	check(t, err)
	var out bytes.Buffer
	for _, row := range rows {
		fmt.Fprintf(&out, "%q\n", row[:slices.Index(rows[0], "user")+1])
	}
	return out.Bytes()
}

func TestALedgerOfBeforeIsVerifiedRebuiltAndCarriedOn(t *testing.T) {
	path := before(t, t.TempDir(), "main.ledger.db", "main.ledger.db")
	was := tablesOf(t, path)
	l, err := Open(t.Context(), Config{Path: path, Clock: clockBehind(t, path)})
	check(t, err)
	defer func() { _ = l.Close() }()
	b := &book{Ledger: l, t: t, path: path}
	sameTables(t, "opened", was, tablesOf(t, path))
	b.verifiedAndRebuilt("opened")
	for name, export := range map[string]func(io.Writer) error{
		"export.csv": func(w io.Writer) error { return b.Report().ExportCSV(t.Context(), w, report.Period{}) },
		"export.beancount": func(w io.Writer) error {
			return b.Report().ExportBeancount(t.Context(), w, "main", report.Period{}, false)
		},
	} {
		var out bytes.Buffer
		check(t, export(&out))
		want := contentOf(t, filepath.Join("testdata", "before", name))
		got := bytes.ReplaceAll(sentLine.ReplaceAll(out.Bytes(), nil), []byte(`"opening balance"`), []byte(`"funding"`))
		if name == "export.csv" {
			got, want = olderColumns(t, got), olderColumns(t, want)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is\n%s\nand before it was\n%s", name, got, want)
		}
	}
	goOn(t, b)
	b.verifiedAndRebuilt("carried on")
}

func TestAnArchivedLedgerOfBeforeIsVerifiedAndCarriedOn(t *testing.T) {
	dir := t.TempDir()
	path := before(t, dir, "archived.ledger.db", "main.ledger.db")
	archive := before(t, dir, "main.ledger.1-114.archive.db", "main.ledger.1-114.archive.db")
	was := tablesOf(t, path)
	l, err := Open(t.Context(), Config{Path: path, Clock: clockBehind(t, path)})
	check(t, err)
	defer func() { _ = l.Close() }()
	b := &book{Ledger: l, t: t, path: path}
	sameTables(t, "opened", was, tablesOf(t, path))
	rows, err := b.Rows(t.Context(), 0, 10)
	check(t, err)
	if len(rows) != 10 || rows[0].Seq != 1 {
		t.Errorf("%d rows were read from the archive", len(rows))
	}
	for _, what := range []string{"opened", "carried on"} {
		if _, err := b.VerifyWith(t.Context(), archive); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if what == "opened" {
			goOn(t, b)
		}
	}
}

// A command that ended before command.finished existed gets one when asked for.
func TestAnEndOfBeforeIsWrittenWhenItIsAskedFor(t *testing.T) {
	path := before(t, t.TempDir(), "main.ledger.db", "main.ledger.db")
	l, err := Open(t.Context(), Config{Path: path, Clock: clockBehind(t, path)})
	check(t, err)
	defer func() { _ = l.Close() }()
	b := &book{Ledger: l, t: t, path: path}
	ids, err := sqlite.Collect(l.query(t.Context(), `SELECT id FROM commands UNION SELECT id FROM rejections`), sqlite.Value[string])
	check(t, err)
	over := 0
	for _, id := range ids {
		ended, err := l.Operations.CommandEnded(t.Context(), id)
		check(t, err)
		f, err := l.Finished(t.Context(), id)
		check(t, err)
		if (f != nil) != ended || f != nil && (f.CommandID != id || f.Revision != 1 || f.State == "") {
			t.Errorf("%s, over %t: %+v", id, ended, f)
		}
		if ended {
			over++
		}
	}
	if over < 3 {
		t.Errorf("only %d of %d commands were over", over, len(ids))
	}
	b.proves()
}
