package sandbox_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// complaints is a log that must stay empty, because the server logs panics.
type complaints struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (c *complaints) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Write(p)
}

func (c *complaints) none(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buf.Len() > 0 {
		t.Errorf("the sandbox complained: %s", c.buf.String())
	}
}

func complaining(c *complaints, more func(*sandbox.Options)) func(*sandbox.Options) {
	return func(o *sandbox.Options) {
		o.Log = logrus.New()
		o.Log.SetOutput(c)
		if more != nil {
			more(o)
		}
	}
}

// Invalid requests are refused with an envelope or, if they are not HTTP, with a status and a
// closed connection. The next client is served.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	var log complaints
	h := start(t, complaining(&log, nil))
	host := strings.TrimPrefix(h.s.SandboxURL(), "http://")
	head := "POST /api/v1/orders HTTP/1.1\r\nHost: " + host + "\r\n"
	signed := func(body string) string { return order(body).text(host, h.clock.Now()) }
	const huge = 40 << 20
	cases := map[string]struct {
		text     string
		status   int // 0: any refusal, or a closed connection
		envelope bool
	}{
		"40 MB":              {head + fmt.Sprintf("Content-Length: %d\r\n\r\n", huge) + strings.Repeat("x", huge), 413, true},
		"40 MB in chunks":    {head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("10000\r\n"+strings.Repeat("x", 0x10000)+"\r\n", huge/0x10000) + "0\r\n\r\n", 413, true},
		"asks before 40 MB":  {head + fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", huge), 413, true},
		"nested":             {signed(strings.Repeat("[", 200_000)), 422, true},
		"nested objects":     {signed(strings.Repeat(`{"items":[`, 100_000)), 422, true},
		"nested in items":    {signed(`{"items":` + strings.Repeat("[", 200_000)), 422, true},
		"nested unknown":     {signed(`{"x":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + `}`), 422, true},
		"no utf-8":           {signed("{\"offer_code\":\"\xc3\x28\"}"), 422, true},
		"long name":          {signed(`{"` + strings.Repeat("é", 400_000) + `":1}`), 422, true},
		"unsigned":           {head + "Content-Length: 2\r\n\r\n{}", 401, true},
		"header flood":       {head + strings.Repeat("X-Flood: 1\r\n", 100_000) + "\r\n", 0, false},
		"header of 1 MB":     {head + "X-Flood: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", 0, false},
		"address of 1 MB":    {"GET /api/v1/wallet?" + strings.Repeat("x", 1<<20) + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n", 0, false},
		"address of 60 kB":   {get("/api/v1/wallet?"+strings.Repeat("x=1&", 15_000)).text(host, h.clock.Now()), 200, true},
		"bad chunk":          {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n", 400, true},
		"chunk over its end": {head + "Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n", 400, true},
		"two lengths":        {head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, false},
		"negative length":    {head + "Content-Length: -2\r\n\r\n{}", 400, false},
		"unknown encoding":   {head + "Transfer-Encoding: gzip\r\n\r\n", 501, false},
		"no host":            {"GET /api/v1/wallet HTTP/1.1\r\n\r\n", 400, false},
		"no version":         {"GET /api/v1/wallet\r\n\r\n", 400, false},
		"broken escape":      {"GET /api/v1/wallet%zz HTTP/1.1\r\nHost: " + host + "\r\n\r\n", 400, false},
		"NUL in a header":    {head + "X-A: \x00\r\n\r\n", 400, false},
		"a TLS greeting":     {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 64) + "\r\n\r\n", 400, false},
		"HTTP/2":             {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 401, true},
		"expectation":        {head + "Expect: the-unexpected\r\nContent-Length: 2\r\n\r\n{}", 417, false},
	}
	for name, tc := range cases {
		got, err := exchange(host, tc.text, "POST")
		switch {
		case err != nil && (tc.status != 0 || isTimeout(err)):
			t.Errorf("%s: %v", name, err)
		case err == nil && (tc.status != 0 && got.status != tc.status || got.envelope != tc.envelope || tc.status == 0 && got.status < 400):
			t.Errorf("%s: %d %.300s", name, got.status, got.body)
		}
		if got := h.send(get("/api/v1/wallet")); got.Code != "ok" {
			t.Fatalf("after %s: %s", name, got.body)
		}
	}
	log.none(t)
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// A body that is shorter than its announced length is incomplete, so nothing is executed.
func TestHalfABodyExecutesNothing(t *testing.T) {
	h := start(t, nil)
	host := strings.TrimPrefix(h.s.SandboxURL(), "http://")
	text := renew(`{"duration_days":30,"proxy_ids":["px_1"]}`).text(host, h.clock.Now())
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, text[:len(text)-1]); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := readSeen(bufio.NewReader(conn), "POST"); err == nil {
		h.wantsField("half a body", got, "body")
	}
	if h.balance(h.client(alphaSandbox)) != 500000 {
		t.Error("half a body charged")
	}
}

// Pipelined requests get their replies in order.
func TestPipelinedRequests(t *testing.T) {
	h := start(t, nil)
	host := strings.TrimPrefix(h.s.SandboxURL(), "http://")
	var text strings.Builder
	const n = 60
	for i := range n {
		q := renew(fmt.Sprintf(`{"duration_days":30,"proxy_ids":["px_bulk_%d"]}`, i+1))
		if i%2 == 1 {
			q = get(fmt.Sprintf("/api/v1/proxies/px_bulk_%d", i+1))
		}
		text.WriteString(q.text(host, h.clock.Now()))
	}
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, text.String()); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for i := range n {
		got, err := readSeen(in, "POST")
		if err != nil || got.Code != "ok" || !strings.Contains(got.body, fmt.Sprintf(`"px_bulk_%d"`, i+1)) {
			t.Fatalf("reply %d: %+v %v", i, got, err)
		}
	}
	if h.balance(h.client(alphaSandbox)) != 500000-n/2*300 {
		t.Error("balance")
	}
}

// At the limit, a new connection replaces the connection with the longest idle time. A request
// that hangs during its execution keeps its connection.
func TestSlowClientsGiveWay(t *testing.T) {
	h := start(t, func(o *sandbox.Options) { o.MaxConnections = 20 })
	host := strings.TrimPrefix(h.s.SandboxURL(), "http://")
	h.fault(fault{"fault": "hang", "seconds": 600, "path": "/api/v1/proxies/renew"})
	c := h.client(alphaSandbox)
	hanging := make(chan upstream.Reply)
	go func() { hanging <- c.Post(bg(), renewal("k", "px_1")) }()
	for h.balance(c) == 500000 { // until the request is executed and hangs
	}
	var slow []net.Conn
	defer func() {
		for _, conn := range slow {
			_ = conn.Close()
		}
	}()
	for range 100 {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
		if _, err := io.WriteString(conn, "P"); err != nil {
			t.Fatal(err)
		}
		h.wants("while others are slow", h.send(get("/api/v1/wallet")), http.StatusOK, "ok")
	}
	for _, conn := range slow[:70] { // replaced by other connections, long before any timeout
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Fatalf("a slow client kept its place: %v", err)
		}
	}
	select {
	case r := <-hanging:
		t.Errorf("the hanging request lost its place: %+v", r)
	default:
	}
	if err := h.s.Close(); err != nil {
		t.Error(err)
	}
	<-hanging
}
