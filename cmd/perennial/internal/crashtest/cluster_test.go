package crashtest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/queue"
)

var (
	clusterRounds = flag.Int("cluster.rounds", 3, "how many faults each test of a cluster plays")
	clusterSeed   = flag.Uint64("cluster.seed", 0, "what they are drawn from; 0: the time")
)

// fleetUnderFault is runners of one account on three real servers.
type fleetUnderFault struct {
	*pair

	cluster  *natsCluster
	runners  int
	random   *rand.Rand
	producer producer
}

// clusterFault is something that goes wrong, and how it is put right.
type clusterFault struct {
	name string
	do   func(f *fleetUnderFault)
}

func serverFaults() []clusterFault {
	return []clusterFault{
		{"a server is killed", func(f *fleetUnderFault) { f.killServers(f.random.IntN(3)) }},
		{"the leader of the events is killed", func(f *fleetUnderFault) { f.killServers(f.leader()) }},
		{"two servers are killed", func(f *fleetUnderFault) { n := f.random.IntN(3); f.killServers(n, (n+1)%3) }},
		{"all servers are killed", func(f *fleetUnderFault) { f.killServers(0, 1, 2) }},
	}
}

func runnerFaults() []clusterFault {
	return []clusterFault{
		{"the holder is killed", func(f *fleetUnderFault) { f.killRunner(f.active()) }},
		{"the standby is killed", func(f *fleetUnderFault) { f.killRunner(1 - f.active()) }},
		{"the holder stands still", func(f *fleetUnderFault) {
			n := f.active()
			_ = f.runs[n].cmd.Process.Signal(syscall.SIGSTOP)
			f.awaitRole(1-n, "active")
			f.load(4)
			_ = f.runs[n].cmd.Process.Signal(syscall.SIGCONT)
		}},
		{"the holder ends in good order", func(f *fleetUnderFault) {
			n := f.active()
			f.handOver(n, 1-n)
			f.start(n, "")
		}},
		{"everything is killed", func(f *fleetUnderFault) {
			for n := range f.runs {
				f.runs[n].kill()
			}
			f.killServers(0, 1, 2)
			for n := range f.runs {
				f.start(n, "")
			}
		}},
	}
}

// TestOneRunnerOutlivesFaultsOfTheServers: with a single runner every command ends, once,
// whatever becomes of the servers.
func TestOneRunnerOutlivesFaultsOfTheServers(t *testing.T) {
	t.Parallel()
	f := newFleetUnderFault(t, 1)
	f.rounds(serverFaults())
}

// TestTwoRunnersOutliveEveryFault: the same with a standby, and with faults of the
// runners too. What a lost runner was sending may wait for ten minutes.
func TestTwoRunnersOutliveEveryFault(t *testing.T) {
	t.Parallel()
	f := newFleetUnderFault(t, 2)
	f.rounds(append(serverFaults(), runnerFaults()...))
}

func newFleetUnderFault(t *testing.T, runners int) *fleetUnderFault {
	t.Helper()
	seed := *clusterSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	w := newWorld(t, 2000)
	f := &fleetUnderFault{pair: &pair{w: w}, runners: runners, random: rand.New(rand.NewPCG(seed, seed))}
	f.cluster = newNATSCluster(t, w)
	f.producer = producer{w: w, random: f.random}
	f.shortLeases()
	w.configure(f.cluster.urls(), "    replicas: 3\n")
	for n := range runners {
		f.start(n, "")
	}
	f.settled()
	return f
}

// connect connects as soon as one of the servers answers.
func (f *fleetUnderFault) connect() (*nats.Conn, jetstream.JetStream) {
	f.w.t.Helper()
	nc, err := nats.Connect(f.cluster.urls(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		f.w.t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		f.w.t.Fatal(err)
	}
	return nc, js
}

// urls names all servers of the cluster.
func (c *natsCluster) urls() string {
	var all []string
	for _, port := range c.ports {
		all = append(all, fmt.Sprintf("nats://run:pw@127.0.0.1:%d", port))
	}
	return strings.Join(all, ",")
}

// shortLeases has leases run out after two seconds.
func (f *fleetUnderFault) shortLeases() {
	f.w.t.Helper()
	await(f.w.t, "the cluster makes a bucket", func() bool {
		nc, js := f.connect()
		defer nc.Close()
		ctx, cancel := context.WithTimeout(f.w.t.Context(), 5*time.Second)
		defer cancel()
		_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: queue.LeaseBucket, TTL: 2 * time.Second, Replicas: 3})
		return err == nil
	})
}

// settled waits until one runner works and the others follow.
func (f *fleetUnderFault) settled() {
	f.w.t.Helper()
	f.awaits("one runner works, and every other follows", func() bool {
		active, standby := 0, 0
		for n := range f.runners {
			switch f.role(n) {
			case "active":
				active++
			case "standby":
				standby++
			}
		}
		return active == 1 && active+standby == f.runners
	})
}

// awaits is await that has the runners say where they stand when it never happens.
func (f *fleetUnderFault) awaits(what string, is func() bool) {
	f.w.t.Helper()
	defer func() {
		if !f.w.t.Failed() {
			return
		}
		for n := range f.runners {
			_ = f.runs[n].cmd.Process.Signal(syscall.SIGQUIT)
			_ = f.runs[n].wait()
			f.w.t.Logf("%s said:\n%s", pairData[n], f.runs[n].stderr)
		}
	}()
	await(f.w.t, what, is)
}

func (f *fleetUnderFault) active() int {
	f.settled()
	for n := range f.runners {
		if f.role(n) == "active" {
			return n
		}
	}
	return f.active() // it changed in between
}

