// The tests check every fenced block of every document with the program that would read it. A
// language without a check fails, so that no new block stays unchecked.

package cli

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/inspect"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/tables"
	"perennial/upstream/sandbox"
)

const repository = "../../../.."

type fenced struct {
	page, language, text string
	line                 int
}

// documents returns the Markdown files that people read, as paths in the repository.
func documents(t *testing.T) []string {
	t.Helper()
	pages := []string{
		"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "upstream/sandbox/README.md",
		"testdata/drills/README.md", "testdata/faults/README.md", "testdata/planted/README.md", "testdata/threats/README.md", "testdata/traps/README.md",
	}
	err := filepath.WalkDir(filepath.Join(repository, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "site") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			page, _ := filepath.Rel(repository, path)
			pages = append(pages, page)
		}
		return nil
	})
	if err != nil || len(pages) < 40 {
		t.Fatalf("%d documents: %v", len(pages), err)
	}
	return pages
}

// blocks returns the fenced blocks of a document, and the rest of it as prose.
func blocks(t *testing.T, page string) (all []fenced, prose string) {
	t.Helper()
	fence := regexp.MustCompile("^ *```(.*)$")
	var open *fenced
	n := 0
	for line := range strings.Lines(text(t, filepath.Join(repository, page))) {
		n++
		m := fence.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		switch {
		case m != nil && open == nil:
			open = &fenced{page: page, language: m[1], line: n}
		case m != nil:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line
		default:
			prose += line
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block has no end", page, open.line)
	}
	return all, prose
}

// Commands and configurations are the program's, JSON decodes, Go compiles, and SQL runs. Other
// tests run the rest: TestThePagesVerifierProvesTheChain and TestThePagesSumIsTheBalance run
// Python, TestEachWayIntoNATSWorks NATS servers, TestTheExamplesVerifyWebhooks webhook verifiers,
// and TestReadmeCommandsWork the quick start.
func TestEveryBlockOfTheDocumentsHolds(t *testing.T) {
	checks := map[string]func(*testing.T, fenced) error{
		"sh": checkShell, "text": checkDrawing, "yaml": checkYAML, "json": checkJSON, "conf": checkNATS,
		"go": checkGo, "sql": checkSQL, "mermaid": checkDiagram, "python": checkRun, "javascript": checkRun,
	}
	seen := map[string]int{}
	for _, page := range documents(t) {
		all, prose := blocks(t, page)
		for _, b := range all {
			seen[b.language]++
			check := checks[b.language]
			if check == nil {
				t.Errorf("%s:%d: %q has no check: name a language that has one, or write one here", page, b.line, b.language)
				continue
			}
			if err := check(t, b); err != nil {
				t.Errorf("%s:%d: %v", page, b.line, err)
			}
		}
		for _, m := range regexp.MustCompile("`(perennial [^`]+)`").FindAllStringSubmatch(prose, -1) {
			if err := checkSynopsis(m[1]); err != nil && !saidNotTyped[m[1]] {
				t.Errorf("%s: `%s`: %v", page, m[1], err)
			}
		}
	}
	for language := range checks {
		if seen[language] == 0 {
			t.Errorf("no document has a block in %s: is it read?", language)
		}
	}
}

// saidNotTyped are log messages, and a misspelt command that the changelog mentions.
var saidNotTyped = map[string]bool{"perennial starts": true, "perennial stops: …": true, "perennial has stopped": true, "perennial ordr": true}

// The checks refuse the mistakes that would make a reader stumble.
func TestTheChecksOfBlocksRefuse(t *testing.T) {
	for _, c := range []struct {
		check func(*testing.T, fenced) error
		text  string
	}{
		{checkShell, "perennial ordr"}, {checkShell, "perennial order --item a=1 --dayz 30"}, {checkShell, "perennial backup create"},
		{checkShell, "echo 'open"}, {checkShell, "frobnicate"}, {checkShell, "go run ./cmd/none"}, {checkShell, "go run ./cmd/perennial demos"},
		{checkShell, "make none"}, {checkShell, "cd docs && npm ci"}, {checkShell, `A=1 perennial status | perennial events --none`},
		{checkShell, `nats req perennial.commands.main.order.create '{"id":"a"}'`}, {checkShell, `nats req perennial.svc.main.none '{"id":"a"}'`},
		{checkDrawing, "perennial reviews show ID\nperennial reviews resolve ID\n    --chargd CENTS\n"}, {checkDrawing, "perennial ledger balances [-o json]"},
		{checkYAML, "nats:\n  urll: a\n"}, {checkYAML, "schedules:\n  - {name: a, cron: never, renew_before: 72h, duration_days: 30}\n"},
		{checkYAML, "    replace: {enabled: true, most_cents: 4}\n"}, {checkYAML, "accounts: []\noffers:\n  - {offer: a}\n"},
		{checkJSON, `{"nats":"a","htttp":"b"}`}, {checkJSON, `{"a":1}`}, {checkJSON, `{`}, {checkJSON, `{"specversion":"1.0","type":"perennial.order.delivered.v1"}`},
		{checkSQL, "SELECT none FROM v_postings;\n"}, {checkSQL, "DELETE FROM journal;\n"}, {checkNATS, "jetstream {"}, {checkGo, "package main\nfunc main() {}\n"}, {checkGo, "package main\n\nfunc main() { none() }\n"},
		{checkDiagram, "flowchart LR\n  A[one --> B\n"}, {checkDiagram, "graph\n"},
	} {
		if c.check(t, fenced{text: c.text}) == nil {
			t.Errorf("this passes: %s", c.text)
		}
	}
}

// checkDrawing treats a line that begins with the program's name as a synopsis.
func checkDrawing(_ *testing.T, b fenced) error {
	for _, synopsis := range regexp.MustCompile(`(?m)^perennial .*(\n +.*)*`).FindAllString(b.text, -1) {
		if err := checkSynopsis(synopsis); err != nil {
			return fmt.Errorf("%s: %w", synopsis, err)
		}
	}
	return nil
}

// checkYAML accepts a sandbox fixture, a configuration, a part of a configuration, or a part of a
// schedule.
func checkYAML(t *testing.T, b fenced) error {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "perennial.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	if strings.Contains(b.text, "\noffers:") {
		_, err := sandbox.LoadFixture(write(b.text))
		return err
	}
	text := b.text
	if strings.HasPrefix(text, "    ") {
		text = "schedules:\n  - name: a\n    cron: \"@hourly\"\n    renew_before: 72h\n    duration_days: 30\n" + text
	}
	if !strings.Contains(text, "accounts:") {
		text += "\naccounts:\n  main: {base_url: http://127.0.0.1:1, app_id: sbx_app_a, secret_file: s}\n"
	}
	// A production account also needs users: docs/security.md.
	text = strings.Replace(text, "app_id: live_app_", "app_id: sbx_app_", 1)
	_, err := config.Load(write(text))
	return err
}

