package intake

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
	"perennial/queue/publish"
	"perennial/queue/streams"
)

// storeOf returns the directory of the commands stream, or of a part of it.
func storeOf(t *testing.T, dir, part string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", queue.CommandsStream("main")))
	natstest.Check(t, err)
	if len(found) != 1 {
		t.Fatalf("%v", found)
	}
	return filepath.Join(found[0], part)
}

// replace puts a copy of a directory in place of another.
func replace(t *testing.T, dir, with string) {
	t.Helper()
	natstest.Check(t, os.RemoveAll(dir))
	natstest.Check(t, os.CopyFS(dir, os.DirFS(with)))
}

// outrun returns a server whose stream lost its last commands in a power cut and has since
// grown by 25 commands, before its consumers returned. They have delivered sequences that
// now belong to other commands.
func outrun(t *testing.T) *queue.JetStream {
	t.Helper()
	dir := t.TempDir()
	var server *natstest.Server
	var js *queue.JetStream
	start := func() {
		server = natstest.Serve(t, dir)
		js = jstest.Connect(t, server.URL())
	}
	stop := func() { js.Conn().Close(); server.Shutdown() }
	publish := func(n int) {
		natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), js))
		for i := range n {
			natstest.Check(t, publish.New(js).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindProxyRenew, Data: fmt.Appendf(nil, `{"id":"%d"}`, i)}))
		}
	}
	carryOut := func(n int) {
		publish(n)
		intake, err := Open(natstest.Within(t), js, "main")
		natstest.Check(t, err)
		for _, m := range take(t, intake, n) {
			natstest.Check(t, m.Ack())
		}
		awaitEmpty(t, js, "main")
		intake.Close()
	}
	start()
	carryOut(3)
	stop()
	lost, consumers := t.TempDir(), t.TempDir()
	natstest.Check(t, os.CopyFS(lost, os.DirFS(storeOf(t, dir, "msgs"))))
	start()
	carryOut(17)
	stop()
	natstest.Check(t, os.CopyFS(consumers, os.DirFS(storeOf(t, dir, "obs"))))
	replace(t, storeOf(t, dir, "msgs"), lost)
	natstest.Check(t, os.RemoveAll(storeOf(t, dir, "obs")))
	start()
	publish(25)
	stop()
	replace(t, storeOf(t, dir, "obs"), consumers)
	start()
	return js
}

func TestCommandsBehindAPowerCutAreDeliveredAtTheStart(t *testing.T) {
	t.Parallel()
	js := outrun(t)
	for _, m := range take(t, openIntake(t, js), 25) {
		natstest.Check(t, m.Ack())
	}
	awaitEmpty(t, js, "main")
}

// An intake that was open across a server's power cut keeps its consumers.
func TestCommandsBehindAPowerCutAreDeliveredWhileTheIntakeRuns(t *testing.T) {
	t.Parallel()
	js := outrun(t)
	intake, err := openShared(natstest.Within(t), js, "main")
	natstest.Check(t, err)
	t.Cleanup(intake.Close)
	for _, m := range take(t, intake, 8) {
		natstest.Check(t, m.Ack())
	}
	renewed, err := RenewConsumers(natstest.Within(t), js, "main")
	natstest.Check(t, err)
	if renewed != 1 {
		t.Errorf("%d consumers were made again", renewed)
	}
	for _, m := range take(t, intake, 17) {
		natstest.Check(t, m.Ack())
	}
	awaitEmpty(t, js, "main")
	if renewed, err := RenewConsumers(natstest.Within(t), js, "main"); err != nil || renewed != 0 {
		t.Errorf("%d consumers were made again: %v", renewed, err)
	}
}

// Commands that are held, wait, or were put back are known to their consumer.
func TestNoConsumerIsMadeAnewForCommandsThatWait(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	intake := openIntake(t, js)
	for n := range 40 {
		natstest.Check(t, publish.New(js).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindProxyRenew, Data: fmt.Appendf(nil, `{"id":"%d"}`, n)}))
	}
	for n, m := range take(t, intake, 10) {
		if n%2 == 0 {
			natstest.Check(t, m.Nak(0))
		}
	}
	if renewed, err := RenewConsumers(natstest.Within(t), js, "main"); err != nil || renewed != 0 {
		t.Errorf("%d consumers were made again: %v", renewed, err)
	}
}
