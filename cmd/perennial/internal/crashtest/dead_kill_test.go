package crashtest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/queue"
	"perennial/queue/letters"
)

// A kill after the fact or after the publication leaves the dead letter in place. When it is
// requeued again, the command is executed once. The journal records who requeued it both times.
func TestARequeueThatIsKilledHalfWayIsDoneOnce(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"dead.requeue.fact", "dead.requeue.published"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			run := w.runUntil(point + " kill")
			var line daemon.ReadyLine
			run.ready(&line)
			nc, js := connectTo(t, line.NATS)
			defer nc.Close()
			letter, err := json.Marshal(letters.Kept{Reason: "an older version could not read it", Subject: "perennial.commands.main.proxy.renew", Data: `{"id":"r1","proxy_ids":["px_1"],"duration_days":30}`, PublishedAt: time.Now().UTC()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := js.Publish(t.Context(), queue.DeadSubject("main"), letter); err != nil {
				t.Fatal(err)
			}
			w.cli("dead", "requeue", "1", "--by", "ada", "--reason", "this version reads it")
			run.awaitKilled()
			if n := w.requeues(); n != 1 {
				t.Errorf("%d facts before the end", n)
			}

			run, line = w.run()
			awaitReady(t, line)
			if out := w.mustCLI("dead", "list", "-o", "json"); strings.Count(out, "\n") != 1 {
				t.Errorf("the letter is not there any more:\n%s", out)
			}
			w.mustCLI("dead", "requeue", "1", "--by", "ada", "--reason", "again")
			w.ends(line.NATS, "r1")
			if out := w.mustCLI("dead", "list", "-o", "json"); out != "" {
				t.Errorf("the letter is still there:\n%s", out)
			}
			run.terminate()
			checkBooks(t, w, []string{"r1"})
			if n := w.requeues(); n != 2 {
				t.Errorf("%d facts", n)
			}
		})
	}
}

// requeues counts the requeued dead letters in the journal.
func (w *world) requeues() (n int) {
	for _, r := range w.wholeJournal() {
		if r.Type == "dead.requeued" && strings.Contains(r.Data, `"by":"ada"`) {
			n++
		}
	}
	return n
}
