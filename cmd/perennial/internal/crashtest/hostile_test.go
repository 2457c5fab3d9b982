package crashtest

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/testdata/hostile"
)

// The commands have IDs, labels and proxies that look like subjects, line breaks and tags. Every
// event keeps the subject of its type, and every log entry stays on one line.
func TestNothingOfABodyBecomesASubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	run := start(t, w.dir, "run", "-v")
	var line daemon.ReadyLine
	run.ready(&line)
	nc, js := connectTo(t, line.NATS)
	defer nc.Close()
	var ids []string
	for _, text := range hostile.Texts {
		body, err := json.Marshal(map[string]any{"id": text, "duration_days": 30, "proxy_ids": []string{text}, "labels": map[string]string{strings.ReplaceAll(text, "=", "＝"): text}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "perennial.commands.main.proxy.renew", body); err != nil {
			t.Fatal(err)
		}
		if utf8.ValidString(text) && command.CheckID(text) == nil {
			ids = append(ids, text)
		}
	}
	for id, status := range w.ends(line.NATS, ids...) {
		if status.State != "rejected" {
			t.Errorf("%q is %s", id, status.State)
		}
	}
	types := fact.Types()
	for _, m := range w.published(line) {
		if name, ok := strings.CutPrefix(m.Subject, "perennial.events.main."); !ok || types[name] == nil {
			t.Errorf("an event under %q", m.Subject)
		}
	}
	for _, path := range []string{"/", "/a/main/operations"} {
		if page, err := w.page(line, path); err != nil || !strings.Contains(page, "</html>") || strings.Contains(page, "<script>") || strings.Contains(page, "<img") {
			t.Errorf("%s has a tag that was an id: %v", path, err)
		}
	}
	if out := w.mustCLI("operations"); strings.Count(out, "\n") != len(ids)+1 {
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
