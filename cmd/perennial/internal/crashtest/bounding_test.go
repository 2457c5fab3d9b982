//go:build check

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
	"perennial/ledger"
	"perennial/ledger/tables"
	"perennial/ledger/testrun"
	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/events"
	"perennial/queue/objects"
)

// onStream runs do on the NATS server while no runner uses it: an external server, or the store of
// the embedded one.
func (w *world) onStream(server *embedded.Server, do func(*queue.Queue, jetstream.JetStream)) {
	w.t.Helper()
	if server == nil {
		var err error
		server, err = embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(w.dir, "data", "nats")})
		if err != nil {
			w.t.Fatal(err)
		}
		defer server.Shutdown()
	}
	q, err := queue.Connect(queue.ConnectConfig{URL: server.URL()})
	if err != nil {
		w.t.Fatal(err)
	}
	defer q.Close()
	nc, js := connectTo(w.t, server.URL())
	defer nc.Close()
	do(q, js)
}

func (w *world) eventsState(server *embedded.Server) (state events.State, snapshots []objects.Snapshot) {
	w.t.Helper()
	w.onStream(server, func(q *queue.Queue, _ jetstream.JetStream) {
		var err error
		if state, err = events.Of(q.JetStream(), "main").State(w.t.Context()); err == nil {
			snapshots, err = objects.SnapshotsOf(q.JetStream(), "main").List(w.t.Context())
		}
		if err != nil {
			w.t.Fatal(err)
		}
	})
	return state, snapshots
}

// The stream begins after the archive. Together with the snapshot it restores the ledger, with the
// embedded NATS server and with an external one.
func TestTrap13ALostMachineIsRestoredFromABoundedStream(t *testing.T) {
	t.Parallel()
	for _, external := range []bool{false, true} {
		if external && !testrun.Check {
			continue
		}
		t.Run(fmt.Sprintf("external=%v", external), func(t *testing.T) {
			t.Parallel()
			var server *embedded.Server
			url, unpublished := "", int64(2) // the facts of the restore, which the next run publishes
			if external {
				unpublished = 0 // they are on the stream before another runner can append to it
				var err error
				if server, err = embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()}); err != nil {
					t.Fatal(err)
				}
				defer server.Shutdown()
				url = server.URL()
			}
			w := oldWorld(t, url)
			before, _ := w.eventsState(server)
			if external {
				w.followedUntil(10, "data-3")
			}
			out := w.archiveOld("--to", w.dir)
			state, snapshots := w.eventsState(server)
			if out.LastSeq < 400 || state.First != uint64(out.LastSeq)+1 || state.Cut || state.Last != uint64(out.Head.Seq) || len(snapshots) != 1 || snapshots[0].Seq != uint64(out.LastSeq) {
				t.Fatalf("%+v %+v %v", out, state, snapshots)
			}
			if state.Bytes >= before.Bytes*19/20 || out.Events.BytesAfter != state.Bytes || out.Events.BytesBefore < before.Bytes {
				t.Errorf("the stream had %d bytes and has %d: %+v", before.Bytes, state.Bytes, out.Events)
			}
			balance := decode[tables.Balance](t, w.mustCLI("ledger", "balance", "-o", "json"))
			rebuilt := filepath.Join(w.dir, "before.db")
			w.mustCLI("ledger", "rebuild", "--out", rebuilt)
			if err := os.Remove(w.ledgerFile()); err != nil { // the archive is on another machine (--to)
				t.Fatal(err)
			}
			restored := decode[ledger.Restored](t, w.mustCLI("ledger", "restore", "--from-events", "-o", "json"))
			if !restored.Proven || restored.Snapshot == nil || restored.Snapshot.Seq != out.LastSeq || restored.Events != out.Head.Seq-out.LastSeq {
				t.Errorf("%+v", restored)
			}
			again := decode[tables.Balance](t, w.mustCLI("ledger", "balance", "-o", "json"))
			if balance.Head, balance.Unbooked, again.Unbooked = again.Head, nil, nil; balance != again {
				t.Errorf("the balance was %+v and is %+v", balance, again)
			}
			if v := decode[againstLine](t, w.mustCLI("ledger", "verify", "--against-events", "-o", "json")); !v.OK || v.Unpublished != unpublished || v.Removed != out.LastSeq {
				t.Errorf("%+v", v)
			}
			run, line := w.run()
			awaitReady(t, line)
			w.mustCLI("renew", "px_1", "--id", "first", "--wait")
			w.mustCLI("renew", "px_2", "--id", "second", "--wait")
			w.stopped(run)
			if v := decode[againstLine](t, w.mustCLI("ledger", "verify", "--archive", out.File, "--against-events", "-o", "json")); !v.OK || v.Unpublished != 0 {
				t.Errorf("%+v", v)
			}
			if charged, _ := checkReferee(t, w.charges); charged != decode[tables.Balance](t, w.mustCLI("ledger", "balance", "-o", "json")).ChargedCents {
				t.Errorf("the referee has %d", charged)
			}
			if external {
				w.madeByItself(out, "data-2", "px_3") // no ledger exists
				w.madeByItself(out, "data-3", "px_4") // the ledger ends before the stream begins
				if old, err := filepath.Glob(filepath.Join(w.dir, "data-3", "main.ledger.db.replaced-*")); err != nil || len(old) == 0 {
					t.Errorf("what the ledger was is not kept: %v", err)
				}
			}
		})
	}
}

