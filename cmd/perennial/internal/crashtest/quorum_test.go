package crashtest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/queue/freeport"
)

// natsCluster is three real servers on this machine.
type natsCluster struct {
	w     *world
	ports [3]int // of the clients
	nodes [3]*exec.Cmd
}

// urls names all servers of the cluster.
func (c *natsCluster) urls() string {
	var all []string
	for _, port := range c.ports {
		all = append(all, fmt.Sprintf("nats://run:pw@127.0.0.1:%d", port))
	}
	return strings.Join(all, ",")
}

func newNATSCluster(t *testing.T, w *world) *natsCluster {
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
	path, err := natsServer()
	if err != nil {
		c.w.t.Fatal(err)
	}
	c.nodes[i] = exec.Command(path, "-c", filepath.Join(c.w.dir, c.file(i)))
	if err := c.nodes[i].Start(); err != nil {
		c.w.t.Fatal(err)
	}
}

// kill is kill -9.
func (c *natsCluster) kill(i int) {
	if c.nodes[i] != nil {
		_ = c.nodes[i].Process.Kill()
		_ = c.nodes[i].Wait()
		c.nodes[i] = nil
	}
}

func (c *natsCluster) url() string { return fmt.Sprintf("nats://run:pw@127.0.0.1:%d", c.ports[0]) }

func freePort(t *testing.T) int {
	t.Helper()
	port, err := freeport.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// freeAddress is an address for a server that is started more than once.
func freeAddress(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", freePort(t)) }

// TestALostQuorumIsSeenAndWaitedOut: two of three servers die. The third one still
// answers, so the runner stays connected; it says that it does not work, ends
// nothing, and goes on when one of them is back.
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
