package crashtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/queue"
	"perennial/queue/freeport"
)

// natsServer is a command that runs a real nats-server on a configuration: TestMain makes
// this binary be one.
func natsServer(t testing.TB, config string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-c", config)
	cmd.Env = append(os.Environ(), execVariable+"="+execNATS)
	return cmd
}

// natsProcess is a real nats-server on one address, which is killed and started
// again. Its store is where checkBooks looks for the events.
type natsProcess struct {
	w    *world
	port int
	more string // lines of its configuration
	cmd  *exec.Cmd
}

func newNATSProcess(t testing.TB, w *world) *natsProcess {
	t.Helper()
	n := &natsProcess{w: w, port: freePort(t)}
	t.Cleanup(n.kill)
	return n
}

func (n *natsProcess) url() string { return fmt.Sprintf("nats://run:pw@127.0.0.1:%d", n.port) }

// start runs the server, which asks for a password.
func (n *natsProcess) start(password string) {
	t := n.w.t
	t.Helper()
	n.w.write("nats.conf", fmt.Sprintf("listen: \"127.0.0.1:%d\"\njetstream {store_dir: %q}\nauthorization {users: [{user: run, password: %q}]}\n%s\n",
		n.port, filepath.Join(n.w.dir, "data", "nats"), password, n.more), 0o600)
	n.cmd = natsServer(t, filepath.Join(n.w.dir, "nats.conf"))
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n.awaitListening()
}

func (n *natsProcess) awaitListening() {
	n.w.t.Helper()
	await(n.w.t, "nats-server listens", func() bool {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", n.port), time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// kill is kill -9.
func (n *natsProcess) kill() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
		n.cmd = nil
	}
}

// shortLeases has the account's lease run out after a second, so that an outage of
// a few seconds is one of many leases.
func (n *natsProcess) shortLeases() {
	t := n.w.t
	t.Helper()
	nc, err := nats.Connect(n.url())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: queue.LeaseBucket, TTL: time.Second}); err != nil {
		t.Fatal(err)
	}
}

// readySays waits until /readyz holds a text.
func (w *world) readySays(line daemon.ReadyLine, text string) {
	w.t.Helper()
	await(w.t, "/readyz says "+text, func() bool {
		said, err := w.get(line.HTTP + "/readyz")
		return err == nil && (said == text || text != ready && strings.Contains(said, text))
	})
}

// ready is the whole of what /readyz says when all works.
const ready = "ok\n"

// TestAStartWaitsForNATSAndForItsLogin: it runs and says why it does not work.
func TestAStartWaitsForNATSAndForItsLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	n := newNATSProcess(t, w)
	w.configure(n.url(), "")
	run, line := w.run()
	w.readySays(line, "not connected")
	n.start("another")
	w.readySays(line, "Authorization Violation")
	refused := func() bool {
		said, err := w.get(line.HTTP + "/metrics")
		return err == nil && strings.Contains(said, `perennial_ready{account="main"} 0`)
	}
	await(t, "the metrics say it", refused)
	n.kill()
	n.start("pw")
	w.readySays(line, ready)
	c := load()[:10]
	c.publish(t, n.url())
	c.await(t, n.url())
	// Refused in the middle, too: two refused logins do not end a connection.
	n.kill()
	n.start("another")
	w.readySays(line, "Authorization Violation")
	n.kill()
	n.start("pw")
	w.readySays(line, ready)
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("exit %d\n%s", code, run.stderr)
	}
	n.kill()
	checkBooks(t, w, c.ids())
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// freeAddress is an address for a server that is started more than once.
func freeAddress(t testing.TB) string { return fmt.Sprintf("127.0.0.1:%d", freePort(t)) }
