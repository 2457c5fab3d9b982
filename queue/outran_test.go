package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"perennial/queue/natstest"
)

// storeOf is where the files of the commands stream are, or of a part of it.
func storeOf(t *testing.T, dir, part string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", CommandsStream("main")))
	check(t, err)
	if len(found) != 1 {
		t.Fatalf("%v", found)
	}
	return filepath.Join(found[0], part)
}

// replace puts a copy of a directory in the place of another.
func replace(t *testing.T, dir, with string) {
	t.Helper()
	check(t, os.RemoveAll(dir))
	check(t, os.CopyFS(dir, os.DirFS(with)))
}

// outrun gives a server on which a stream has lost its last commands in a power cut and
// has grown again, by 25 commands, before its consumers were back: they have delivered
// sequences that are now those of other commands.
func outrun(t *testing.T) *Queue {
	t.Helper()
	dir := t.TempDir()
	var server *natstest.Server
	var q *Queue
	start := func() {
		server = startServer(t, dir)
		q = connect(t, server)
	}
	stop := func() { q.Close(); server.Shutdown() }
	publish := func(n int) {
		check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(within(t), q.JetStream()))
		for i := range n {
			check(t, NewPublisher(q.JetStream()).Publish(within(t), "main", Outgoing{Kind: KindProxyRenew, Data: fmt.Appendf(nil, `{"id":"%d"}`, i)}))
		}
	}
	carryOut := func(n int) {
		publish(n)
		intake, err := OpenIntake(within(t), q.JetStream(), "main")
		check(t, err)
		for _, m := range take(t, intake, n) {
			check(t, m.Ack())
		}
		awaitEmpty(t, q, "main")
		intake.Close()
	}
	start()
	carryOut(3)
	stop()
	lost, consumers := t.TempDir(), t.TempDir()
	check(t, os.CopyFS(lost, os.DirFS(storeOf(t, dir, "msgs"))))
	start()
	carryOut(17)
	stop()
	check(t, os.CopyFS(consumers, os.DirFS(storeOf(t, dir, "obs"))))
	replace(t, storeOf(t, dir, "msgs"), lost)
	check(t, os.RemoveAll(storeOf(t, dir, "obs")))
	start()
	publish(25)
	stop()
	replace(t, storeOf(t, dir, "obs"), consumers)
	start()
	return q
}

func TestCommandsBehindAPowerCutAreDeliveredAtTheStart(t *testing.T) {
	t.Parallel()
	q := outrun(t)
	for _, m := range take(t, openIntake(t, q), 25) {
		check(t, m.Ack())
	}
	awaitEmpty(t, q, "main")
}

// An intake that was open over the power cut of a server keeps its consumers.
func TestCommandsBehindAPowerCutAreDeliveredWhileTheIntakeRuns(t *testing.T) {
	t.Parallel()
	q := outrun(t)
	intake, err := open(within(t), q.JetStream(), "main")
	check(t, err)
	t.Cleanup(intake.Close)
	for _, m := range take(t, intake, 8) {
		check(t, m.Ack())
	}
	renewed, err := RenewConsumers(within(t), q.JetStream(), "main")
	check(t, err)
	if renewed != 1 {
		t.Errorf("%d consumers were made anew", renewed)
	}
	for _, m := range take(t, intake, 17) {
		check(t, m.Ack())
	}
	awaitEmpty(t, q, "main")
	if renewed, err := RenewConsumers(within(t), q.JetStream(), "main"); err != nil || renewed != 0 {
		t.Errorf("%d consumers were made anew: %v", renewed, err)
	}
}

// Commands that are held, wait, or were put back are known to their consumer.
func TestNoConsumerIsMadeAnewForCommandsThatWait(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	intake := openIntake(t, q)
	for n := range 40 {
		check(t, NewPublisher(q.JetStream()).Publish(within(t), "main", Outgoing{Kind: KindProxyRenew, Data: fmt.Appendf(nil, `{"id":"%d"}`, n)}))
	}
	for n, m := range take(t, intake, 10) {
		if n%2 == 0 {
			check(t, m.Nak(0))
		}
	}
	if renewed, err := RenewConsumers(within(t), q.JetStream(), "main"); err != nil || renewed != 0 {
		t.Errorf("%d consumers were made anew: %v", renewed, err)
	}
}
