//go:build check

package crashtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
	"perennial/ledger/chain"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/streams"
)

// Only the events stream can prove that a ledger was rewritten together with its hashes.
func TestAnEmptiedEventsStreamIsNotRefilledInSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	run, line := w.run()
	awaitReady(t, line)
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	w.settled(run, "first")
	head := decode[tables.Balance](t, w.mustCLI("ledger", "balance", "-o", "json")).Head
	if err := os.RemoveAll(filepath.Join(w.dir, "data", "nats")); err != nil {
		t.Fatal(err)
	}
	w.emptyStreams()
	out, errs, code := w.cli("ledger", "verify", "--against-events")
	if code != cli.ExitFailed || !strings.Contains(errs, "empty") || !strings.Contains(errs, "--refill-events") {
		t.Errorf("verify --against-events: exit %d\n%s%s", code, out, errs)
	}
	_, errs, code = w.cli("run")
	if code != cli.ExitFailed || !strings.Contains(errs, "empty") || !strings.Contains(errs, "--expect") || !strings.Contains(errs, "--refill-events") {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	if after := decode[tables.Balance](t, w.mustCLI("ledger", "balance", "-o", "json")).Head; after != head {
		t.Errorf("a refused start wrote: %v became %v", head, after)
	}
	if out := w.mustCLI("ledger", "verify", "--expect", head.String()); !strings.Contains(out, "contains 1 head kept elsewhere") {
		t.Error(out)
	}
	run, line = w.run("--refill-events")
	awaitReady(t, line)
	w.mustCLI("renew", "px_2", "--id", "second", "--wait")
	w.settled(run, "first", "second")
	if !strings.Contains(run.stderr.String(), "published again from the ledger") {
		t.Errorf("the refilling was not said:\n%s", run.stderr)
	}
}

// If the events stream is lost, a restore does not silently replace a newer ledger by an older
// backup.
func TestABackupReplacesNoLedgerWithoutItsStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	run, line := w.run()
	awaitReady(t, line)
	w.mustCLI("ledger", "backup", "backup.db")
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	w.settled(run, "first")
	if err := os.RemoveAll(filepath.Join(w.dir, "data", "nats")); err != nil {
		t.Fatal(err)
	}
	now := w.mustCLI("ledger", "balance", "-o", "json")
	old := []string{"ledger", "restore", "--from", "backup.db", "--replace"}
	if _, errs, code := w.cli(old...); code != cli.ExitUnreachable || !strings.Contains(errs, "--without-events") || w.mustCLI("ledger", "balance", "-o", "json") != now {
		t.Errorf("exit %d %s", code, errs)
	}
	w.mustCLI(append(old, "--without-events")...)
}

func TestVerifyExpectsHeadsThatWereKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	run, line := w.run()
	awaitReady(t, line)
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	w.settled(run, "first")
	backup := w.mustCLI("ledger", "backup", filepath.Join(w.dir, "b.db"))
	statement := w.mustCLI("ledger", "statement")
	head := decode[tables.Balance](t, w.mustCLI("ledger", "balance", "-o", "json")).Head
	for what, text := range map[string]string{"backup": backup, "statement": statement, "balance": w.mustCLI("ledger", "balance")} {
		if !strings.Contains(text, head.String()) {
			t.Errorf("%s does not show the head %s:\n%s", what, head, text)
		}
	}
	other := chain.Head{Seq: head.Seq, Hash: strings.Repeat("0", 64)}
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--expect", head.String()}, cli.ExitDone, "contains 1 head kept elsewhere"},
		{[]string{"--expect", head.String(), "--expect", other.String()}, cli.ExitFailed, "history was rewritten"},
		{[]string{"--expect", chain.Head{Seq: head.Seq + 1, Hash: head.Hash}.String()}, cli.ExitFailed, "older copy"},
		{[]string{"--expect", "7"}, cli.ExitUsage, "SEQ:HASH"},
		{[]string{filepath.Join(w.dir, "b.db"), "--expect", head.String()}, cli.ExitDone, "contains 1 head kept elsewhere"},
	} {
		out, errs, code := w.cli(append([]string{"ledger", "verify"}, test.args...)...)
		if code != test.code || !strings.Contains(out+errs, test.says) {
			t.Errorf("%v: exit %d\n%s%s", test.args, code, out, errs)
		}
	}
}

