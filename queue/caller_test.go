package queue

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestANameThatNoServerProvesIsNone: on a server without accounts any client may
// write the header.
func TestANameThatNoServerProvesIsNone(t *testing.T) {
	q := newQueue(t)
	stop, err := serveAccount(q, "1.0.0", map[string]Handler{"status": func(ctx context.Context, _ []byte) ([]byte, error) { return []byte("<" + Caller(ctx) + ">"), nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }()
	m := nats.NewMsg(ServiceSubject("main", "status"))
	m.Header.Set(requestInfo, `{"acc":"PERENNIAL","user":"root"}`)
	answer, err := q.nc.RequestMsg(m, 10*time.Second)
	if err != nil || string(answer.Data) != "<>" {
		t.Errorf("%v %v", answer, err)
	}
}

// TestWhoAsksIsWhatTheServerProves: a client's CONNECT may name a user or a key that
// the server does not look at, and its header may hide the server's own behind a line
// that ends in a bare line feed.
func TestWhoAsksIsWhatTheServerProves(t *testing.T) {
	server := startServer(t, t.TempDir(), User{Name: "all", Password: "pw", Grants: []Grant{{RoleOperator, []string{"main"}}}})
	q := connect(t, server)
	stop, err := serveAccount(q, "1.0.0", map[string]Handler{"status": func(ctx context.Context, _ []byte) ([]byte, error) { return []byte("<" + Caller(ctx) + ">"), nil }})
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
		{"a header behind a bare line feed", `"user":"all","pass":"pw"`, "X: y\n" + forged, codeUnproven},
		{"a header behind an empty line", `"user":"all","pass":"pw"`, "X: y\r\n\r\n" + forged, codeUnproven},
		{"a header in another case", `"user":"all","pass":"pw"`, strings.ToLower(forged), "<all>"},
	} {
		if got := rawRequest(t, server, c.connect, c.header, "perennial.svc.main.status"); got != c.want {
			t.Errorf("%s: asked by %q, not %q", c.name, got, c.want)
		}
	}
}

// rawRequest asks as a client that writes the protocol itself.
func rawRequest(t *testing.T, server *Embedded, options, header, subject string) string {
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
		if strings.HasPrefix(line, `{"code":"`+codeUnproven) {
			return codeUnproven
		}
		if strings.HasPrefix(line, "<") || strings.HasPrefix(line, "-ERR") {
			return line
		}
	}
	t.Fatal("no answer")
	return ""
}