// checkJSON decodes the JSON into the type that the program writes, and refuses unknown fields. "…"
// may stand for a time or another text.
func checkJSON(t *testing.T, b fenced) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(b.text), &keys); err != nil {
		return err
	}
	for _, shape := range []struct {
		key  string
		into any
	}{
		{"nats", &daemon.ReadyLine{}}, {"production", &SandboxReadyLine{}}, {"operations", &inspect.CommandStatus{}},
		{"wallet_cents", &tables.Balance{}}, {"findings", &reconcile.Reconciliation{}}, {"needs", &verbs.Summary{}},
	} {
		if keys[shape.key] == nil {
			continue
		}
		whole := regexp.MustCompile(`("(?:\w+_)?at":)"…"`).ReplaceAllString(b.text, `$1"2026-11-24T00:00:00Z"`)
		d := json.NewDecoder(strings.NewReader(whole))
		d.DisallowUnknownFields()
		return d.Decode(shape.into)
	}
	if kind := keys["type"]; keys["specversion"] != nil && kind != nil {
		name := strings.TrimSuffix(strings.TrimPrefix(strings.Trim(string(kind), `"`), "perennial."), ".v1")
		return fits(t, name, b.text)
	}
	return errors.New("nothing is known that writes this JSON: add it to the shapes, or to the schemas")
}

