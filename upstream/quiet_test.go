package upstream_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"perennial/upstream"
)

const canaryPassword = "pass-canary-Zq81"

// rawServer replies to every request with the given bytes.
func rawServer(t *testing.T, raw string) *upstream.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_ = r.Body.Close()
				_, _ = conn.Write([]byte(raw))
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-served })
	return clientOf(t, "http://"+listener.Addr().String())
}

// A broken server may send anything in place of HTTP, even a password. Errors describe the fault
// and never quote the text.
func TestTrap41NoErrorQuotesWhatAServerSaid(t *testing.T) {
	const connection = "socks5://user-canary:" + canaryPassword + "@192.0.2.1:1080"
	head := "HTTP/1.1 200 OK\r\n"
	for name, raw := range map[string]string{
		"no HTTP at all":           canaryPassword + " " + connection + "\r\n\r\n",
		"no number for a status":   "HTTP/1.1 " + canaryPassword + "\r\n\r\n",
		"a line that is no field":  head + canaryPassword + "\r\n\r\n",
		"a length of words":        head + "Content-Length: " + canaryPassword + "\r\n\r\n",
		"a strange encoding":       head + "Transfer-Encoding: " + canaryPassword + "\r\n\r\n",
		"a broken chunk":           head + "Transfer-Encoding: chunked\r\n\r\n" + canaryPassword + "\r\n",
		"a broken trailer":         head + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + canaryPassword + "\r\n\r\n",
		"a redirect":               "HTTP/1.1 302 Found\r\nLocation: " + connection + "\r\nContent-Length: 0\r\n\r\n",
		"a body that breaks off":   head + "Content-Length: 9999\r\n\r\n{\"data\":{\"password\":\"" + canaryPassword,
		"no JSON":                  head + "Connection: close\r\n\r\n{\"data\":{\"password\":\"" + canaryPassword + "\"",
		"no envelope":              head + "Connection: close\r\n\r\n{\"success\":\"" + canaryPassword + "\",\"code\":{}}",
		"a key that appears twice": head + "Connection: close\r\n\r\n{\"" + canaryPassword + "\":1,\"" + canaryPassword + "\":2}",
		"a message with an address": head + "Connection: close\r\n\r\n" +
			`{"success":false,"code":"proxy_endpoint_unavailable","message":"` + connection + ` does not answer","trace_id":"tr_1"}`,
		"a message with a connection": head + "Connection: close\r\n\r\n" +
			`{"success":false,"code":"validation_error","message":"192.0.2.1:1080:user-canary:` + canaryPassword + ` is in use"}`,
		"a message with a field": head + "Connection: close\r\n\r\n" +
			`{"success":false,"code":"validation_error","message":"{\"password\":\"` + canaryPassword + `\"}"}`,
		"a code that is none": head + "Connection: close\r\n\r\n" + `{"success":false,"code":"` + connection + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := rawServer(t, raw)
			reply := c.Post(context.Background(), upstream.Write{Kind: upstream.WriteOrder, Key: "k", Body: []byte("{}")})
			_, err := c.Wallet(context.Background())
			if !reply.Sent || err == nil {
				t.Fatalf("%+v, %v", reply, err)
			}
			for _, said := range []string{fmt.Sprintf("%+v", reply), err.Error()} {
				if strings.Contains(said, canaryPassword) {
					t.Errorf("it quotes the server: %s", said)
				}
			}
		})
	}
}

// The provider's text is shown on terminals and in tables, so it must be one line and must not
// move the cursor.
func TestTheProvidersWordsAreOneLineOfText(t *testing.T) {
	e, err := upstream.DecodeEnvelope([]byte(`{"success":false,"code":"validation_error","message":"bad\r\nlevel=error\tforged \u001b[2J\u0085\u202ecod","trace_id":"tr\n1"}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := "bad  level=error forged  [2J  cod"; e.Message != want || e.TraceID != "tr 1" {
		t.Errorf("%q, %q", e.Message, e.TraceID)
	}
}
