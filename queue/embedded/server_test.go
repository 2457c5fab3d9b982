package embedded

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

	"perennial/queue"
	"perennial/queue/intake"
	"perennial/queue/natstest"
	"perennial/queue/publish"
	"perennial/queue/roles"
	"perennial/queue/streams"
)

func TestEmbeddedServerListensOnLoopbackOnly(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":4222", "192.0.2.1:4222", "example.com:1", "127.0.0.1:99999", "nonsense"} {
		_, err := Start(Config{Listen: listen, StoreDir: t.TempDir(), Log: natstest.Quiet()})
		if err == nil || !strings.Contains(err.Error(), "nats.listen") {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestEmbeddedServerSaysThatItsPortIsTaken(t *testing.T) {
	first := start(t, t.TempDir())
	_, err := Start(Config{Listen: strings.TrimPrefix(first.URL(), "nats://"), StoreDir: t.TempDir(), Log: natstest.Quiet()})
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatal(err)
	}
}

// The bound applies without users too; the runner's own connection stays.
func TestTheEmbeddedServerBoundsItsConnections(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	q, err := queue.Connect(queue.ConnectConfig{Embedded: s, Log: natstest.Quiet()})
	natstest.Check(t, err)
	t.Cleanup(q.Close)
	refused := false
	for n := 0; n < 2*anyConnections && !refused; n++ { // on a slow machine some may be closed
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://"))
		natstest.Check(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write([]byte("CONNECT {\"verbose\":false}\r\nPING\r\n")) // a connection that sends nothing is closed after two seconds
		for lines := bufio.NewScanner(c); lines.Scan() && lines.Text() != "PONG" && !refused; {
			refused = strings.Contains(lines.Text(), "maximum connections exceeded")
		}
	}
	if !refused {
		t.Error("no connection was refused")
	}
	natstest.Check(t, q.Probe(natstest.Within(t)))
}

// After a kill the server's index is older than its data, so the server reads the data. To an
// operator, its warnings about that would look like a loss.
func TestAKillIsNoWarning(t *testing.T) {
	dir, killed := t.TempDir(), t.TempDir()
	first := start(t, dir)
	q := connect(t, first)
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), q.JetStream()))
	natstest.Check(t, publish.New(q.JetStream()).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindOrderCreate, Data: []byte(`{}`)}))
	natstest.Check(t, first.Restart()) // writes the index
	q = connect(t, first)
	natstest.Check(t, publish.New(q.JetStream()).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindOrderCreate, Data: []byte(`{}`)}))
	natstest.Check(t, os.CopyFS(killed, os.DirFS(dir))) // as a kill leaves it
	said := &bytes.Buffer{}
	log := logrus.New()
	log.SetOutput(said)
	log.SetLevel(logrus.DebugLevel)
	again, err := Start(Config{Listen: "127.0.0.1:0", StoreDir: killed, Log: log})
	natstest.Check(t, err)
	again.Shutdown()
	if text := said.String(); !strings.Contains(text, "will rebuild") || strings.Contains(text, "level=warning") {
		t.Errorf("the server says:\n%s", text)
	}
}

func TestEmbeddedServerWithUsersRefusesStrangers(t *testing.T) {
	server := start(t, t.TempDir(), roles.User{Name: "ops", Password: "pw", Grants: []roles.Grant{{Role: queue.RoleOperator, Accounts: []string{"main"}}}})
	if _, err := queue.Connect(queue.ConnectConfig{URL: server.URL(), Log: natstest.Quiet()}); !errors.Is(err, nats.ErrAuthorization) {
		t.Fatal(err)
	}
	if q := connect(t, server); !q.JetStream().Conn().IsConnected() {
		t.Fatal("the runner itself is refused")
	}
}

// A full disk ends JetStream in the server. That is detected, and after a restart the same
// intake continues, with the commands published before and after.
func TestAnEmbeddedServerThatStoresNothingIsSeenAndRestarted(t *testing.T) {
	t.Parallel()
	server := start(t, t.TempDir())
	q := connect(t, server)
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), q.JetStream()))
	intake, err := intake.Open(natstest.Within(t), q.JetStream(), "main")
	natstest.Check(t, err)
	t.Cleanup(intake.Close)
	natstest.Check(t, publish.New(q.JetStream()).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindProxyRenew, Data: []byte(`1`)}))
	if err := server.Failing(); err != nil {
		t.Fatal(err)
	}
	address := server.URL()
	natstest.Check(t, server.now().ShutdownJetStream()) // as the server does when no space is left
	if err := server.Failing(); err == nil {
		t.Error("it looks healthy")
	}
	natstest.Check(t, server.Restart())
	if err := server.Failing(); err != nil || server.URL() != address {
		t.Errorf("behind the restart, at %s: %v", server.URL(), err)
	}
	natstest.Check(t, q.JetStream().AwaitConnected(natstest.Within(t)))
	ctx := natstest.Within(t)
	for published := false; !published; natstest.Check(t, ctx.Err()) {
		try, cancel := context.WithTimeout(ctx, time.Second) // requests during the outage are not answered
		published = publish.New(q.JetStream()).Publish(try, "main", publish.Outgoing{Kind: queue.KindProxyRenew, Data: []byte(`2`)}) == nil
		cancel()
	}
	for seen := map[string]bool{}; !seen["1"] || !seen["2"]; {
		messages, err := intake.Fetch(natstest.Within(t), queue.Line{Kind: queue.KindProxyRenew}, 1)
		natstest.Check(t, err)
		for _, m := range messages {
			seen[string(m.Data)] = true
			natstest.Check(t, m.Ack())
		}
	}
}
