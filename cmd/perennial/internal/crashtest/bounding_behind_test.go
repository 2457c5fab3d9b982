//go:build check

package crashtest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue/embedded"
)

// The runner started without NATS, so that it could not know that its ledger ends before the stream
// begins. A ledger of another provider account stays unchanged.
func TestALedgerBehindTheStreamIsMadeByTheRunnerThatHasIt(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	begin := func(address string) *embedded.Server {
		server, err := embedded.Start(embedded.Config{Listen: address, StoreDir: store})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		return server
	}
	server := begin(freeAddress(t))
	w := oldWorld(t, server.URL())
	w.followedUntil(10, "data-2")
	w.archiveOld()
	stranger := ledger.Config{Path: filepath.Join(w.dir, "data-3", "main.ledger.db"), Clock: time.Now}
	if err := os.Mkdir(filepath.Dir(stranger.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open(t.Context(), stranger)
	if err != nil {
		t.Fatal(err)
	}
	err = l.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerOpened{AccountID: "acc_beta", Environment: "sandbox", BaseURL: w.sandbox.Sandbox, Currency: "USD", OpeningCents: 1, Epoch: "e1"})
	})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	server.Shutdown()
	run, line := w.run("--data", "data-2")
	other, otherLine := w.run("--data", "data-3")
	w.readySays(line, "NATS at")
	begin(strings.TrimPrefix(server.URL(), "nats://"))
	awaitReady(t, line)
	w.mustCLI("renew", "px_2", "--id", "second", "--wait")
	w.readySays(otherLine, "acc_beta")
	w.stopped(other)
	w.stopped(run)
	if old, err := filepath.Glob(filepath.Join(w.dir, "data-2", "main.ledger.db.replaced-*")); err != nil || len(old) == 0 {
		t.Errorf("what the ledger was is not kept: %v", err)
	}
	if old, err := filepath.Glob(filepath.Join(w.dir, "data-3", "main.ledger.db.replaced-*")); err != nil || len(old) != 0 {
		t.Errorf("the ledger of another account was replaced: %v, %v", old, err)
	}
	if v := decode[againstLine](t, w.mustCLI("ledger", "verify", filepath.Join(w.dir, "data-2", "main.ledger.db"), "--against-events", "-o", "json")); !v.OK || v.NotHere != 0 {
		t.Errorf("%+v", v)
	}
}
