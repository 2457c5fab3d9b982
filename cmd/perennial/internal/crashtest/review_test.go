package crashtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/ledger"
	"perennial/schedules"
)

// TestAPersonAnswersForWhatSweepsGaveUp has a proxy fail five times, and answers
// from the command line.
func TestAPersonAnswersForWhatSweepsGaveUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.configure("", `schedules:
  - {name: keep, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30, match: {proxy_ids: [px_1]}}
`)
	run, line := w.run()
	fail := func(from, to int) {
		w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "renewal", "failed": 1, "times": to - from + 1})
		for n := from; n <= to; n++ {
			if out, errs, code := w.cli("renew", "px_1", "--id", fmt.Sprintf("try-%d", n), "--wait"); code != cli.ExitFailed {
				t.Fatalf("exit %d\n%s%s", code, out, errs)
			}
		}
		run.terminate() // a start lists the proxies at once
		run, line = w.run()
	}
	review := func() (all []ledger.Review) {
		for text := range strings.Lines(w.mustCLI("review", "list", "-o", "json")) {
			var one ledger.Review
			if err := json.Unmarshal([]byte(text), &one); err != nil {
				t.Fatal(err)
			}
			all = append(all, one)
		}
		return all
	}
	fail(1, 5)
	if p := w.sweepAgain("keep"); p.LeftOutCounts[schedules.ReasonPerson] != 1 {
		t.Fatalf("left out %v", p.LeftOutCounts)
	}
	waiting := review()
	if len(waiting) != 1 || waiting[0].ProxyID != "px_1" || waiting[0].CommandID != "try-5" {
		t.Fatalf("in review: %+v", waiting)
	}
	if page, err := w.get(line.HTTP + "/metrics"); err != nil || !strings.Contains(page, `perennial_reviews{account="main"} 1`) {
		t.Errorf("no metric tells of it: %v", err)
	}
	id := waiting[0].OperationID
	shown := w.mustCLI("review", "show", id)
	if of := w.mustCLI("review", "show", "try-5"); !strings.Contains(of, id) { // the command's id
		t.Errorf("review show of the command:\n%s", of)
	}
	for _, text := range []string{"try-1/", "--not-charged --send-again", "px_1"} {
		if !strings.Contains(shown, text) {
			t.Errorf("review show does not say %q:\n%s", text, shown)
		}
	}
	answer := func(code int, says string, args ...string) {
		t.Helper()
		out, errs, got := w.cli(append([]string{"review", "resolve", id, "--by", "ada", "--reason", "looked"}, args...)...)
		if got != code || !strings.Contains(out+errs, says) {
			t.Errorf("%v: exit %d\n%s%s", args, got, out, errs)
		}
	}
	answer(cli.ExitFailed, "booked", "--charged", "300")
	answer(cli.ExitFailed, "needs no review", "--line", "px_2", "--not-charged")
	operation := id
	id = waiting[0].CommandID // of a command with one operation in review
	answer(cli.ExitDone, "", "--line", "px_1", "--not-charged", "--send-again")
	id = operation
	answer(cli.ExitFailed, "is failed and needs no review", "--not-charged", "--send-again")
	if of := w.mustCLI("review", "show", waiting[0].CommandID); !strings.Contains(of, operation) { // once it is answered too
		t.Errorf("review show of the command:\n%s", of)
	}
	if len(review()) != 0 {
		t.Error("it was answered and still waits")
	}
	if p := w.plan("plan", "keep"); len(p.Included) != 1 {
		t.Errorf("left out %v", p.LeftOut)
	}

	fail(6, 10)
	w.sweepAgain("keep")
	id = review()[0].OperationID
	answer(cli.ExitDone, "", "--not-charged")
	if p := w.plan("plan", "keep"); p.LeftOutCounts[schedules.ReasonRetired] != 1 || len(review()) != 0 {
		t.Errorf("left out %v", p.LeftOut)
	}
}

// sweepAgain fires the schedule until everything was listed
// again since its last renewal.
func (w *world) sweepAgain(schedule string) (p schedules.Plan) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		out, errs, code := w.cli("sweep", "run", schedule, "-o", "json")
		if code == cli.ExitDone || code == cli.ExitPerson {
			p = schedules.Plan{}
			if err := json.Unmarshal([]byte(out), &p); err != nil {
				w.t.Fatal(err)
			}
			if p.LeftOutCounts[schedules.ReasonUnread] == 0 {
				return p
			}
			continue
		}
		if !strings.Contains(errs, "has fired before") { // the seconds of a minute are taken
			w.t.Fatalf("sweep run: exit %d\n%s", code, errs)
		}
	}
	w.t.Fatal("what was renewed is not listed again")
	return p
}
