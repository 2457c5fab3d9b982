// One user cannot block another: a second user still works while one user takes all it can get.

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger/testrun"
	"perennial/queue"
)

// greed is a run, and a user who takes all it can get of it.
type greed struct {
	w    *world
	run  *process
	line daemon.ReadyLine
	end  chan struct{} // closed when the test ends
}

// A producer floods without waiting, with an inbox for each message. At the same time a webhook
// hangs, a browser opens many pages, and many connections are opened. The run still executes and
// answers another user's command, and answers health checks.
func TestOneUserLeavesRoomForAnother(t *testing.T) {
	t.Parallel()
	g := newGreed(t)
	flood := 2000
	if testrun.Check {
		flood = 20_000
	}
	defer g.takesAll(flood)()
	g.works("calm", "px_1")
	g.w.readySays(g.line, ready)
	if lines := strings.Count(g.run.stderr.String(), "\n"); lines > 100 {
		t.Errorf("%d lines of log", lines)
	}
}

// BenchmarkAnotherUsersWait measures the time from the publication of a renewal to its answer,
// while another user takes all it can get. The limit is 2 s.
func BenchmarkAnotherUsersWait(b *testing.B) {
	g := newGreed(b)
	defer g.takesAll(math.MaxInt)()
	n, longest := 0, time.Duration(0)
	for b.Loop() {
		began := time.Now()
		g.works(fmt.Sprint("calm-", n), fmt.Sprint("px_", n%4+1))
		n, longest = n+1, max(longest, time.Since(began))
	}
	b.ReportMetric(longest.Seconds(), "s/longest")
}

// takesAll uses everything that one user can get, until stop is called.
func (g *greed) takesAll(messages int) (stop func()) {
	greedy := g.w.as(g.line, "greedy")
	g.opensPages()
	g.opensHTTP(700)
	g.opensNATS()
	ctx, cancel := context.WithCancel(g.w.t.Context())
	var all sync.WaitGroup
	all.Go(func() { g.flood(ctx, greedy, messages) })
	return func() { cancel(); all.Wait() }
}

func newGreed(t testing.TB) *greed {
	t.Helper()
	g := &greed{w: newWorld(t, 4), end: make(chan struct{})}
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-g.end }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(g.end) })
	g.w.write("hook.secret", hookSecret, 0o600)
	g.w.write("nats.secret", natsPassword, 0o600)
	g.w.configure("", fmt.Sprintf("webhooks:\n  - {name: hangs, url: %q, secret_file: hook.secret, timeout: 5s}\n", hangs.URL))
	const producer = "password_file: nats.secret, roles: [{role: producer, accounts: [main]}]}"
	g.w.reconfigure("listen: 127.0.0.1:0}\nhttp", "listen: 127.0.0.1:0, users: [{user: greedy, "+producer+", {user: calm, "+producer+"]}\nhttp")
	g.run, g.line = g.w.run()
	g.w.readySays(g.line, ready)
	g.w.fault(map[string]any{"method": "POST", "path": "/api/v1/orders", "fault": "hang", "seconds": 600})
	return g
}

// flood publishes six commands repeatedly, whose provider requests hang. Each message names a new
// inbox for the answer. Five commands already have as many inboxes as one user may have.
func (g *greed) flood(ctx context.Context, greedy *role, messages int) {
	inbox := nats.NewInbox()
	if _, err := greedy.SubscribeSync(inbox + ".*"); err != nil {
		g.w.t.Error(err)
	}
	for n := 0; n < messages && ctx.Err() == nil; n++ {
		m := nats.NewMsg("perennial.commands.main.order.create")
		m.Data = fmt.Appendf(nil, `{"id":"hangs-%d","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":1}]}`, n%6)
		m.Header.Set(queue.HeaderReplyTo, fmt.Sprint(inbox, ".", n))
		if err := greedy.PublishMsg(m); err != nil {
			g.w.t.Error(err)
		}
	}
}

// opensPages follows changes on more pages than a user may have open.
func (g *greed) opensPages() {
	t := g.w.t
	t.Helper()
	b, open := g.w.browser(), 0
	for range 30 {
		response, err := b.Get(g.line.HTTP + "/changes")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		if response.StatusCode == http.StatusOK {
			open++
		}
	}
	if open != 20 {
		t.Errorf("%d pages are followed", open)
	}
}

// opensHTTP opens idle connections. The server closes the oldest for the newest.
func (g *greed) opensHTTP(connections int) {
	t := g.w.t
	t.Helper()
	var first net.Conn
	for range connections {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.line.HTTP, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if first == nil {
			first = c
		}
	}
	_ = first.SetReadDeadline(time.Now().Add(patience))
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the first idle connection stays: %v", err)
	}
}

func (g *greed) opensNATS() {
	t := g.w.t
	t.Helper()
	at := "nats://" + g.line.NATS[strings.LastIndexAny(g.line.NATS, "/@")+1:]
	for range 1000 {
		nc, err := nats.Connect(at, nats.UserInfo("greedy", natsPassword))
		if err != nil {
			return
		}
		t.Cleanup(nc.Close)
	}
	t.Error("a user has a thousand connections")
}

// works renews a proxy as the user calm, and waits for the answer at its inbox.
func (g *greed) works(id, proxy string) {
	t := g.w.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	calm := g.w.as(g.line, "calm")
	answer, err := calm.SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg("perennial.commands.main.proxy.renew")
	m.Data = fmt.Appendf(nil, `{"id":%q,"duration_days":30,"proxy_ids":[%q]}`, id, proxy)
	m.Header.Set(queue.HeaderReplyTo, answer.Subject)
	await(t, "the other user's command is stored", func() bool {
		_, err := calm.js.PublishMsg(ctx, m) // refused while the stream buffers as much as it may
		return err == nil
	})
	said, err := answer.NextMsgWithContext(ctx)
	if err != nil || !strings.Contains(string(said.Data), `"state":"completed"`) {
		t.Fatalf("%v: %s", err, said.Data)
	}
}
