package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/sirupsen/logrus"

	"perennial/jobs"
	"perennial/ledger"
)

// hostile are texts that somebody might hope are taken for something else.
var hostile = []string{
	"perennial.events.main.>", "*", ">", "a.b.c", "..", ".", " ", "$SYS.REQ", "=1+1", "@SUM(A1)", "<script>alert(1)</script>", "\"><img src=x>", "a|b",
	"'; DROP TABLE journal;--", "x level=error msg=forged", "{\"level\":\"error\"}", "../../etc/passwd", "%s%n", "＝1", "{{.Account}}", "\\u003cscript\\u003e",
	"\u2028", "\u202e", "\x1b[2J", "a\nb", "a\tb", "\x00", "\u0085", "\xff",
}

// FuzzHostileTextOnPagesInTablesAndLogs: whatever text of somebody else is
// shown, it makes no tag, no line and moves no cursor.
func FuzzHostileTextOnPagesInTablesAndLogs(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return // nothing is shown for it
		}
		if got, want := strings.Count(shownOnPage(t, text), "<"), strings.Count(shownOnPage(t, "plain"), "<"); got != want {
			t.Errorf("%q makes tags on the dashboard", text)
		}
		shownInLogs(t, text)
		var table bytes.Buffer
		if err := (&app{stdout: &table}).table([]string{"A", "B"}, [][]string{{text, text}}); err != nil {
			t.Fatal(err)
		}
		if text = table.String(); strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("a table moves the cursor: %q", text)
		}
		oneLine(t, "a table's row", strings.TrimPrefix(table.String(), strings.SplitAfter(table.String(), "\n")[0]))
	})
}

func shownInLogs(t *testing.T, text string) {
	t.Helper()
	for name, format := range map[string]logrus.Formatter{"json": &logrus.JSONFormatter{}, "text": &logrus.TextFormatter{}} {
		var logged bytes.Buffer
		log := logrus.New()
		log.SetOutput(&logged)
		log.SetFormatter(format)
		log.WithError(errors.New(text)).WithField("operation_id", text).Warn(text)
		oneLine(t, "a log line in "+name, logged.String())
		if name == "json" && !json.Valid(logged.Bytes()) {
			t.Errorf("no JSON: %s", logged.String())
		}
	}
}

func oneLine(t *testing.T, what, text string) {
	t.Helper()
	if line, rest, ok := strings.Cut(text, "\n"); !ok || rest != "" || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
		t.Errorf("%s is no line: %q", what, text)
	}
}

func shownOnPage(t *testing.T, text string) string {
	t.Helper()
	o := jobs.OperationStatus{OperationID: text, State: "review", Reason: text}
	v := dashboardAccount{Operations: []jobs.OperationStatus{o}, Counts: map[ledger.State]int64{ledger.State(text): 1}}
	v.Account, v.AccountID, v.NotReady, v.Environment = text, text, text, text
	v.Paused = []ledger.Pause{{Scope: text, Cause: text, Detail: text}}
	var page bytes.Buffer
	if err := dashboardPage.Execute(&page, []dashboardAccount{v}); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// TestNothingOfABodyBecomesASubject: commands whose ids, labels and proxies look
// like subjects, lines and tags go their way in a real run; every event is under
// a subject of its type alone, and every line of the log is one.
func TestNothingOfABodyBecomesASubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	run := start(t, w.dir, "run", "-v")
	var line readyLine
	run.ready(&line)
	nc, js := connectTo(t, line.NATS)
	defer nc.Close()
	var ids []string
	for _, text := range hostile {
		body, err := json.Marshal(map[string]any{"id": text, "duration_days": 30, "proxy_ids": []string{text}, "labels": map[string]string{text: text}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "perennial.commands.main.proxy.renew", body); err != nil {
			t.Fatal(err)
		}
		if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) && text != "\xff" {
			ids = append(ids, text)
		}
	}
	for id, status := range w.ends(line.NATS, ids...) {
		if status.State != "rejected" {
			t.Errorf("%q is %s", id, status.State)
		}
	}
	types := ledger.FactTypes()
	for _, m := range w.published(line) {
		if name, ok := strings.CutPrefix(m.Subject, "perennial.events.main."); !ok || types[name] == nil {
			t.Errorf("an event under %q", m.Subject)
		}
	}
	if page, err := w.get(line.HTTP + "/"); err != nil || strings.Contains(page, "<script>") || strings.Contains(page, "<img") {
		t.Errorf("the dashboard has a tag that was an id: %v", err)
	}
	if out := w.mustCLI("status"); strings.Count(out, "\n") != len(ids)+1 {
		t.Errorf("%d operations and this table:\n%s", len(ids), out)
	}
	if code := run.terminate(); code != 0 {
		t.Errorf("exit %d", code)
	}
	for text := range strings.Lines(run.stderr.String()) {
		if !json.Valid([]byte(text)) {
			t.Errorf("a line of the log is none: %q", text)
		}
	}
}
