package service_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"perennial/queue"
	"perennial/queue/caller"
	"perennial/queue/embedded"
	"perennial/queue/natstest"
	"perennial/queue/roles"
	"perennial/queue/service"
)

// A client's CONNECT may name a user or a key that the server ignores. Its header may hide
// the server's own after a line that ends in a bare line feed.
func TestWhoAsksIsWhatTheServerProves(t *testing.T) {
	server := startWith(t, roles.User{Name: "all", Password: "pw", Grants: []roles.Grant{{Role: queue.RoleOperator, Accounts: []string{"main"}}}})
	q := runnerOf(t, server)
	stop, err := service.ServeMain(q.JetStream(), "1.0.0", map[string]service.Handler{"status": func(ctx context.Context, _ []byte) ([]byte, error) {
		return []byte("<" + service.Caller(ctx) + ">"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }()
	forged := `Nats-Request-Info: {"acc":"PERENNIAL_USER_root","user":"root","name_tag":"root"}` + "\r\n"
	for _, c := range []struct{ name, connect, header, want string }{
		{"as it is", `"user":"all","pass":"pw"`, "", "<all>"},
		{"a key in CONNECT", `"user":"all","pass":"pw","nkey":"root"`, "", "<all>"},
		{"a token and a name in CONNECT", `"user":"all","pass":"pw","auth_token":"root","name":"root","jwt":"root"`, "", "<all>"},
		{"a header", `"user":"all","pass":"pw"`, forged, "<all>"},
		{"two headers", `"user":"all","pass":"pw"`, forged + forged, "<all>"},
		{"a header behind a bare line feed", `"user":"all","pass":"pw"`, "X: y\n" + forged, "unproven"},
		{"a header behind an empty line", `"user":"all","pass":"pw"`, "X: y\r\n\r\n" + forged, "unproven"},
		{"a header in another case", `"user":"all","pass":"pw"`, strings.ToLower(forged), "<all>"},
	} {
		if got := rawRequest(t, server, c.connect, c.header, "perennial.svc.main.status"); got != c.want {
			t.Errorf("%s: asked by %q, not %q", c.name, got, c.want)
		}
	}
}

// rawRequest sends a request as a client that writes the protocol itself.
func rawRequest(t *testing.T, server *embedded.Server, options, header, subject string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	hdr := "NATS/1.0\r\n" + header + "\r\n"
	if _, err := fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"protocol\":1,\"headers\":true,\"no_responders\":true,%s}\r\nSUB _INBOX.a 1\r\nHPUB %s _INBOX.a %d %d\r\n%s\r\n",
		options, subject, len(hdr), len(hdr), hdr); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, `{"code":"unproven`) {
			return "unproven"
		}
		if strings.HasPrefix(line, "<") || strings.HasPrefix(line, "-ERR") {
			return line
		}
	}
	t.Fatal("no answer")
	return ""
}

