//go:build check

package crashtest

import (
	"testing"

	"perennial/ledger/tables"
	"perennial/queue/embedded"
)

// The test follows the steps of docs/machines.md. The new stream has the history, the runner still
// knows the IDs, and a second runner follows. The way back works too.
func TestAnInstallationMovesToAClusterAndBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 6)
	outer, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Shutdown()
	work := func(data, nats, proxy, id string, flags ...string) {
		t.Helper()
		w.configure(nats, "")
		run, line := w.run(append(flags, "--data", data)...)
		w.readySays(line, ready)
		w.mustCLI("renew", proxy, "--id", id, "--wait")
		w.mustCLI("renew", "px_1", "--id", "first", "--wait") // known: it is not executed again
		w.stopped(run)
		if v := decode[againstLine](t, w.mustCLI("ledger", "verify", data+"/main.ledger.db", "--against-events", "-o", "json")); !v.OK || v.Unpublished != 0 || v.Removed != 0 || v.NotHere != 0 {
			t.Errorf("behind %s: %+v", id, v)
		}
	}
	work("data", "", "px_1", "first")
	work("data", "", "px_2", "second")
	work("data", outer.URL(), "px_3", "third", "--refill-events")
	work("data-2", outer.URL(), "px_4", "fourth")
	work("data", outer.URL(), "px_5", "fifth")
	work("data", "", "px_6", "sixth", "--refill-events")
	charged, _ := checkReferee(t, w.charges)
	if b := decode[tables.Balance](t, w.mustCLI("ledger", "balance", "-o", "json")); b.ChargedCents != charged || charged == 0 {
		t.Errorf("ledger %+v, referee %d", b, charged)
	}
}
