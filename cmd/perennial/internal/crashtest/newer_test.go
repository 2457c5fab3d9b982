//go:build check

// A rolling upgrade: a runner of a newer version writes facts that this version does not know. The
// test plays the newer runner.

package crashtest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/lease"
	"perennial/queue/outbox"
)

// newer is a runner of version 9.9.0 that leads the account. The test writes its rows.
type newer struct {
	p     *pair
	queue *queue.Queue
	js    jetstream.JetStream
	lease *lease.Lease
}

// newNewer acquires the account's lease when it is free.
func newNewer(p *pair) *newer {
	t := p.w.t
	t.Helper()
	n := &newer{p: p}
	var err error
	if n.queue, err = queue.Connect(queue.ConnectConfig{URL: p.nats.url()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.queue.Close)
	nc, js := connectTo(t, p.nats.url())
	t.Cleanup(nc.Close)
	n.js = js
	n.lease, err = lease.New(n.queue.JetStream(), 1).Acquire(t.Context(), "main", "newer", time.Second, lease.Turn{})
	for errors.Is(err, context.DeadlineExceeded) { // the server was busy for a second; a runner tries again too
		n.lease, err = lease.New(n.queue.JetStream(), 1).Acquire(t.Context(), "main", "newer", time.Second, lease.Turn{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *newer) last() events.Event {
	n.p.w.t.Helper()
	last, found, err := events.Of(n.queue.JetStream(), "main").LastRow(n.p.w.t.Context())
	if err != nil || !found {
		n.p.w.t.Fatal(found, err)
	}
	return last
}

// writes publishes a fact as the next row of the journal.
func (n *newer) writes(factType, data string) {
	t := n.p.w.t
	t.Helper()
	last := n.last()
	r := chain.Row{Seq: int64(last.Seq) + 1, Type: factType, Time: time.Now().UnixMicro(), Data: data, PrevHash: last.Hash}
	text := binary.BigEndian.AppendUint64(fact.AppendField(nil, r.PrevHash), uint64(r.Seq))
	text = binary.BigEndian.AppendUint64(fact.AppendField(text, r.Type), uint64(r.Time))
	r.Hash = fmt.Sprintf("%x", sha256.Sum256(fact.AppendField(fact.AppendField(text, r.Operation), r.Data)))
	event, err := r.Event("main")
	if err != nil {
		t.Fatal(err)
	}
	if back, err := ledger.ReadEvent(event); err != nil || back != r {
		t.Fatalf("%v\n%+v\n%+v", err, back, r)
	}
	err = outbox.New(n.queue.JetStream(), "main", nil).Publish(t.Context(), []outbox.Event{{Seq: uint64(r.Seq), Hash: r.Hash, Type: r.Type, Payload: event}})
	if err != nil {
		t.Fatal(err)
	}
}

// leaseWrites counts all writes to the lease bucket.
func (n *newer) leaseWrites() uint64 {
	n.p.w.t.Helper()
	return n.stateOf("KV_" + queue.LeaseBucket).LastSeq
}

func (n *newer) stateOf(stream string) jetstream.StreamState {
	n.p.w.t.Helper()
	s, err := n.js.Stream(n.p.w.t.Context(), stream)
	if err != nil {
		n.p.w.t.Fatal(err)
	}
	return s.CachedInfo().State
}

// refuses waits until a runner reports everywhere that a newer version wrote a row it does not
// know. The runner must have followed all rows up to head.
func (p *pair) refuses(n int, head int64, says ...string) {
	t := p.w.t
	t.Helper()
	var said string
	await(t, pairData[n]+" says "+strings.Join(says, " and "), func() bool {
		said, _ = p.w.get(p.at[n].HTTP + "/readyz?verbose")
		return !slices.ContainsFunc(says, func(text string) bool { return !strings.Contains(said, strings.Trim(fmt.Sprintf("%q", text), `"`)) })
	})
	if v := decode[daemon.Readiness](t, said); v.Ready || len(v.Accounts) != 1 || v.Accounts[0].Role != "standby" {
		t.Errorf("/readyz says %s", said)
	}
	if plain, _ := p.w.get(p.at[n].HTTP + "/readyz"); !strings.Contains(plain, says[0]) || strings.Contains(plain, "broken") {
		t.Errorf("/readyz says in words: %s", plain)
	}
	p.nodeIs(head)
}

// nodeIs waits until the only living runner reports that it follows up to a row and is not ready.
func (p *pair) nodeIs(head int64) {
	t := p.w.t
	t.Helper()
	var said string
	await(t, fmt.Sprint("nodes shows a standby with ", head, " rows that is not ready"), func() bool {
		said = p.w.mustCLI("nodes", "-o", "json")
		if strings.Count(said, "\n") != 1 {
			return false // the killed runner is still listed
		}
		account := decode[cluster.Node](t, said).Accounts[0]
		return account.Role == "standby" && !account.Ready && !account.Lease && account.Head == head
	})
}

// The newer runner writes a fact whose type or field the older runner does not know. The older
// runner then stops following, sends nothing, and does not take the lease. It says why and what to
// do, also after a restart. Commands wait.
func TestARunnerStaysAStandbyBehindANewerOne(t *testing.T) {
	t.Parallel()
	for name, row := range map[string][2]string{
		`fact type "proxy.frozen"`:                         {"proxy.frozen", `{"proxy_id":"px_1","cost_cents":100}`},
		`field "fee_cents" of fact type "ledger.recorded"`: {"ledger.recorded", `{"movement":"top-up","amount_cents":100,"by":"ada","reason":"card","fee_cents":5}`},
	} {
		t.Run(row[0], func(t *testing.T) {
			t.Parallel()
			p := newPair(t, 20)
			all := load()[:6]
			p.start(0, "")
			p.awaitRole(0, "active")
			p.start(1, "")
			p.awaitRole(1, "standby")
			all[:5].publish(t, p.nats.url())
			all[:5].await(t, p.nats.url())
			_ = p.runs[1].cmd.Process.Signal(syscall.SIGSTOP) // the newer runner must be the next leader
			p.runs[0].kill()
			n := newNewer(p)
			n.writes("runner.started", `{"version":"9.9.0","holder":"newer","recovered":0}`)
			head := int64(n.last().Seq)
			n.writes(row[0], row[1])
			_ = p.runs[1].cmd.Process.Signal(syscall.SIGCONT)
			p.refusesBehind(n, head, name, all[5:])
		})
	}
}

// refusesBehind checks that the second runner does not work, whether the newer runner is alive or
// not, and that no command is lost.
func (p *pair) refusesBehind(n *newer, head int64, what string, commands crashed) {
	t := p.w.t
	t.Helper()
	says := []string{fmt.Sprintf("a newer version of the program wrote row %d", head+1), what + " is not known to this one", "9.9.0", "Install"}
	p.refuses(1, head, says...)
	charged, _ := checkReferee(t, p.w.charges)
	commands.publish(t, p.nats.url())
	if err := n.lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	written := n.leaseWrites()
	tries := func() int { return strings.Count(p.runs[1].stderr.String(), "cannot be followed now") }
	before := tries()
	await(t, "it tries to follow again", func() bool { return tries() >= before+2 })
	if after := n.leaseWrites(); after != written {
		t.Errorf("a runner that cannot work wrote the lease %d times", after-written)
	}
	p.refuses(1, head, says...)
	if code := p.runs[1].terminate(); code != cli.ExitDone {
		t.Errorf("it ended with code %d\n%s", code, p.runs[1].stderr)
	}
	p.start(1, "") // the lease is free
	p.refuses(1, head, says...)
	if code := p.runs[1].terminate(); code != cli.ExitDone {
		t.Errorf("it ended with code %d\n%s", code, p.runs[1].stderr)
	}
	if last := int64(n.last().Seq); last != head+1 {
		t.Errorf("the stream ends with row %d, and not with the newer one's, %d", last, head+1)
	}
	if now, _ := checkReferee(t, p.w.charges); now != charged {
		t.Errorf("%d cents were charged behind the newer one's row", now-charged)
	}
	if waiting := n.stateOf(queue.CommandsStream("main")).Msgs; waiting < uint64(len(commands)) {
		t.Errorf("%d of %d commands wait", waiting, len(commands))
	}
	if at := p.verified(pairData[1]); at.Seq != head {
		t.Errorf("the ledger ends with %s", at)
	}
	p.w.reconfigure("data_dir: ./data", "data_dir: ./"+pairData[1])
	out := p.w.mustCLI("ledger", "verify", "--against-events", "-o", "json")
	var v struct {
		NotHere int64 `json:"not_here"`
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.NotHere != 1 {
		t.Errorf("%v: %s", err, out)
	}
}
