//go:build check

package crashtest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
)

type natsCluster struct {
	w     *world
	ports [3]int // of the clients
	nodes [3]*exec.Cmd
}

func (c *natsCluster) urls() string {
	var all []string
	for _, port := range c.ports {
		all = append(all, fmt.Sprintf("nats://run:pw@127.0.0.1:%d", port))
	}
	return strings.Join(all, ",")
}

func newNATSCluster(t testing.TB, w *world) *natsCluster {
	t.Helper()
	c := &natsCluster{w: w}
	var routes []string
	var between [3]int
	for i := range c.nodes {
		c.ports[i], between[i] = freePort(t), freePort(t)
		routes = append(routes, fmt.Sprintf("\"nats://127.0.0.1:%d\"", between[i]))
	}
	for i := range c.nodes {
		w.write(c.file(i), fmt.Sprintf("server_name: n%d\nlisten: \"127.0.0.1:%d\"\njetstream {store_dir: %q}\nauthorization {users: [{user: run, password: pw}]}\ncluster {name: test, listen: \"127.0.0.1:%d\", routes: [%s]}\n",
			i, c.ports[i], filepath.Join(w.dir, fmt.Sprintf("nats-%d", i)), between[i], strings.Join(routes, ", ")), 0o600)
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.kill(i)
		}
	})
	return c
}

func (c *natsCluster) file(i int) string { return fmt.Sprintf("nats-%d.conf", i) }

func (c *natsCluster) start(i int) {
	c.w.t.Helper()
	c.nodes[i] = natsServer(c.w.t, filepath.Join(c.w.dir, c.file(i)))
	if err := c.nodes[i].Start(); err != nil {
		c.w.t.Fatal(err)
	}
}

func (c *natsCluster) kill(i int) {
	if c.nodes[i] != nil {
		_ = c.nodes[i].Process.Kill()
		_ = c.nodes[i].Wait()
		c.nodes[i] = nil
	}
}

func (c *natsCluster) url() string { return fmt.Sprintf("nats://run:pw@127.0.0.1:%d", c.ports[0]) }

// Two of three servers die. The third still answers, so that the runner stays connected. The runner
// reports that it is not ready, ends no operation, and continues when one server is back.
func TestALostQuorumIsSeenAndWaitedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	c := newNATSCluster(t, w)
	w.configure(c.url(), "    replicas: 3\n")
	run, line := w.run()
	w.readySays(line, ready)
	all := load()[:40]
	all[:20].publish(t, c.url())
	all[:20].await(t, c.url())
	c.kill(1)
	w.readySays(line, ready) // two of three servers are a quorum
	c.kill(2)
	await(t, "/readyz says that it does not work", func() bool {
		said, err := w.get(line.HTTP + "/readyz")
		return err == nil && said != ready
	})
	w.pageHas(line, "/metrics", `perennial_ready{account="main"} 0`)
	await(t, "/readyz?verbose says which check", func() bool { return !passes(w.verbose(line), "streams") })
	c.start(1)
	w.readySays(line, ready)
	all[20:].publish(t, c.url())
	all[20:].await(t, c.url())
	if out, errs, code := w.cli("ledger", "reconcile"); code != cli.ExitDone {
		t.Errorf("reconcile: %d %s%s", code, out, errs)
	}
	if out, errs, code := w.cli("ledger", "verify", "--against-events"); code != cli.ExitDone {
		t.Errorf("verify: %d %s%s", code, out, errs)
	}
	checkReferee(t, w.charges)
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("exit %d\n%s", code, run.stderr)
	}
}

// The server is killed repeatedly, for shorter and longer than the lease lasts.
func TestANATSOutageLongerThanTheLeaseIsWaitedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	n := newNATSProcess(t, w)
	n.start("pw")
	n.shortLeases()
	w.configure(n.url(), "")
	run, line := w.run()
	all := load()
	for i, lost := range []bool{false, true, true} {
		c := all[20*i : 20*i+20]
		w.readySays(line, ready)
		c.publish(t, n.url())
		waitForEvent(t, n.url(), "command.accepted", c[0].id)
		n.kill()
		w.readySays(line, "not connected")
		if lost {
			await(t, "the lease is lost", func() bool { return strings.Count(run.stderr.String(), "could not be renewed in time") == i })
		}
		n.start("pw")
		c.publish(t, n.url())
		c.await(t, n.url())
	}
	w.readySays(line, ready)
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("exit %d\n%s", code, run.stderr)
	}
	n.kill()
	checkBooks(t, w, all[:60].ids())
}

// All copies present is ok, a missing copy is a warning, and a stream with fewer copies than
// configured is refused.
func TestTheDoctorLooksAtEachCopyOnACluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	c := newNATSCluster(t, w)
	w.configure(c.urls(), "    replicas: 3\n")
	p, line := w.run()
	w.readySays(line, ready)
	var f cli.DoctorFinding
	var code int
	await(t, "three copies are ok", func() bool {
		f, code = w.durability()
		return f.OK && !f.Warning && code == cli.ExitDone && strings.Contains(f.Seen, "3 copies")
	})
	p.kill()
	c.kill(2)
	await(t, "a server that is away is a warning", func() bool {
		f, code = w.durability()
		return f.OK && f.Warning && code == cli.ExitDone && strings.Contains(f.Seen, "PERENNIAL_EVENTS_main: its copy on n2") && f.Do != ""
	})
	c.start(2)
	await(t, "it has caught up", func() bool { f, code = w.durability(); return f.OK && !f.Warning })
	c.oneCopy("PERENNIAL_EVENTS_main")
	f, code = w.durability()
	if f.OK || code != cli.ExitFailed || !strings.Contains(f.Seen, "PERENNIAL_EVENTS_main has 1 of 3 copies") || !strings.Contains(f.Do, "nats stream edit PERENNIAL_EVENTS_main --replicas 3") {
		t.Errorf("exit %d, one copy where three are asked for: %+v", code, f)
	}
}

// oneCopy removes a stream's other copies, as an operator could.
func (c *natsCluster) oneCopy(name string) {
	t := c.w.t
	t.Helper()
	nc, err := nats.Connect(c.urls())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the cluster takes the change", func() bool {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			return false
		}
		config := stream.CachedInfo().Config
		config.Replicas = 1
		_, err = js.UpdateStream(t.Context(), config)
		return err == nil
	})
}
