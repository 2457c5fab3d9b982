package crashtest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
	"perennial/queue"
	"perennial/queue/events"
)

// Another client's event is on the stream of the embedded server, and the account sends nothing.
// After an operator's `--refill-events` the account works again.
func TestAStrangersEventIsNotTheEndOfAnAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	run, line := w.run()
	w.readySays(line, ready)
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	nc, err := nats.Connect(line.NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, subject := range []string{"perennial.events.main.order.delivered", "perennial.events.main.pwned"} {
		if _, err := nc.Request(subject, []byte("{}"), patience); err != nil {
			t.Fatal(err)
		}
	}
	w.cli("renew", "px_2", "--id", "second") // its facts belong where the stranger's event is; an earlier fact may have met that event already
	if code := run.wait(); code != cli.ExitFailed || !strings.Contains(run.stderr.String(), "was not published by this program") {
		t.Fatalf("exit %d\n%s", code, run.stderr)
	}
	if _, errs, code := w.cli("run"); code != cli.ExitFailed || !strings.Contains(errs, "was not published by this program") || !strings.Contains(errs, "--refill-events") || strings.Contains(errs, "restore") {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	run, line = w.run("--refill-events")
	w.readySays(line, ready)
	w.mustCLI("renew", "px_2", "--id", "second", "--wait")
	if !strings.Contains(run.stderr.String(), "other clients have published on the events stream") {
		t.Errorf("the log does not report the event of the stranger:\n%s", run.stderr)
	}
	w.mustCLI("ledger", "verify", "--against-events")
	w.settled(run, "first", "second") // the ledger records how far it was published
	run, line = w.run("--refill-events")
	w.readySays(line, ready)
	again, err := nats.Connect(line.NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.Request("perennial.events.main.pwned", []byte("{}"), patience); err != nil {
		t.Fatal(err)
	}
	w.cli("renew", "px_1", "--id", "third")
	run.wait()
	if _, errs, code := w.cli("run"); code != cli.ExitFailed || !strings.Contains(errs, "was not published by this program") || strings.Contains(errs, "is empty") {
		t.Fatalf("exit %d\n%s", code, errs)
	}
}

// A stream with a later event than the ledger's is not refilled, even if another client published
// that event.
func TestAStreamThatKnowsMoreIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	run, line := w.run()
	w.readySays(line, ready)
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	nc, err := nats.Connect(line.NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ahead := nats.NewMsg("perennial.events.main.order.delivered")
	ahead.Header.Set(events.HeaderSeq, "4711")
	ahead.Header.Set(events.HeaderHash, strings.Repeat("ab", 32))
	if _, err := nc.RequestMsg(ahead, patience); err != nil {
		t.Fatal(err)
	}
	w.mustCLI("renew", "px_2", "--id", "second")
	if code := run.wait(); code != cli.ExitFailed {
		t.Errorf("exit %d\n%s", code, run.stderr)
	}
	if _, errs, code := w.cli("run", "--refill-events"); code != cli.ExitFailed || !strings.Contains(errs, "nothing was removed from it") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}

// onLooseNATS runs an account on an external server that permits everything to every client. It
// returns such a client.
func onLooseNATS(t testing.TB, proxies int) (w *world, run *process, nc *nats.Conn) {
	t.Helper()
	w = newWorld(t, proxies)
	n := newNATSProcess(t, w)
	n.start("pw")
	n.shortLeases()
	w.configure(n.url(), "")
	run, line := w.run()
	w.readySays(line, ready)
	nc, err := nats.Connect(n.url())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return w, run, nc
}

// The server lets other clients write the lease.
func TestAStrangersHandOnTheLeaseStopsNoAccount(t *testing.T) {
	t.Parallel()
	w, run, nc := onLooseNATS(t, 3)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := js.KeyValue(t.Context(), queue.LeaseBucket)
	if err != nil {
		t.Fatal(err)
	}
	for i, meddle := range []func() error{
		func() error { return bucket.Delete(t.Context(), "main") },
		func() error { _, err := bucket.Put(t.Context(), "main", []byte("mine")); return err },
	} {
		if err := meddle(); err != nil {
			t.Fatal(err)
		}
		await(t, "the lease is taken again", func() bool { return strings.Count(run.stderr.String(), "is taken again") > i })
		w.mustCLI("renew", "px_"+[]string{"1", "2"}[i], "--id", []string{"first", "second"}[i], "--wait")
	}
	if strings.Contains(run.stderr.String(), "was lost") {
		t.Errorf("the account stopped:\n%s", run.stderr)
	}
	w.settled(run, "first", "second")
}

// A repeated start sends nothing either.
func TestAStartBehindAStrangersEventSendsNothing(t *testing.T) {
	t.Parallel()
	w, run, nc := onLooseNATS(t, 4)
	send := func(subject, body string) {
		t.Helper()
		if _, err := nc.Request(subject, []byte(body), patience); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the start is published", func() bool {
		answer, err := nc.Request("$JS.API.STREAM.INFO.PERENNIAL_EVENTS_main", nil, patience)
		return err == nil && regexp.MustCompile(`"last_seq":([2-9]|\d\d)`).Match(answer.Data)
	})
	send("perennial.events.main.pwned", "{}")
	w.mustCLI("renew", "px_1", "--id", "finds-it")
	run.wait()
	before, _ := checkReferee(t, w.charges)
	for _, id := range []string{"px_2", "px_3", "px_4"} {
		send("perennial.commands.main.proxy.renew", `{"id":"`+id+`","duration_days":30,"proxy_ids":["`+id+`"]}`)
		if _, errs, code := w.cli("run"); code != cli.ExitFailed || !strings.Contains(errs, "was not published by this program") {
			t.Errorf("exit %d\n%s", code, errs)
		}
	}
	if after, _ := checkReferee(t, w.charges); after != before {
		t.Errorf("the wallet changed from %d to %d cents", before, after)
	}
}
