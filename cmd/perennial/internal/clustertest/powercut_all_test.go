//go:build check

// A simultaneous power cut of all NATS servers. The streams lose acknowledged commands and facts,
// and the ledgers are ahead of them.

package clustertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/upstream/sandbox"
)

// behind is how long the standbys are cut off before all servers lose their power. The servers lose
// about that much.
const behind = 3 * time.Second

// cutAllPower cuts the power of all servers under load, so that only the leader's ledger has the
// rows of the last seconds. It returns the leader, and a function that starts the servers: one
// server accepts connections for the time alone before there is a quorum.
func (r *rig) cutAllPower() (holder *runner, start func(alone time.Duration)) {
	r.t.Helper()
	r.load.begin()
	r.underLoad()
	holder = r.holder()
	for _, one := range r.runners {
		if one != holder {
			one.set(cut)
		}
	}
	r.nats.keepSynced(0, 1, 2)
	before := len(holder.rowsAfter(0))
	r.lasts(behind)
	if after := len(holder.rowsAfter(0)); after < before+10 {
		r.t.Fatalf("the holder has %d rows behind the moment to which the servers fall back, %d before it: nothing is lost; logs in %s", after-before, before, r.dir)
	}
	for i := range servers {
		r.nats.kill(i)
	}
	return holder, func(alone time.Duration) {
		r.t.Helper()
		for _, one := range r.runners {
			one.set(open)
		}
		r.nats.fallBack(0)
		r.lasts(alone)
		r.nats.fallBack(1, 2)
		r.stream = newTail()
	}
}

// sent waits until the requests in progress have ended. The test fails if a key that paid is in no
// ledger, or if a charge arrives while NATS is down.
func (r *rig) sent() {
	r.t.Helper()
	r.lasts(2 * time.Second) // longer than a request and its answer take
	charges := r.charged()
	r.lasts(2 * time.Second)
	if later := r.charged(); len(later) != len(charges) {
		r.t.Errorf("%d keys had paid when NATS was gone, and %d two seconds later", len(charges), len(later))
	}
	known := map[string]bool{}
	for _, one := range r.runners {
		for key := range one.keysSent() {
			known[key] = true
		}
	}
	for key := range charges {
		if !known[key] {
			r.t.Errorf("the key %s paid, and no ledger has its send", key)
		}
	}
}

// charged returns the keys that paid. A key that paid twice is an error.
func (r *rig) charged() map[string]bool {
	r.t.Helper()
	charges, err := sandbox.ReadCharges(r.charges)
	if err != nil {
		r.t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, c := range charges {
		if c.Kind == "charge" {
			keys[c.IdempotencyKey] = true
		}
	}
	return keys
}

// keysSent returns the idempotency keys of all sends in the runner's ledger.
func (o *runner) keysSent() map[string]bool {
	o.rig.t.Helper()
	l, err := ledger.Open(o.rig.ctx, ledger.Config{Path: filepath.Join(o.data(), "main.ledger.db"), Clock: time.Now, ReadOnly: true})
	if err != nil {
		o.rig.t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	keys := map[string]bool{}
	for after := int64(0); ; {
		page, err := l.Rows(o.rig.ctx, after, 1000)
		if err != nil {
			o.rig.t.Fatal(err)
		}
		if len(page) == 0 {
			return keys
		}
		for _, p := range page {
			after = p.Seq
			if _, rest, found := strings.Cut(p.Data, `"idempotency_key":"`); found && p.Type == "operation.sending" {
				key, _, _ := strings.Cut(rest, `"`)
				keys[key] = true
			}
		}
	}
}

// publishAgain publishes every command again, and checks that each was executed once.
func (r *rig) publishAgain() {
	r.t.Helper()
	r.load.end()
	r.load.again()
	r.load.end()
	r.holder()
	r.settle()
	r.check()
}

// log returns the runner's log.
func (o *runner) log() string {
	text, err := os.ReadFile(filepath.Join(o.rig.dir, fmt.Sprintf("runner-%d.log", o.n)))
	if err != nil {
		o.rig.t.Fatal(err)
	}
	return string(text)
}

// get returns the answer of the runner's HTTP port.
func (o *runner) get(path string) string {
	ctx, cancel := context.WithTimeout(o.rig.ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.line.HTTP+path, nil)
	if err != nil {
		return err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return string(text)
}

// After a power cut of all servers, the runner with the longest ledger publishes the lost rows,
// however late the servers have a quorum. Nothing is paid twice when the producer publishes lost
// commands again.
func TestAPowerCutOfAllServersIsRefilledFromTheLongestLedger(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	longest, start := r.cutAllPower()
	r.sent()
	rows := longest.rowsAfter(0)
	start(10 * time.Second)
	r.publishAgain()
	if !strings.Contains(longest.log(), "the stream has lost rows that it had acknowledged") {
		t.Errorf("runner %d did not log that the stream had lost rows", longest.n)
	}
	for i, row := range rows {
		if r.stream.rows[i] != row {
			t.Fatalf("row %d is %v in the longest ledger and %v on the stream: another ledger was published", i+1, row, r.stream.rows[i])
		}
	}
	r.finish()
}

// The leader, which has the longest ledger, loses its power too, and another runner continues from
// its own ledger. When the first runner returns, it reports a different history and sends nothing.
// After its ledger file is moved away, it rebuilds the ledger from the events.
func TestAPowerCutOfAllServersAndOfTheHolder(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	longest, start := r.cutAllPower()
	r.sent()
	longest.kill()
	start(0)
	r.publishAgain()

	before := len(r.charged())
	longest.start()
	var text string
	if !await(r.ctx, patience, func() bool {
		text = longest.get("/readyz")
		return strings.Contains(text, "move its ledger file away and keep it")
	}) {
		t.Fatalf("/readyz of a runner with another history says %q; logs in %s", text, r.dir)
	}
	if after := len(r.charged()); after != before {
		t.Errorf("%d keys had paid before the runner with another history started, %d after", before, after)
	}
	if code := longest.terminate(); code != 0 {
		t.Errorf("runner %d: exit %d", longest.n, code)
	}
	file := filepath.Join(longest.data(), "main.ledger.db")
	if err := os.Rename(file, filepath.Join(r.dir, "kept.ledger.db")); err != nil {
		t.Fatal(err)
	}
	longest.start()
	r.publishAgain()
	r.finish()
}
