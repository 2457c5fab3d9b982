package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/testrun"
	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/events"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

func kills() int {
	if testrun.Check {
		return 55
	}
	return 5
}

// producer publishes commands with a plain NATS client. It publishes again until it gets an
// acknowledgement.
type producer struct {
	w        *world
	random   *rand.Rand
	commands []*published
	proxies  int
	limit    int
}

type published struct {
	id, subject string
	body        []byte
	acked       int
}

func (p *producer) ids() []string {
	ids := make([]string, 0, len(p.commands))
	for _, c := range p.commands {
		ids = append(ids, c.id)
	}
	return ids
}

// next returns a new command: an order in some sandbox scenario, or a renewal of new proxies.
func (p *producer) next() *published {
	id := fmt.Sprintf("cmd-%d", len(p.commands)+1)
	c := &published{id: id, subject: "perennial.commands.main.order.create"}
	switch p.random.IntN(5) {
	case 0:
		c.body = fmt.Appendf(nil, `{"id":%q,"duration_days":30,"items":[{"offer_code":"off_us_1","quantity":%d}],"sandbox_scenario":"rejected"}`, id, 1+p.random.IntN(3))
	case 1:
		c.body = fmt.Appendf(nil, `{"id":%q,"duration_days":60,"items":[{"offer_code":"off_us_1","quantity":%d}]}`, id, 1+p.random.IntN(3))
	default:
		c.subject = "perennial.commands.main.proxy.renew"
		ids := make([]string, 1+p.random.IntN(3))
		for i := range ids {
			p.proxies++
			ids[i] = fmt.Sprintf("px_%d", p.proxies)
		}
		text, _ := json.Marshal(map[string]any{"id": id, "proxy_ids": ids, "duration_days": 30})
		c.body = text
	}
	p.commands = append(p.commands, c)
	return c
}

// publishUntil publishes until stop: new commands, unacknowledged commands and duplicates.
func (p *producer) publishUntil(url string, stop <-chan time.Time) {
	nc, js := connectTo(p.w.t, url)
	defer nc.Close()
	for {
		select {
		case <-stop:
			return
		default:
		}
		c := p.pick()
		ctx, cancel := context.WithTimeout(p.w.t.Context(), 5*time.Second)
		if _, err := js.Publish(ctx, c.subject, c.body); err == nil {
			c.acked++
		}
		cancel()
	}
}

// newPerKill is the number of new commands between two kills. Some are always in progress, and the
// test stays short on a fast machine.
const newPerKill = 12

func (p *producer) pick() *published {
	if len(p.commands) == 0 || (len(p.commands) < p.limit && p.random.IntN(2) == 0) {
		return p.next()
	}
	return p.commands[p.random.IntN(len(p.commands))]
}

// publishRest publishes everything once more, so that no command is missing and each one has a
// duplicate.
func (p *producer) publishRest(url string) {
	nc, js := connectTo(p.w.t, url)
	defer nc.Close()
	for _, c := range p.commands {
		if _, err := js.Publish(p.w.t.Context(), c.subject, c.body); err != nil {
			p.w.t.Fatalf("publish %s: %v", c.id, err)
		}
	}
}

func (p *producer) waitForAll(url string) {
	p.w.t.Helper()
	for id, status := range p.w.ends(url, p.ids()...) {
		if status.State == "review" {
			p.w.t.Fatalf("%s is in review: %s", id, status.Reason)
		}
	}
}

// longestBackoff is the longest wait between two attempts. On a slow machine a command reaches it,
// because it is killed or loses its reply often enough.
const longestBackoff = 5 * time.Minute

// ends waits until these commands have ended, and returns their states.
func (w *world) ends(url string, ids ...string) map[string]inspect.CommandStatus {
	w.t.Helper()
	q, err := queue.Connect(queue.ConnectConfig{URL: url})
	if err != nil {
		w.t.Fatal(err)
	}
	defer q.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience+longestBackoff)
	defer cancel()
	all := map[string]inspect.CommandStatus{}
	for _, id := range ids {
		status, err := endOf(ctx, q, id)
		if err != nil {
			w.t.Fatalf("%s did not end: %v", id, err)
		}
		all[id] = status
	}
	return all
}

func connectTo(t testing.TB, url string) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// checkBooks compares what the stopped runner left on disk: ledger, referee, wallet and events.
func checkBooks(t testing.TB, w *world, ids []string) {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(w.dir, "data", "main.ledger.db"), Clock: time.Now, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if _, err := l.Verify(t.Context()); err != nil {
		t.Errorf("verify: %v", err)
	}
	book, err := l.Money.Balance(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	w.control("GET", "/charges", nil) // lets the sandbox finish what is due
	charged, refunded := checkReferee(t, w.charges)
	client, err := upstream.New(upstream.Config{BaseURL: w.sandbox.Sandbox, AppID: worldAppID, Secret: worldSecret, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	wallet, err := client.Wallet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if book.ChargedCents != charged || book.RefundedCents != refunded || book.WalletCents != wallet.BalanceCents {
		t.Errorf("ledger: charged %d refunded %d wallet %d\nreferee: charged %d refunded %d\nprovider: wallet %d",
			book.ChargedCents, book.RefundedCents, book.WalletCents, charged, refunded, wallet.BalanceCents)
	}
	ends := checkEvents(t, w, l, book.Head)
	for _, id := range ids {
		if ends[id] != 1 {
			t.Errorf("command %s ended %d times", id, ends[id])
		}
	}
}

// checkReferee sums the sandbox's own charges, and fails the test if one was charged twice.
func checkReferee(t testing.TB, file string) (charged, refunded int64) {
	t.Helper()
	charges, err := sandbox.ReadCharges(file)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range charges {
		what := c.Kind + " " + c.IdempotencyKey + " " + c.ProxyID
		if seen[what] {
			t.Errorf("the referee has two of: %s", what)
		}
		seen[what] = true
		if c.Kind == "refund" {
			refunded += c.AmountCents
		} else {
			charged += c.AmountCents
		}
	}
	return charged, refunded
}

// checkEvents reads the events stream from the stopped runner's disk, checks it against the
// journal, and counts the end events of each command.
func checkEvents(t testing.TB, w *world, l *ledger.Ledger, head chain.Head) map[string]int {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: filepath.Join(w.dir, "data", "nats")})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	q, err := queue.Connect(queue.ConnectConfig{Embedded: server})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	ends := map[string]int{}
	begin, err := l.EventsBegin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seq := begin - 1
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for e, err := range events.Of(q.JetStream(), "main").Follow(ctx, events.From{Seq: 1}) {
		if err != nil {
			t.Fatalf("after event %d of %d: %v", seq, head.Seq, err)
		}
		seq++
		row, err := l.Row(t.Context(), seq)
		if err != nil || int64(e.Seq) != seq || e.Hash != row.Hash || e.Type != row.Type {
			t.Fatalf("event %d (%s, %s) is not journal row %d (%s, %s): %v", e.Seq, e.Type, e.Hash, row.Seq, row.Type, row.Hash, err)
		}
		if e.Type == "command.finished" {
			ends[commandIn(e)]++
		}
		if strings.Contains(string(e.Data), worldSecret) {
			t.Errorf("event %d carries the secret", e.Seq)
		}
		if seq == head.Seq {
			break
		}
	}
	return ends
}
