//go:build check

package crashtest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/queue/embedded"
)

// some is a part of the load: enough for a fault in the middle of it.
func some() crashed { return load()[:60] }

// Of several commands with the same ID, the first one counts.
func TestAHundredDuplicatesInAnyOrderAndAnotherBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	c := load()[:6]
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	all := slices.Repeat(c, 100)
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	run, line := w.run()
	all.publish(t, line.NATS)
	c.await(t, line.NATS)
	other := crashed{{id: "r0", subject: "perennial.commands.main.proxy.renew", body: []byte(`{"id":"r0","proxy_ids":["px_150"],"duration_days":60}`)}}
	other.publish(t, line.NATS)
	waitForEvent(t, line.NATS, "command.conflict", "r0")
	w.settled(run, c.ids()...)
}

// The clocks of the provider and of this machine differ by an hour, in either direction, and later
// agree again. Meanwhile nothing is charged, and the account is paused with the reason. Afterwards
// every command ends once.
func TestClocksThatJumpByAnHourMidRun(t *testing.T) {
	t.Parallel()
	for _, offset := range []int{3600, -3600} {
		t.Run(fmt.Sprint(offset), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 200)
			run, line := w.run()
			c := some()
			c.publish(t, line.NATS)
			waitForEvent(t, line.NATS, "renewal.completed", "r0")
			w.control(http.MethodPost, "/clock", fmt.Appendf(nil, `{"offset_seconds":%d}`, offset))
			late := crashed{{id: "late", subject: "perennial.commands.main.proxy.renew", body: []byte(`{"id":"late","proxy_ids":["px_190"],"duration_days":30}`)}}
			late.publish(t, line.NATS)
			waitForEvent(t, line.NATS, "account.paused", "")
			w.control(http.MethodPost, "/clock", []byte(`{"offset_seconds":0}`))
			c = append(c, late...)
			c.await(t, line.NATS)
			w.settled(run, c.ids()...)
		})
	}
}

// Every command waits, and then ends once.
func TestAKeyThatIsRevokedAndGivenBackMidRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	run, line := w.run()
	c := some()
	c.publish(t, line.NATS)
	waitForEvent(t, line.NATS, "renewal.completed", "r0")
	w.control(http.MethodPost, "/keys", fmt.Appendf(nil, `{"app_id":%q,"revoked":true}`, worldAppID))
	waitForEvent(t, line.NATS, "account.paused", "")
	w.control(http.MethodPost, "/keys", fmt.Appendf(nil, `{"app_id":%q,"revoked":false}`, worldAppID))
	c.await(t, line.NATS)
	w.settled(run, c.ids()...)
}

// The NATS server restarts with the same store.
func TestNATSStartsAnewMidRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	n := startOuterNATS(t, w)
	w.configure(n.url(), "")
	run, _ := w.run()
	c := some()
	c.publish(t, n.url())
	waitForEvent(t, n.url(), "renewal.completed", "r0")
	address, err := url.Parse(n.url())
	if err != nil {
		t.Fatal(err)
	}
	n.server.Shutdown()
	again, err := embedded.Start(embedded.Config{Listen: address.Host, StoreDir: filepath.Join(w.dir, "data", "nats")})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Shutdown()
	c.publish(t, again.URL())
	c.await(t, again.URL())
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("exit %d\n%s", code, run.stderr)
	}
	again.Shutdown()
	checkBooks(t, w, c.ids())
}

// The connection stays open, but carries no data until the lease has expired. Then it works again.
func TestAPartitionFromNATSMidRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	n := startOuterNATS(t, w)
	p := partitioned(t, n.url())
	w.configure("nats://"+p.listener.Addr().String(), "")
	run, _ := w.run()
	c := some()
	c.publish(t, n.url())
	waitForEvent(t, n.url(), "renewal.completed", "r0")
	p.way.Lock()
	n.awaitLeaseGone()
	p.way.Unlock()
	c.publish(t, n.url())
	c.await(t, n.url())
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("exit %d\n%s", code, run.stderr)
	}
	n.server.Shutdown()
	checkBooks(t, w, c.ids())
}

type partition struct {
	listener net.Listener
	target   string
	way      sync.RWMutex
}

func partitioned(t testing.TB, server string) *partition {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p := &partition{target: target.Host}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.listener.Close() })
	go func() {
		for {
			client, err := p.listener.Accept()
			if err != nil {
				return
			}
			go p.join(client)
		}
	}()
	return p
}

func (p *partition) join(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	go p.carry(server, client)
	p.carry(client, server)
}

func (p *partition) carry(to io.WriteCloser, from io.Reader) {
	defer func() { _ = to.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.way.RLock()
		_, failed := to.Write(buf[:n])
		p.way.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}
