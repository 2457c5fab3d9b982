//go:build check

package crashtest

import (
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/queue/embedded"
)

// While a runner on another machine leads the account, this machine archives the ledger. The runner
// hands over, continues afterwards, and follows what was archived. This also works after an archive
// run that was killed. An operator's pause of the account stays.
func TestAnArchivingBorrowsTheAccount(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	w := oldWorld(t, server.URL())
	other, line := w.run("--data", "data-2")
	w.readySays(line, ready)
	w.mustCLI("renew", "px_2", "--id", "before", "--wait") // the ledger to be archived does not have this command
	node := decode[cluster.Node](t, w.mustCLI("nodes", "-o", "json")).Node
	w.mustCLI("account", "move", "main", "--to", node)
	startIn(t, w.dir, []string{crashVariable + "=archive.begun kill"}, archiveArgs()...).awaitKilled()
	w.mustCLI("renew", "px_4", "--id", "killed", "--wait")
	out := w.archiveOld()
	if out.LastSeq < 400 {
		t.Fatalf("%+v", out)
	}
	w.onStream(server, func(_ *queue.Queue, js jetstream.JetStream) {
		pins, err := js.KeyValue(t.Context(), queue.PinsBucket)
		if err != nil {
			t.Fatal(err)
		}
		if pin, err := pins.Get(t.Context(), "main"); err != nil || string(pin.Value()) != node {
			t.Errorf("the pin is %v (%v)", pin, err)
		}
	})
	w.mustCLI("renew", "px_3", "--id", "behind", "--wait")
	state, _ := w.eventsState(server)
	if state.First != uint64(out.LastSeq)+1 {
		t.Errorf("the stream begins with %d: %+v", state.First, out)
	}
	w.stopped(other)
	run, line := w.run()
	awaitReady(t, line)
	w.stopped(run)
	for _, dir := range []string{"data", "data-2"} {
		v := decode[againstLine](t, w.mustCLI("ledger", "verify", filepath.Join(w.dir, dir, "main.ledger.db"), "--against-events", "-o", "json"))
		if !v.OK || v.Unpublished != 0 {
			t.Errorf("%s: %+v", dir, v)
		}
	}
	if charged, _ := checkReferee(t, w.charges); charged != decode[tables.Balance](t, w.mustCLI("ledger", "balance", "-o", "json")).ChargedCents {
		t.Errorf("the referee has %d", charged)
	}
}