// fits checks a text against the output of `perennial schema NAME`.
func fits(t *testing.T, name, text string) error {
	t.Helper()
	out, errs, code := schemaOf(t, name)
	if code != ExitDone {
		return errors.New(errs)
	}
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema", schema); err != nil {
		return err
	}
	compiled, err := c.Compile("schema")
	if err != nil {
		return err
	}
	return compiled.Validate(value)
}

// checkNATS parses the block as the server does. TestEachWayIntoNATSWorks runs servers with these
// files.
func checkNATS(t *testing.T, b fenced) error {
	for _, m := range regexp.MustCompile(`\$([A-Z_]+)`).FindAllStringSubmatch(b.text, -1) {
		t.Setenv(m[1], "a-password")
	}
	_, err := conf.Parse(regexp.MustCompile(`(?m)^include .*`).ReplaceAllString(b.text, ""))
	return err
}

// checkGo checks that the block is formatted, and that it builds in its own module with the
// versions that this module pins, as a program beside a clone would.
func checkGo(t *testing.T, b fenced) error {
	formatted, err := format.Source([]byte(b.text))
	if err != nil {
		return err
	}
	if !bytes.Equal(formatted, []byte(b.text)) {
		return errors.New("gofmt would change it")
	}
	clone, err := filepath.Abs(repository)
	if err != nil {
		return err
	}
	dir := t.TempDir()
	module := strings.Replace(text(t, repository+"/go.mod"), "module perennial\n", "module example\n", 1) +
		"\nrequire perennial v0.0.0\n\nreplace perennial => " + clone + "\n"
	for name, content := range map[string]string{
		"go.mod": module, "go.sum": text(t, repository+"/go.sum"), "main.go": b.text,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// checkSQL runs each statement on a new ledger that is opened read-only, as docs/cli.md says.
func checkSQL(t *testing.T, b fenced) error {
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for statement := range strings.SplitSeq(strings.TrimSpace(b.text), ";\n") {
		if err := runQuery(t, db, statement); err != nil {
			return err
		}
	}
	return nil
}

func runQuery(t *testing.T, db *sql.DB, statement string) error {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() { // the first step runs the statement
	}
	return rows.Err()
}

// checkDiagram checks that the diagram has a known kind, and that its brackets match. `make site`
// parses it with the library that draws it.
func checkDiagram(_ *testing.T, b fenced) error {
	kind, _, _ := strings.Cut(b.text, "\n")
	if !regexp.MustCompile(`^(flowchart (LR|TD)|stateDiagram-v2|sequenceDiagram)$`).MatchString(kind) {
		return fmt.Errorf("%q is no diagram that is used here", kind)
	}
	for _, pair := range []string{"()", "[]", "{}"} {
		if strings.Count(b.text, pair[:1]) != strings.Count(b.text, pair[1:]) {
			return fmt.Errorf("%s are not in pairs", pair)
		}
	}
	return nil
}

// runElsewhere lists the pages whose blocks other tests run: package ledger those of events,
// TestTheExamplesVerifyWebhooks (tag check) those of webhooks.
var runElsewhere = map[string][]string{
	"python": {"docs/events/README.md", "docs/webhooks.md"}, "javascript": {"docs/webhooks.md"},
}

// checkRun checks that another test runs the blocks of the page.
func checkRun(_ *testing.T, b fenced) error {
	if !slices.Contains(runElsewhere[b.language], b.page) {
		return fmt.Errorf("%s is run from %v only: have a test run it", b.language, runElsewhere[b.language])
	}
	return nil
}
