package crashtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/freeport"
)

// natsServer returns a command that runs a real nats-server with a configuration file. TestMain
// makes this test binary act as the server.
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

// natsProcess is a real nats-server on a fixed address, which tests kill and restart. checkBooks
// reads the events from its store.
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

// start runs the server with a required password.
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

func (n *natsProcess) kill() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
		n.cmd = nil
	}
}

// shortLeases makes the account's lease expire after a second, so that an outage of a few seconds
// is much longer than the lease.
func (n *natsProcess) shortLeases() {
	t := n.w.t
	t.Helper()
	// On a busy machine, a starting server can reset its first connection.
	nc, err := nats.Connect(n.url(), nats.RetryOnFailedConnect(true))
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

func freePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// freeAddress returns an address for a server that is started more than once.
func freeAddress(t testing.TB) string { return fmt.Sprintf("127.0.0.1:%d", freePort(t)) }