// followedUntil creates the ledger of a standby that has followed only the first rows.
func (w *world) followedUntil(rows int, data string) {
	w.t.Helper()
	from, err := ledger.Open(w.t.Context(), ledger.Config{Path: w.ledgerFile(), Clock: time.Now, ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	first, err := from.Rows(w.t.Context(), 0, rows)
	if err != nil {
		w.t.Fatal(err)
	}
	dir := filepath.Join(w.dir, data)
	if err := os.Mkdir(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	to, err := ledger.Open(w.t.Context(), ledger.Config{Path: filepath.Join(dir, "main.ledger.db"), Clock: time.Now, Follows: true})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := errors.Join(to.Fold(w.t.Context(), first), to.Close()); err != nil {
		w.t.Fatal(err)
	}
}

// madeByItself starts a runner without a ledger, or with a ledger that ends before the stream
// begins. The runner creates a ledger from the snapshot and the events, works on it, and leaves it
// complete.
func (w *world) madeByItself(out cli.ArchiveResult, data, proxy string) {
	w.t.Helper()
	run, line := w.run("--data", data)
	w.readySays(line, ready)
	w.mustCLI("renew", proxy, "--id", "made-"+data, "--wait")
	w.stopped(run)
	file := filepath.Join(w.dir, data, "main.ledger.db")
	v := decode[againstLine](w.t, w.mustCLI("ledger", "verify", file, "--against-events", "-o", "json"))
	if !v.OK || v.Unpublished != 0 || v.Removed != out.LastSeq || v.NotHere != 0 {
		w.t.Errorf("%+v", v)
	}
}

// After a kill at any step, the runner starts and continues. No row outside the snapshot is lost,
// and the same archive command finishes the work.
func TestAnArchivingKilledWhileBoundingIsEndedByTheNext(t *testing.T) {
	t.Parallel()
	w := oldWorld(t, "")
	data, kept := filepath.Join(w.dir, "data"), filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(kept, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	for i, point := range []string{
		"archive.swapped", "archive.snapshot_stored", "archive.bounded_noted", "archive.bounded_published",
		"archive.events_closed", "archive.events_removed", "archive.events_opened",
	} {
		for j, next := range []string{"run", "archive"} {
			if i%2 != j && !testrun.Check {
				continue // each moment once
			}
			t.Run(point+" "+next, func(t *testing.T) {
				w.t = t
				if err := os.RemoveAll(data); err != nil {
					t.Fatal(err)
				}
				if err := os.CopyFS(data, os.DirFS(kept)); err != nil {
					t.Fatal(err)
				}
				startIn(t, w.dir, []string{crashVariable + "=" + point + " kill"}, archiveArgs()...).awaitKilled()
				if next == "run" {
					run, line := w.run()
					awaitReady(t, line)
					w.mustCLI("renew", "px_1", "--id", "first", "--wait")
					w.mustCLI("renew", "px_3", "--id", "third "+point, "--wait")
					w.stopped(run)
				}
				if testrun.Check {
					if v := decode[againstLine](t, w.mustCLI("ledger", "verify", "--against-events", "-o", "json")); !v.OK {
						t.Errorf("%+v", v)
					}
				}
				out := w.archiveOld()
				state, snapshots := w.eventsState(nil)
				begins := decode[againstLine](t, w.mustCLI("ledger", "verify", "--against-events", "-o", "json"))
				if out.File != "" || state.First < 400 || state.Cut || len(snapshots) != 1 || begins.Removed != int64(state.First)-1 || begins.Unpublished != 0 {
					t.Errorf("%+v %+v %v %+v", out, state, snapshots, begins)
				}
				if err := os.Remove(w.ledgerFile()); err != nil {
					t.Fatal(err)
				}
				if restored := decode[ledger.Restored](t, w.mustCLI("ledger", "restore", "--from-events", "-o", "json")); !restored.Proven || restored.Snapshot.Seq != int64(state.First)-1 {
					t.Errorf("%+v", restored)
				}
			})
		}
	}
}

func TestASlowDurableConsumerKeepsItsEventsUntilNamed(t *testing.T) {
	t.Parallel()
	w := oldWorld(t, "")
	w.onStream(nil, func(_ *queue.Queue, js jetstream.JetStream) {
		consumer, err := js.CreateConsumer(t.Context(), queue.EventsStream("main"), jetstream.ConsumerConfig{Durable: "books", AckPolicy: jetstream.AckAllPolicy})
		if err != nil {
			t.Fatal(err)
		}
		batch, err := consumer.Fetch(200)
		if err != nil {
			t.Fatal(err)
		}
		var last jetstream.Msg
		for m := range batch.Messages() {
			last = m
		}
		if err := last.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	said := w.mustCLI(archiveArgs()...)
	if !strings.Contains(said, "consumer books") || !strings.Contains(said, "--may-lose books") || !strings.Contains(said, "begins with event 201 instead of 1") {
		t.Errorf("it says\n%s", said)
	}
	if state, _ := w.eventsState(nil); state.First != 201 {
		t.Errorf("%+v", state)
	}
	w.mustCLI("ledger", "verify", "--against-events")
	if err := os.Rename(w.ledgerFile(), w.ledgerFile()+".away"); err != nil {
		t.Fatal(err)
	}
	if restored := decode[ledger.Restored](t, w.mustCLI("ledger", "restore", "--from-events", "-o", "json")); !restored.Proven {
		t.Errorf("%+v", restored)
	}
	if err := os.Rename(w.ledgerFile()+".away", w.ledgerFile()); err != nil {
		t.Fatal(err)
	}
	out := w.archiveOld("--may-lose", "books")
	if len(out.Events.Lost) != 1 || out.Events.Lost[0] != "books" || out.Events.FirstSeq < 400 || out.Events.WasFirstSeq != 201 {
		t.Errorf("%+v", out.Events)
	}
	run, line := w.run()
	awaitReady(t, line)
	w.stopped(run)
	w.onStream(nil, func(_ *queue.Queue, js jetstream.JetStream) { // the stream reports what the consumer missed
		for _, subject := range []string{"ledger.archived", "ledger.bounded"} {
			stream, err := js.Stream(t.Context(), queue.EventsStream("main"))
			if err != nil {
				t.Fatal(err)
			}
			if m, err := stream.GetLastMsgForSubject(t.Context(), queue.EventSubject("main", subject)); err != nil || m.Sequence <= out.Events.FirstSeq {
				t.Errorf("%s: %v", subject, err)
			}
		}
	})
}

func TestKeepEventsLeavesTheStreamToALaterArchive(t *testing.T) {
	t.Parallel()
	w := oldWorld(t, "")
	if out := w.archiveOld("--keep-events"); out.File == "" || out.Events != nil {
		t.Errorf("%+v", out)
	}
	if state, snapshots := w.eventsState(nil); state.First != 1 || len(snapshots) != 0 {
		t.Errorf("%+v %v", state, snapshots)
	}
	backup := filepath.Join(w.dir, "between.db")
	w.mustCLI("ledger", "backup", backup)
	out := w.archiveOld()
	if out.File != "" || out.Events.FirstSeq < 400 {
		t.Errorf("%+v", out)
	}
	if again := w.archiveOld(); again.Events.FirstSeq != out.Events.FirstSeq || again.Head != out.Head {
		t.Errorf("once more: %+v", again)
	}
	restored := decode[ledger.Restored](t, w.mustCLI("ledger", "restore", "--from", backup, "--replace", "-o", "json"))
	if !restored.Proven || restored.Events != 1 {
		t.Errorf("%+v", restored)
	}
}

func TestABoundedStreamThatLostMoreIsRefused(t *testing.T) {
	t.Parallel()
	w := oldWorld(t, "")
	out := w.archiveOld()
	w.onStream(nil, func(q *queue.Queue, _ jetstream.JetStream) {
		err := events.Of(q.JetStream(), "main").Bound(t.Context(), events.Bounding{First: out.Events.FirstSeq + 1, Alone: func(context.Context) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
	})
	if _, errs, code := w.cli("run"); code != cli.ExitFailed || !strings.Contains(errs, "removed by another program") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	if _, errs, code := w.cli("ledger", "verify", "--against-events"); code != cli.ExitFailed || !strings.Contains(errs, "removed by another program") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}

// `ledger verify` reports the missing snapshot, and the next archive run stores it again.
func TestASnapshotThatWasRemovedIsMissedAndStoredAgain(t *testing.T) {
	t.Parallel()
	w := oldWorld(t, "")
	w.archiveOld()
	w.onStream(nil, func(_ *queue.Queue, js jetstream.JetStream) {
		if err := js.DeleteObjectStore(t.Context(), queue.SnapshotsBucket("main")); err != nil {
			t.Fatal(err)
		}
	})
	if _, errs, code := w.cli("ledger", "verify", "--against-events"); code != cli.ExitFailed || !strings.Contains(errs, "perennial backup archive") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	if _, errs, code := w.cli("ledger", "restore", "--from-events", "--replace"); code != cli.ExitFailed || !strings.Contains(errs, "no snapshot") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	w.archiveOld()
	w.mustCLI("ledger", "verify", "--against-events")
}

// The ledger and the archive hold every row, so that a lost bounded stream is refilled as any lost
// stream. The next archive run bounds it again.
func TestALostBoundedStreamIsRefilledFromLedgerAndArchive(t *testing.T) {
	t.Parallel()
	w := oldWorld(t, "")
	w.archiveOld()
	if err := os.RemoveAll(filepath.Join(w.dir, "data", "nats")); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := w.cli("run"); code != cli.ExitFailed || !strings.Contains(errs, "--refill-events") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	run, line := w.run("--refill-events")
	awaitReady(t, line)
	w.mustCLI("renew", "px_2", "--id", "second", "--wait")
	w.stopped(run)
	if v := decode[againstLine](t, w.mustCLI("ledger", "verify", "--against-events", "-o", "json")); !v.OK || v.Removed != 0 || v.Unpublished != 0 {
		t.Errorf("%+v", v)
	}
	out := w.archiveOld()
	if out.Events.FirstSeq < 400 || out.Events.WasFirstSeq != 1 {
		t.Errorf("%+v", out.Events)
	}
	w.mustCLI("ledger", "verify", "--against-events")
}
