package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"perennial/ledger/sqlite"
	"perennial/ledger/tables"

	"github.com/mattn/go-sqlite3"
)

// statement is an SQL statement of the package, and the function or variable that holds it.
type statement struct{ in, text string }

var isStatement = regexp.MustCompile(`(?i)^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|REPLACE)\s`)

// statementsOfSources finds every constant statement in the packages' sources, and the
// functions that build one at run time.
func statementsOfSources(t *testing.T) (all []statement, dynamic map[string]bool) {
	t.Helper()
	set, made := token.NewFileSet(), packagesMade{}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	var files []*ast.File
	for _, dir := range withStatements {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		check(t, err)
		var own []*ast.File
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(set, name, nil, 0)
			check(t, err)
			own = append(own, file)
		}
		c := types.Config{Importer: made, Error: func(error) {}, FakeImportC: true}
		name := path.Join("perennial", "ledger", dir)
		made[name], _ = c.Check(name, set, own, info)
		files = append(files, own...)
	}
	dynamic = map[string]bool{}
	for _, file := range files {
		for _, decl := range file.Decls {
			in := nameOf(decl)
			ast.Inspect(decl, func(n ast.Node) bool {
				expr, ok := n.(ast.Expr)
				if !ok {
					return true
				}
				if text, ok := constantText(info, expr); ok {
					if isStatement.MatchString(text) {
						all = append(all, statement{in, text})
					}
					return false
				}
				sum, ok := expr.(*ast.BinaryExpr)
				if ok && sum.Op == token.ADD && isStatement.MatchString(leftmost(info, sum)+" ") {
					dynamic[in] = true
					return false
				}
				return true
			})
		}
	}
	return all, dynamic
}

// withStatements lists the directories of the packages that hold statements, each after
// those whose constants it uses.
var withStatements = []string{"chain", "tables", "report", "."}

// packagesMade imports only the packages of the ledger: constant strings need no others.
type packagesMade map[string]*types.Package

func (m packagesMade) Import(path string) (*types.Package, error) {
	if p := m[path]; p != nil {
		return p, nil
	}
	return nil, errors.New("not followed")
}

func constantText(info *types.Info, expr ast.Expr) (string, bool) {
	value := info.Types[expr].Value
	if value == nil || value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(value), true
}

// leftmost returns the beginning of a concatenation.
func leftmost(info *types.Info, expr ast.Expr) string {
	if text, ok := constantText(info, expr); ok {
		return text
	}
	if sum, ok := expr.(*ast.BinaryExpr); ok {
		return leftmost(info, sum.X)
	}
	return ""
}

func nameOf(decl ast.Decl) string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		receiver := d.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		return fmt.Sprint(receiver) + "." + d.Name.Name
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				return v.Names[0].Name
			}
		}
	}
	return "?"
}

// recorder is a driver that records its statements.
type recorder struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (r *recorder) record(query string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[query] = true
}

// Open implements driver.Driver.
func (r *recorder) Open(name string) (driver.Conn, error) {
	c, err := (&sqlite3.SQLiteDriver{}).Open(name)
	if err != nil {
		return nil, err
	}
	return recordingConn{c.(*sqlite3.SQLiteConn), r}, nil
}

type recordingConn struct {
	*sqlite3.SQLiteConn

	r *recorder
}

func (c recordingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.r.record(query)
	return c.SQLiteConn.QueryContext(ctx, query, args)
}

func (c recordingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.r.record(query)
	return c.SQLiteConn.PrepareContext(ctx, query)
}