// leader is the server that leads the events stream.
func (f *fleetUnderFault) leader() (server int) {
	f.awaits("the events stream has a leader", func() bool {
		nc, js := f.connect()
		defer nc.Close()
		ctx, cancel := context.WithTimeout(f.w.t.Context(), 5*time.Second)
		defer cancel()
		stream, err := js.Stream(ctx, queue.EventsStream("main"))
		if err != nil || stream.CachedInfo().Cluster == nil {
			return false
		}
		_, err = fmt.Sscanf(stream.CachedInfo().Cluster.Leader, "n%d", &server)
		return err == nil
	})
	return server
}

// killServers kills servers, lets the load go on without them, and starts them again.
func (f *fleetUnderFault) killServers(servers ...int) {
	for _, n := range servers {
		f.cluster.kill(n)
	}
	<-time.After(time.Duration(f.random.IntN(4000)) * time.Millisecond) // the length of the outage, not a wait for something
	for _, n := range servers {
		f.cluster.start(n)
	}
}

func (f *fleetUnderFault) killRunner(n int) {
	f.runs[n].kill()
	f.load(3)
	if f.random.IntN(2) == 0 {
		f.awaitRole(1-n, "active")
	}
	f.start(n, "")
}

// load publishes new commands until the stream has them.
func (f *fleetUnderFault) load(n int) {
	f.w.t.Helper()
	nc, js := f.connect()
	defer nc.Close()
	for range n {
		c := f.producer.next()
		f.awaits(c.id+" is on the stream", func() bool {
			ctx, cancel := context.WithTimeout(f.w.t.Context(), 2*time.Second)
			defer cancel()
			_, err := js.Publish(ctx, c.subject, c.body)
			return err == nil
		})
	}
}

// rounds plays faults under load. Then every command has ended once, or waits for what a
// lost runner sent, and all ledgers are one history with what the provider charged.
func (f *fleetUnderFault) rounds(faults []clusterFault) {
	t := f.w.t
	t.Helper()
	for round := range *clusterRounds {
		fault := faults[f.random.IntN(len(faults))]
		t.Logf("round %d: %s", round+1, fault.name)
		f.load(10)
		if f.random.IntN(2) == 0 { // with the commands under way, or ended
			f.settled()
		}
		fault.do(f)
		f.load(5)
		f.settled()
		f.allRest()
	}
	f.end()
}

// allRest waits until no command is under way.
func (f *fleetUnderFault) allRest() {
	f.w.t.Helper()
	for _, id := range f.producer.ids() {
		f.awaits(id+" has ended, or waits for what a lost runner sent", func() bool { return f.rests(id) })
	}
}

func (f *fleetUnderFault) rests(id string) bool {
	q, err := queue.Connect(queue.ConnectConfig{URL: f.cluster.urls()})
	if err != nil {
		return false
	}
	defer q.Close()
	ctx, cancel := context.WithTimeout(f.w.t.Context(), 5*time.Second)
	defer cancel()
	var status inspect.CommandStatus
	if err := request(ctx, q, daemon.VerbStatus, daemon.OperatorRequest{ID: id}, &status); err != nil || len(status.Operations) == 0 {
		return false
	}
	for _, o := range status.Operations {
		if !o.State.Ended() && !waitsForAnother(o) {
			return false
		}
	}
	return true
}

// waitsForAnother reports whether an operation waits until another runner's request is
// out of date.
func waitsForAnother(o inspect.OperationStatus) bool {
	return o.State == fact.StateWaiting && strings.Contains(o.Reason, "another runner sent it")
}

// end stops the runners, the standby last, and compares what they leave.
func (f *fleetUnderFault) end() {
	t := f.w.t
	t.Helper()
	active := f.active()
	if f.runners > 1 {
		f.handOver(active, 1-active)
		active = 1 - active
	}
	if code := f.runs[active].terminate(); code != cli.ExitDone {
		t.Errorf("the last runner ended with code %d\n%s", code, f.runs[active].stderr)
	}
	for n := range f.runners {
		if out, errs, code := f.w.cli("ledger", "verify", pairData[n]+"/main.ledger.db", "--against-events", "--nats", f.cluster.urls()); code != cli.ExitDone {
			t.Errorf("verify %s: %d %s%s", pairData[n], code, out, errs)
		}
	}
	if f.runners > 1 {
		ahead, behind := pairData[active], pairData[1-active]
		if head := f.verified(behind); f.hashAt(ahead, head.Seq) != head.Hash {
			t.Errorf("the ledgers are not one history")
		}
	}
	checkReferee(t, f.w.charges)
	f.endedOnce(pairData[active])
}

// endedOnce reads every command's ends from a ledger, and compares the books with the
// wallet unless something may have been done that is not booked.
func (f *fleetUnderFault) endedOnce(dir string) {
	t := f.w.t
	t.Helper()
	l := f.open(dir)
	defer func() { _ = l.Close() }()
	waiting := 0
	for _, id := range f.producer.ids() {
		status, err := inspect.Status(t.Context(), l, id)
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		for _, o := range status.Operations {
			if !o.State.Ended() {
				waiting++
			}
		}
	}
	book, err := l.Balance(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	f.w.control("GET", "/charges", nil) // lets the sandbox finish what is due
	charged, refunded := checkReferee(t, f.w.charges)
	if waiting == 0 && (book.ChargedCents != charged || book.RefundedCents != refunded) {
		t.Errorf("the books say charged %d, refunded %d, and the referee %d, %d", book.ChargedCents, book.RefundedCents, charged, refunded)
	}
	t.Logf("%d commands, %d operations wait for what a lost runner sent, %d rows", len(f.producer.ids()), waiting, book.Head.Seq)
}