// emptyStreams creates the account's streams in the embedded store, as a runner that was killed
// right after its start leaves them.
func (w *world) emptyStreams() {
	w.t.Helper()
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(w.dir, "data", "nats")})
	if err != nil {
		w.t.Fatal(err)
	}
	defer server.Shutdown()
	q, err := queue.Connect(queue.ConnectConfig{URL: server.URL()})
	if err != nil {
		w.t.Fatal(err)
	}
	defer q.Close()
	if err := (streams.Wanted{Account: "main", Replicas: 1}).Ensure(w.t.Context(), q.JetStream()); err != nil {
		w.t.Fatal(err)
	}
}

// A later start also knows what was published before, and not only the process that published it.
func TestAnEmptiedStreamIsRefusedByEveryStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	n := newNATSProcess(t, w)
	n.start("pw")
	w.configure(n.url(), "")
	run, line := w.run()
	w.readySays(line, ready)
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	emptyEvents(t, n.url())
	w.readySays(line, "made again")
	w.mustCLI("renew", "px_2", "--id", "second") // the stream has no place for its facts
	refused := func(code int, errs string) {
		t.Helper()
		if code != cli.ExitFailed || !strings.Contains(errs, "empty") || !strings.Contains(errs, "--refill-events") {
			t.Fatalf("exit %d\n%s", code, errs)
		}
	}
	refused(run.wait(), run.stderr.String())
	for range 2 {
		_, errs, code := w.cli("run")
		refused(code, errs)
	}
	if out, _, code := w.cli("doctor"); code != cli.ExitFailed || !strings.Contains(out, "NOT OK  events") || !strings.Contains(out, "--refill-events") {
		t.Errorf("doctor: exit %d\n%s", code, out)
	}
	run, line = w.run("--refill-events")
	w.readySays(line, ready)
	w.mustCLI("renew", "px_2", "--id", "second", "--wait")
	w.settled(run, "first", "second")
}

// eventsStream returns the account's events stream, through a separate client.
func eventsStream(t testing.TB, url string) (jetstream.JetStream, jetstream.Stream) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), queue.EventsStream("main"))
	if err != nil {
		t.Fatal(err)
	}
	return js, stream
}

// emptyEvents deletes and recreates the account's events stream.
func emptyEvents(t testing.TB, url string) {
	t.Helper()
	js, stream := eventsStream(t, url)
	if err := js.DeleteStream(t.Context(), queue.EventsStream("main")); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), stream.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
}

// Events can vanish from the front of the stream, as after `nats stream edit --max-age`. The leader
// and the standby report it while they run, and not only at the next failover.
func TestEventsThatAreGoneFromTheFrontAreMissedAndFilledAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t, 3)
	p.start(0, "")
	p.awaitRole(0, "active")
	p.start(1, "")
	p.awaitRole(1, "standby")
	p.w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	js, stream := eventsStream(t, p.nats.url())
	was := stream.CachedInfo()
	limited := was.Config
	limited.MaxMsgs, limited.Discard = int64(was.State.Msgs)-2, jetstream.DiscardOld
	for _, c := range []jetstream.StreamConfig{limited, was.Config} {
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for n := range p.runs {
		p.w.readySays(p.at[n], "begins with row 3 and by this ledger it begins with row 1")
	}
	p.w.mustCLI("renew", "px_2", "--id", "second", "--wait") // nothing is lost meanwhile
	for n := range p.runs {
		p.runs[n].terminate()
	}
	p.runs[0] = startIn(t, p.w.dir, nil, "run", "--data", pairData[0], "--refill-events")
	p.runs[0].ready(&p.at[0])
	p.awaitRole(0, "active")
	p.w.mustCLI("ledger", "verify", "--against-events")
	p.start(1, "")
	p.awaitRole(1, "standby")
	p.sameBooks([]string{"first", "second"})
}