// builds runs the functions that build a statement.
var builds = map[string]func(b *book) error{
	"Fleet.CountStaying": func(b *book) error {
		return b.Fleet.CountStaying(context.Background(), noon, tables.KindColumns, func(tables.Proxy, int) error { return nil })
	},
	"Money.TotalsBy": func(b *book) error {
		for by := range tables.TotalsBy {
			if _, err := b.Money.TotalsBy(context.Background(), by, 1); err != nil {
				return err
			}
		}
		return nil
	},
	"endings": func(b *book) error {
		_, err := b.Operations.Histories(context.Background(), []tables.Proxy{{ExpiresAt: &noon}}, noon)
		return err
	},
	"comparison.compareTable": func(b *book) error { _, err := b.Verify(context.Background()); return err },
	"wholeRows": func(b *book) error {
		for _, table := range projections {
			columns, err := sqlite.Columns(context.Background(), b.read, table)
			if err != nil {
				return err
			}
			if _, err := sqlite.Collect(b.query(context.Background(), wholeRows(table, columns)), sqlite.Value[string]); err != nil {
				return err
			}
		}
		return nil
	},
	"newBatch":         func(*book) error { return nil }, // INSERT … VALUES
	"snapshotQuery":    func(b *book) error { return b.joins(context.Background(), b.Ledger) },
	"fold.fill":        func(*book) error { return nil }, // writes a part of a snapshot: INSERT … SELECT FROM jsonb_each
	"fold.beginBehind": func(*book) error { return nil }, // copies whole tables of an archive
	"Operations.Refused": func(b *book) error {
		_, err := b.Operations.Refused(context.Background(), noon, noon.Add(1), 5)
		return err
	},
	"projector.applyResolved": func(b *book) error {
		return b.tryAdd(resolved("r8/0001", "px_8b", "charged", 310))
	},
}

// theRecorder is the registered recorder: a driver is registered once a process.
var theRecorder = sync.OnceValue(func() *recorder {
	r := &recorder{seen: map[string]bool{}}
	sql.Register("recorder", r)
	return r
})

// recorded returns a book whose reads are recorded.
func recorded(t *testing.T) (*book, *recorder) {
	t.Helper()
	r := theRecorder()
	clear(r.seen)
	b := newBook(t)
	b.add(history()...)
	check(t, b.read.Close())
	var err error
	b.read, err = sql.Open("recorder", dsn(b.path, url.Values{"mode": {"ro"}, "_journal_mode": nil}))
	b.Queries = tables.New(b.read, b.Journal)
	check(t, err)
	return b, r
}

// dynamicStatements returns the statements that the functions build.
func dynamicStatements(t *testing.T, functions []string) (all []statement) {
	t.Helper()
	b, r := recorded(t)
	for _, name := range functions {
		run := builds[name]
		if run == nil {
			t.Errorf("%s puts a statement together: say in builds how it is run", name)
			continue
		}
		clear(r.seen)
		before := maps.Clone(b.write.stmts)
		if err := run(b); err != nil && !strings.Contains(name, "snapshot") {
			t.Errorf("%s: %v", name, err)
		}
		for query := range r.seen {
			all = append(all, statement{name, query})
		}
		for query := range b.write.stmts {
			if before[query] == nil {
				all = append(all, statement{name, query})
			}
		}
	}
	return all
}

// steps returns the lines of EXPLAIN QUERY PLAN.
func steps(t *testing.T, c *conn, query string) []string {
	t.Helper()
	s, err := c.raw.Prepare(`EXPLAIN QUERY PLAN ` + query)
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	defer func() { _ = s.Close() }()
	rows, err := s.Query(make([]driver.Value, s.NumInput())) //nolint:staticcheck // the driver's own
	check(t, err)
	defer func() { _ = rows.Close() }()
	var lines []string
	values := make([]driver.Value, len(rows.Columns()))
	for {
		err := rows.Next(values)
		if errors.Is(err, io.EOF) {
			return lines
		}
		check(t, err)
		lines = append(lines, fmt.Sprint(values[3]))
	}
}

// small lists tables that do not grow with the books.
var small = []string{"binding", "base", "seal", "totals", "pauses", "arrows", "listing", "state_counts", "archives", "published", "sqlite_schema", "goose_db_version", "pragma_table_info",
	"schedule_pauses", "schedule_calendars",
	"fired", "corrections"} // the names of schedules, and what corrects one record