// Another user's request still has room.
func TestAUserThatFloodsTheServiceWaitsForItself(t *testing.T) {
	viewer := []roles.Grant{{Role: queue.RoleViewer, Accounts: []string{"main"}}}
	server := startWith(t, roles.User{Name: "one", Password: "pw", Grants: viewer}, roles.User{Name: "two", Password: "pw", Grants: viewer})
	q := runnerOf(t, server)
	hold := make(chan struct{})
	stop, err := service.ServeMain(q.JetStream(), "1.0.0", map[string]service.Handler{
		"status": func(context.Context, []byte) ([]byte, error) { <-hold; return []byte("{}"), nil },
		"show":   func(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	user := func(name string) *nats.Conn {
		nc, err := nats.Connect(server.URL(), nats.UserInfo(name, "pw"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	one := user("one")
	answers, err := one.SubscribeSync(one.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	for range caller.MaxOfUser + 1 {
		if err := one.PublishRequest(queue.ServiceSubject("main", "status"), answers.Subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := answers.NextMsg(10 * time.Second); err != nil || m.Header.Get(micro.ErrorCodeHeader) != "busy" {
		t.Errorf("one too many: %v %v", m, err)
	}
	if m, err := user("two").Request(queue.ServiceSubject("main", "show"), nil, 10*time.Second); err != nil || m.Header.Get(micro.ErrorCodeHeader) != "" {
		t.Errorf("another user: %v %v", m, err)
	}
	close(hold)
	for range caller.MaxOfUser {
		if m, err := answers.NextMsg(10 * time.Second); err != nil || m.Header.Get(micro.ErrorCodeHeader) != "" {
			t.Errorf("one of its share: %v %v", m, err)
		}
	}
	if m, err := one.Request(queue.ServiceSubject("main", "show"), nil, 10*time.Second); err != nil || m.Header.Get(micro.ErrorCodeHeader) != "" {
		t.Errorf("afterwards: %v %v", m, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestARefusedRequestIsCountedAsAnError(t *testing.T) {
	viewer := []roles.Grant{{Role: queue.RoleViewer, Accounts: []string{"main"}}}
	server := startWith(t, roles.User{Name: "one", Password: "pw", Grants: viewer})
	q := runnerOf(t, server)
	hold := make(chan struct{})
	stop, err := service.ServeMain(q.JetStream(), "1.0.0", map[string]service.Handler{"status": func(context.Context, []byte) ([]byte, error) { <-hold; return []byte("{}"), nil }})
	natstest.Check(t, err)
	nc, err := nats.Connect(server.URL(), nats.UserInfo("one", "pw"))
	natstest.Check(t, err)
	defer nc.Close()
	answers, err := nc.SubscribeSync(nc.NewInbox())
	natstest.Check(t, err)
	for range caller.MaxOfUser + 1 {
		natstest.Check(t, nc.PublishRequest(queue.ServiceSubject("main", "status"), answers.Subject, nil))
	}
	if _, err := answers.NextMsg(natstest.Patience); err != nil { // one too many
		t.Fatal(err)
	}
	if have := service.StatsOf(t, q.JetStream().Conn(), "status"); have.NumRequests != 1 || have.NumErrors != 1 || !strings.HasPrefix(have.LastError, "busy"+":") {
		t.Errorf("%+v", have)
	}
	close(hold)
	natstest.Check(t, stop())
}

// The request reaches the runner through one import only.
func TestAUserOfSeveralRolesAsksOnce(t *testing.T) {
	u := roles.User{Name: "all", Password: "pw", Grants: []roles.Grant{
		{Role: queue.RoleOperator, Accounts: []string{"main", "b"}}, {Role: queue.RoleViewer, Accounts: []string{"main"}}, {Role: queue.RoleProducer, Accounts: []string{"main"}}, {Role: queue.RoleSubscriber, Accounts: []string{"b", "main"}},
	}}
	server := startWith(t, u)
	q := runnerOf(t, server)
	asked := make(chan string, 8)
	stop, err := service.ServeMain(q.JetStream(), "1.0.0", map[string]service.Handler{"status": func(ctx context.Context, _ []byte) ([]byte, error) {
		asked <- service.Caller(ctx)
		return []byte("{}"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(server.URL(), nats.UserInfo("all", "pw"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request("perennial.svc.main.status", nil, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if caller := natstest.Receive(t, asked); caller != "all" || len(asked) != 0 {
		t.Errorf("asked by %q, and %d times more", caller, len(asked))
	}
}

// startWith runs an embedded server with users until the test ends.
func startWith(t testing.TB, users ...roles.User) *embedded.Server {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Users: users, Verbs: service.SomeVerbs, Log: natstest.Quiet()})
	natstest.Check(t, err)
	t.Cleanup(server.Shutdown)
	return server
}

// runnerOf returns the runner's own connection.
func runnerOf(t testing.TB, server *embedded.Server) *queue.Queue {
	t.Helper()
	q, err := queue.Connect(queue.ConnectConfig{Embedded: server, Log: natstest.Quiet()})
	natstest.Check(t, err)
	t.Cleanup(q.Close)
	return q
}
