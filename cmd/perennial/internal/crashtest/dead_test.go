package crashtest

import (
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// TestDeadLettersAreReadCorrectedAndDropped: what could not be read is not lost.
func TestDeadLettersAreReadCorrectedAndDropped(t *testing.T) {
	w := newWorld(t, 3)
	_, line := w.run()
	nc, js := connectTo(t, line.NATS)
	defer nc.Close()
	for _, body := range []string{`{"duration_days":30,"proxy_ids":["px_1"]}`, "\xff\xfe"} {
		if _, err := js.Publish(t.Context(), "perennial.commands.main.proxy.renew", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if _, errs, code := w.cli("renew", "px_2", "--id", "after", "--wait"); code != 0 { // what came before it has been read
		t.Fatalf("exit %d\n%s", code, errs)
	}
	out, errs, code := w.cli("dead", "list")
	if code != 0 || strings.Count(out, "perennial.commands.main.proxy.renew") != 2 || !strings.Contains(out, "has no id") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	if out, _, code = w.cli("dead", "show", "2", "-o", "json"); code != 0 || !strings.Contains(out, `\\xff\\xfe`) {
		t.Errorf("exit %d\n%s", code, out)
	}
	w.write("good.json", `{"id":"mended","duration_days":30,"proxy_ids":["px_1"]}`, 0o600)
	if _, errs, code = w.cli("dead", "requeue", "1", "--file", "good.json"); code != 0 {
		t.Errorf("exit %d\n%s", code, errs)
	}
	waitForEvent(t, line.NATS, "renewal.completed", "mended")
	if _, errs, code = w.cli("dead", "drop", "2"); code != 0 {
		t.Errorf("exit %d\n%s", code, errs)
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