// ofTheOpen lists partial indexes of open, wrong or manually written rows, which do not
// grow with the books.
var ofTheOpen = []string{"operations_live", "operations_next", "operations_due", "one_open_renewal_per_proxy", "lines_unresolved", "sweep_reviews_open", "slots_held", "transfers_recorded", "operations_numberless",
	"proxies_unlisted", "proxies_unreadable", "journal_records", "archived_records"}

// subquery represents a derived table: its own steps are in the plan too.
const subquery = "(subquery)"

var (
	scanned  = regexp.MustCompile(`^SCAN (\S+)(?: USING (?:COVERING )?INDEX (\S+))?(?: LEFT-JOIN)?$`)
	aliasing = regexp.MustCompile(`(?i)(?:FROM|JOIN|,|UPDATE|INTO)\s+([a-z_]+)(?:\s+(?:AS\s+)?([a-z_]+))?`)
	derived  = regexp.MustCompile(`(?i)\)\s+(?:AS\s+)?([a-z_]+)`)
	// byTheEnd reads the journal from its end and stops after some rows.
	byTheEnd = regexp.MustCompile(`FROM journal ORDER BY seq DESC LIMIT \d+`)
)

// growing returns the growing tables that a plan reads from end to end.
func growing(t *testing.T, c *conn, tables func(string) bool, views, query string) (whole []string) {
	t.Helper()
	named := map[string][]string{}
	if !strings.Contains(query, "v_") {
		views = ""
	}
	for _, m := range aliasing.FindAllStringSubmatch(query+" "+views, -1) {
		if !tables(m[1]) {
			continue
		}
		named[m[1]] = append(named[m[1]], m[1])
		named[m[2]] = append(named[m[2]], m[1])
	}
	for _, m := range derived.FindAllStringSubmatch(query+" "+views, -1) {
		named[m[1]] = append(named[m[1]], subquery)
	}
	for _, step := range steps(t, c, query) {
		if strings.Contains(step, "AUTOMATIC") {
			whole = append(whole, step)
		}
		m := scanned.FindStringSubmatch(step)
		if len(m) == 0 || m[1] == "journal" && byTheEnd.MatchString(query) || strings.HasPrefix(m[1], "(subquery") || slices.Contains(ofTheOpen, m[2]) {
			continue
		}
		of := named[m[1]]
		if len(of) == 0 {
			of = []string{m[1]}
		}
		for _, table := range of {
			if !slices.Contains(small, table) && table != subquery && !strings.HasPrefix(table, "v_") && table != "json_each" {
				whole = append(whole, table)
				break
			}
		}
	}
	return whole
}

// wholeTables lists the functions that may read a whole table, and why.
var wholeTables = map[string]string{
	"Fleet.CountStaying":       "keep counts the proxies that stay, and nearly all do",
	"countPriced":              "a forecast looks at most of the fleet, and a scan is faster than the index",
	"Fleet.Staying":            "as CountStaying, where a rule needs single proxies",
	"Fleet.WithoutExpiry":      "a listing counts them after Staying, and a person lists all proxies",
	"observations.FinishPass":  "ends a listing that has read and written every proxy",
	"observations.FinishCopy":  "ends the taking over of every proxy",
	"observations.CountLost":   "ends a listing that has read and written every proxy",
	"observations.StaleAll":    "after a restore, once",
	"Sweeps.PlannedSlots":      "its index holds only the slots whose commands are not all published",
	"Money.Dearest":            "goes back from the newest transfer and stops after dearestOf",
	"Fleet.movedOutside":       "holds only what a person has not explained, and stops after movedMost",
	"observations.ForgetMoved": "holds only what a person has not explained, and is asked for by a person",
	"Ledger.monthEnds":         "an archiving, which reads everything anyway",
	"TotalsBy":                 "a person asks for the sums of the whole book",
	"Money.TotalsBy":           "a person asks for the sums of the whole book",
	"firstUnfinished":          "an archiving, which reads everything anyway",
	"leftOfRows":               "an archiving takes what is left of every row",
	"labelsAgain":              "a fold that begins with a snapshot reads all of it",
	"Ledger.joins":             "a verification compares what was left of every row",
	"fold.beginAs":             "a verification begins with the whole snapshot",
	"fold.begin":               "a fold that begins with a snapshot reads all of it",
	"fold.bookAgain":           "booking times are added once to a snapshot older than booked_at",
	"wholeRows":                "a verification compares every row",
	"comparison.compareTable":  "a verification compares every row",
	"countStates":              "a fold counts the operations once, behind its last row",
	"backdated":                "a verification reads every booking",
	"checkMonths":              "a verification reads every booking",
	"outstandingQuery":         "a person asks for what a month does not book",
	"checkKeys":                "a verification reads every key",
	"checkProxies":             "a verification reads every proxy",
}

