package crashtest

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
)

// A message that could not be read is not lost.
func TestDeadLettersAreReadCorrectedAndDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	_, line := w.run()
	nc, js := connectTo(t, line.NATS)
	defer nc.Close()
	for _, body := range []string{`{"duration_days":30,"proxy_ids":["px_1"]}`, "\xff\xfe"} {
		if _, err := js.Publish(t.Context(), "perennial.commands.main.proxy.renew", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if _, errs, code := w.cli("renew", "px_2", "--id", "after", "--wait"); code != 0 { // the earlier messages have been read
		t.Fatalf("exit %d\n%s", code, errs)
	}
	out, errs, code := w.cli("dead", "list")
	if code != 0 || strings.Count(out, "perennial.commands.main.proxy.renew") != 2 || !strings.Contains(out, "has no id") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	if out, _, code = w.cli("dead", "show", "2", "-o", "json"); code != 0 || !strings.Contains(out, `\\xff\\xfe`) {
		t.Errorf("exit %d\n%s", code, out)
	}
	if _, errs, code = w.cli("dead", "requeue", "1"); code != cli.ExitUsage || !strings.Contains(errs, "it would be refused again, so nothing was published: ") {
		t.Errorf("unchanged: exit %d\n%s", code, errs)
	}
	w.write("good.json", `{"id":"mended","duration_days":30,"proxy_ids":["px_1"]}`, 0o600)
	if out, errs, code = w.cli("dead", "requeue", "1", "--file", "good.json"); code != 0 || out != "requeued: dead letter 1, perennial.commands.main.proxy.renew\n" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	waitForEvent(t, line.NATS, "renewal.completed", "mended")
	if out := w.mustCLI("audit"); !strings.Contains(out, "requeued  dead letter 1") {
		t.Errorf("the audit does not say that it was published again:\n%s", out)
	}
	if out, errs, code = w.cli("dead", "drop", "2"); code != 0 || out != "deleted: dead letter 2, perennial.commands.main.proxy.renew\n" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if out, _, code = w.cli("dead", "list", "-o", "json"); code != 0 || out != "" {
		t.Errorf("exit %d, still there: %s", code, out)
	}
	if _, errs, code = w.cli("dead", "drop", "2"); code != cli.ExitFailed || !strings.Contains(errs, "no such dead letter") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, _, code = w.cli("dead", "show", "first"); code != cli.ExitUsage {
		t.Errorf("exit %d", code)
	}
}

// From the ID of a refused command, one step leads to the reason, whether it became a dead letter
// or not. The command needs a person.
func TestARefusedCommandIsFoundByItsID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	_, line := w.run()
	nc, js := connectTo(t, line.NATS)
	defer nc.Close()
	for _, body := range []string{`{"command_id":"lost-1","proxy_ids":["px_1"]}`, `{"id":"lost-2","proxy_idz":["px_1"],"duration_days":30}`} {
		if _, err := js.Publish(t.Context(), "perennial.commands.main.proxy.renew", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	w.mustCLI("renew", "px_2", "--id", "after", "--wait")
	for _, command := range [][]string{{"operations", "show", "lost-1"}, {"status", "lost-1"}} {
		_, errs, code := w.cli(command...)
		if code != cli.ExitFailed || !strings.Contains(errs, `command "lost-1" was refused: the command has no id`) || !strings.Contains(errs, "dead-letters show 1") {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
	if out := w.mustCLI("status", "lost-2"); !strings.Contains(out, "to do    Publish the corrected command under the same id") {
		t.Errorf("nothing says what to do:\n%s", out)
	}
	if _, errs, code := w.cli("retry", "lost-2"); code != cli.ExitFailed || !strings.Contains(errs, "lost-2 was refused on arrival. Publish the corrected command") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, errs, code := w.cli("operations", "show", "lost-3"); code != cli.ExitFailed || !strings.Contains(errs, `there is no command or operation "lost-3"`) {
		t.Errorf("exit %d: %s", code, errs)
	}
	if out := w.mustCLI("operations", "list"); !strings.Contains(out, "lost-2") || !strings.Contains(out, "proxy_idz") {
		t.Errorf("what was refused is not listed:\n%s", out)
	}
	if out := w.mustCLI("status"); !strings.Contains(out, "1 dead letter") || !strings.Contains(out, "1 command refused as invalid within 24 h") {
		t.Errorf("what was refused does not need a person:\n%s", out)
	}
}

// A flag selects the dead letters, and each drop is a fact.
func TestManyDeadLettersAreDroppedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	_, line := w.run()
	awaitReady(t, line)
	w.deadLetters(line, "1", "2", "3")
	if out := w.mustCLI("dead", "list", "--limit", "2", "-o", "json"); strings.Count(out, "\n") != 2 || !strings.Contains(out, `"code":"unreadable"`) {
		t.Errorf("%s", out)
	}
	for _, wrong := range [][]string{{}, {"1", "--all"}, {"--all", "--code", "refused"}, {"--before", "noon"}} {
		if _, errs, code := w.cli(append([]string{"dead", "drop"}, wrong...)...); code != cli.ExitUsage {
			t.Errorf("%v: exit %d: %s", wrong, code, errs)
		}
	}
	for _, none := range [][]string{{"--code", "refused"}, {"--before", "2020-01-01"}} {
		if out := w.mustCLI(append([]string{"dead", "drop"}, none...)...); !strings.Contains(out, "nothing to change") {
			t.Errorf("%v: %s", none, out)
		}
	}
	if out := w.mustCLI("dead", "drop", "--code", "unreadable", "--reason", "a broken producer"); !strings.Contains(out, "dropped 3 dead letters") {
		t.Errorf("%s", out)
	}
	if out := w.mustCLI("dead", "list", "-o", "json"); out != "" {
		t.Errorf("still there: %s", out)
	}
	if out := w.mustCLI("review", "log"); strings.Count(out, "a broken producer") != 3 {
		t.Errorf("not three decisions: %s", out)
	}
}

// deadLetters publishes unreadable messages and waits until they are listed.
func (w *world) deadLetters(line daemon.ReadyLine, bodies ...string) {
	w.t.Helper()
	nc, js := connectTo(w.t, line.NATS)
	defer nc.Close()
	for _, body := range bodies {
		if _, err := js.Publish(w.t.Context(), "perennial.commands.main.proxy.renew", []byte(body)); err != nil {
			w.t.Fatal(err)
		}
	}
	await(w.t, "they are dead letters", func() bool { return strings.Count(w.mustCLI("dead", "list", "-o", "json"), "\n") == len(bodies) })
}

// An operator reads, requeues and drops dead letters on a page. The operator's name and reason are
// recorded as facts.
func TestDeadLettersAreLookedAfterOnAPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	_, line := w.run()
	awaitReady(t, line)
	w.deadLetters(line, `{"proxy_ids":["px_1"]}`, "\xff\xfe")
	b := w.browser()
	get := func(path string) string {
		t.Helper()
		text, code, err := ask(b, line.HTTP+path, nil)
		if err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d %v\n%s", path, code, err, text)
		}
		return text
	}
	if page := get("/a/main/dead"); !strings.Contains(page, "has no id") || !strings.Contains(page, "/a/main/dead?seq=2") {
		t.Errorf("%s", page)
	}
	if page := get("/a/main/dead?seq=2"); !strings.Contains(page, `\xff\xfe`) {
		t.Errorf("%s", page)
	}
	form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(get("/a/main/dead?seq=1"))[1]
	for seq, what := range map[string]string{"1": "dead-requeue", "2": "dead-drop"} {
		var clicks sync.WaitGroup
		var done atomic.Int64
		for range 3 { // as by a double click: once is enough
			clicks.Go(func() {
				text, code, err := ask(b, line.HTTP+"/a/main/change/"+what, url.Values{"form": {form}, "id": {seq}, "reason": {"so it is"}})
				if strings.Contains(text, "Done:") {
					done.Add(1)
				} else if err != nil || code != http.StatusUnprocessableEntity || !strings.Contains(text, "there is no dead letter "+seq) {
					t.Errorf("%s: %d %v %s", what, code, err, text)
				}
			})
		}
		if clicks.Wait(); done.Load() != 1 {
			t.Errorf("%s was done %d times", what, done.Load())
		}
	}
	await(t, "what was requeued is refused again, and the other one is gone", func() bool {
		page := get("/a/main/dead")
		return strings.Contains(page, "/a/main/dead?seq=3") && !strings.Contains(page, "?seq=1\"") && !strings.Contains(page, "?seq=2\"")
	})
	correct := func(content string) (string, int) {
		text, code, err := ask(b, line.HTTP+"/a/main/change/dead-correct", url.Values{"form": {form}, "id": {"3"}, "reason": {"it has an id now"}, "content": {content}})
		if err != nil {
			t.Fatal(err)
		}
		return text, code
	}
	for content, why := range map[string]string{
		`{"proxy_ids":["px_1"]}`: "has no id", `{"id":"mended","proxy_ids":["px_1"],"duration_days":31}`: "duration_days", `{"id":"mended"`: "JSON", "\xff": "JSON",
		`{"id":"mended","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":1}]}`: "items", // an order, but the dead letter was a renewal
	} {
		if text, code := correct(content); code != http.StatusUnprocessableEntity || !strings.Contains(text, why) || !strings.Contains(text, "it has an id now") {
			t.Errorf("%s: %d\n%s", content, code, text)
		}
	}
	if out := w.mustCLI("audit", "-o", "json"); strings.Contains(out, "it has an id now") {
		t.Errorf("what was refused is a fact:\n%s", out)
	}
	if text, code := correct(`{"id":"mended","duration_days":30,"proxy_ids":["px_1"]}`); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	waitForEvent(t, line.NATS, "renewal.completed", "mended")
	if text, code := correct(`{"id":"mended","duration_days":30,"proxy_ids":["px_1"]}`); code != http.StatusNotFound {
		t.Errorf("the letter is still there: %d %s", code, text)
	}
	if page := get("/a/main/log"); !strings.Contains(page, "it has an id now") {
		t.Errorf("no correction is shown:\n%s", page)
	}
	for _, decided := range []string{"<td>requeued</td>", "<td>dropped</td>"} {
		if page := get("/a/main/log"); !strings.Contains(page, decided) || !strings.Contains(page, "so it is") {
			t.Errorf("no %s among the decisions:\n%s", decided, page)
		}
	}
	if page := get("/runners"); !strings.Contains(page, "active") || !strings.Contains(page, "this one") {
		t.Errorf("%s", page)
	}
}
