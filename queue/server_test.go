package queue

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"
)

func TestEmbeddedServerListensOnLoopbackOnly(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":4222", "192.0.2.1:4222", "example.com:1", "127.0.0.1:99999", "nonsense"} {
		_, err := StartEmbedded(EmbeddedConfig{Listen: listen, StoreDir: t.TempDir(), Log: quiet()})
		if err == nil || !strings.Contains(err.Error(), "nats.listen") {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestEmbeddedServerSaysThatItsPortIsTaken(t *testing.T) {
	first := startServer(t, t.TempDir())
	_, err := StartEmbedded(EmbeddedConfig{Listen: strings.TrimPrefix(first.URL(), "nats://"), StoreDir: t.TempDir(), Log: quiet()})
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatal(err)
	}
}

// TestTheEmbeddedServerBoundsItsConnections: without users too; the runner's own stays.
func TestTheEmbeddedServerBoundsItsConnections(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	q, err := Connect(ConnectConfig{Embedded: s, Log: quiet()})
	check(t, err)
	t.Cleanup(q.Close)
	refused := false
	for n := 0; n < 2*anyConnections && !refused; n++ { // on a slow machine some may be closed
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://"))
		check(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write([]byte("CONNECT {\"verbose\":false}\r\nPING\r\n")) // one that says nothing is closed after two seconds
		for lines := bufio.NewScanner(c); lines.Scan() && lines.Text() != "PONG" && !refused; {
			refused = strings.Contains(lines.Text(), "maximum connections exceeded")
		}
	}
	if !refused {
		t.Error("no connection was refused")
	}
	check(t, q.Probe(within(t)))
}

// TestAKillIsNoWarning: the server's index is older than its data then, and it reads the
// data. Its lines about that look like a loss to a person who starts the runner again.
func TestAKillIsNoWarning(t *testing.T) {
	dir, killed := t.TempDir(), t.TempDir()
	first := startServer(t, dir)
	q := connect(t, first)
	check(t, q.EnsureStreams(within(t), "main", 1))
	check(t, q.PublishCommand(within(t), "main", KindOrderCreate, []byte(`{}`)))
	check(t, first.Restart()) // writes the index
	q = connect(t, first)
	check(t, q.PublishCommand(within(t), "main", KindOrderCreate, []byte(`{}`)))
	check(t, os.CopyFS(killed, os.DirFS(dir))) // as a kill leaves it
	said := &bytes.Buffer{}
	log := logrus.New()
	log.SetOutput(said)
	log.SetLevel(logrus.DebugLevel)
	again, err := StartEmbedded(EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: killed, Log: log})
	check(t, err)
	again.Shutdown()
	if text := said.String(); !strings.Contains(text, "will rebuild") || strings.Contains(text, "level=warning") {
		t.Errorf("the server says:\n%s", text)
	}
}

func TestEmbeddedServerWithUsersRefusesStrangers(t *testing.T) {
	server := startServer(t, t.TempDir(), User{Name: "ops", Password: "pw", Grants: []Grant{{RoleOperator, []string{"main"}}}})
	if _, err := Connect(ConnectConfig{URL: server.URL(), Log: quiet()}); !errors.Is(err, nats.ErrAuthorization) {
		t.Fatal(err)
	}
	if q := connect(t, server); !q.nc.IsConnected() {
		t.Fatal("the runner itself is refused")
	}
}

// A disk that was full ends JetStream in the server for good. It is seen, and behind
// a restart the same intake goes on, with what was published before and after.
func TestAnEmbeddedServerThatStoresNothingIsSeenAndRestarted(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir())
	q := connect(t, server)
	check(t, q.EnsureStreams(within(t), "main", 1))
	intake := openIntake(t, q)
	check(t, q.PublishCommand(within(t), "main", KindProxyRenew, []byte(`1`)))
	if err := server.Failing(); err != nil {
		t.Fatal(err)
	}
	address := server.URL()
	check(t, server.now().ShutdownJetStream()) // as the server does where no space is left
	if err := server.Failing(); err == nil {
		t.Error("it looks healthy")
	}
	check(t, server.Restart())
	if err := server.Failing(); err != nil || server.URL() != address {
		t.Errorf("behind the restart, at %s: %v", server.URL(), err)
	}
	check(t, q.JetStream().AwaitConnected(within(t)))
	ctx := within(t)
	for published := false; !published; check(t, ctx.Err()) {
		try, cancel := context.WithTimeout(ctx, time.Second) // what is asked while it is away is not answered
		published = q.PublishCommand(try, "main", KindProxyRenew, []byte(`2`)) == nil
		cancel()
	}
	for seen := map[string]bool{}; !seen["1"] || !seen["2"]; {
		for _, m := range take(t, intake, 1) {
			seen[string(m.Data)] = true
			check(t, m.Ack())
		}
	}
}