func TestNoStatementScansATableThatGrows(t *testing.T) {
	all, dynamic := statementsOfSources(t)
	if len(all) < 100 {
		t.Fatalf("only %d statements were found", len(all))
	}
	all = append(all, dynamicStatements(t, slices.Sorted(maps.Keys(dynamic)))...)
	b := newBook(t)
	var views string
	check(t, b.read.QueryRowContext(t.Context(), `SELECT group_concat(sql, ' ') FROM sqlite_schema WHERE type = 'view'`).Scan(&views))
	rows, err := b.read.QueryContext(t.Context(), `SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')`)
	check(t, err)
	named, err := sqlite.Collect(rows, sqlite.Value[string])
	check(t, err)
	check(t, b.write.exec(`ATTACH ? AS again`, b.path)) // as a verification attaches a second fold
	used, seen := map[string]bool{}, map[string]bool{}
	for _, s := range all {
		if seen[s.text] && wholeTables[s.in] == "" {
			continue
		}
		seen[s.text] = true
		tables := growing(t, b.write, func(name string) bool { return slices.Contains(named, name) }, views, s.text)
		if len(tables) == 0 {
			continue
		}
		used[s.in] = true
		if wholeTables[s.in] == "" {
			t.Errorf("%s reads all of %s:\n%s\n%s", s.in, strings.Join(tables, ", "), s.text, strings.Join(steps(t, b.write, s.text), "\n"))
		}
	}
	for name := range wholeTables {
		if !used[name] {
			t.Errorf("%s reads no table from end to end: take it off the list", name)
		}
	}
}

// SQLite reads the value of a bare parameter in LIMIT, and of one compared with a column
// that a partial index fixes to a constant. It then prepares a cached statement again at
// each call: a query of 12 µs takes 120. A plus before the parameter prevents it.
func TestNoStatementIsPreparedAtEachCall(t *testing.T) {
	all, dynamic := statementsOfSources(t)
	all = append(all, dynamicStatements(t, slices.Sorted(maps.Keys(dynamic)))...)
	b := newBook(t)
	partial, err := b.read.QueryContext(t.Context(), `SELECT tbl_name || ' ' || substr(sql, instr(sql, ' WHERE ')) FROM sqlite_schema WHERE type = 'index' AND sql LIKE '% WHERE %'`)
	check(t, err)
	indexes, err := sqlite.Collect(partial, sqlite.Value[string])
	check(t, err)
	compared := map[string]*regexp.Regexp{`LIMIT`: regexp.MustCompile(`LIMIT \?`)}
	for _, index := range indexes {
		table, condition, _ := strings.Cut(index, " ")
		for _, equal := range regexp.MustCompile(`(\w+) = ['\d]`).FindAllStringSubmatch(condition, -1) {
			compared[table+" "+equal[1]] = regexp.MustCompile(`(?s)\b` + table + `\b.*WHERE.*\b` + equal[1] + ` = \?`)
		}
	}
	if len(compared) < 8 {
		t.Fatalf("only %d columns of partial indexes were found", len(compared))
	}
	for _, s := range all {
		for what, bare := range compared {
			if bare.MatchString(s.text) {
				t.Errorf("%s compares %s with a bare parameter:\n%s", s.in, what, s.text)
			}
		}
	}
}
