//go:build check

// The power cut of all NATS servers at once, which nothing on them outlives: commands and
// facts that were acknowledged are gone from the streams, and the ledgers are ahead.

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

// after is how long the standbys have heard nothing of the holder when all servers lose
// their power, and about how much the servers lose.
const behind = 3 * time.Second

// cutAllPower cuts the power of all servers under load. What the holder wrote in the last
// seconds is then in its ledger only. It returns the holder, before the servers start, and
// how the servers are started: one takes connections for a while before there is a quorum.
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

// sent waits until the requests that are under way are over, and fails for a key that paid
// and stands in no ledger, and for a charge that comes while there is no NATS.
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

// charged are the keys that paid; one that paid twice is an error.
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

// keysSent are the idempotency keys whose send is in the runner's ledger.
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

// publishAgain has the producer publish everything again, and checks that each command
// has been carried out once.
func (r *rig) publishAgain() {
	r.t.Helper()
	r.load.end()
	r.load.again()
	r.load.end()
	r.holder()
	r.settle()
	r.check()
}

// log is what a runner has logged.
func (o *runner) log() string {
	text, err := os.ReadFile(filepath.Join(o.rig.dir, fmt.Sprintf("runner-%d.log", o.n)))
	if err != nil {
		o.rig.t.Fatal(err)
	}
	return string(text)
}

// get is what the runner's HTTP port answers.
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

// After a power cut of all servers the runner with the longest ledger publishes what they
// lost, however long it takes them to have a quorum, and nothing is paid twice when the
// producer publishes lost commands again.
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

// Where the machine with the longest ledger lost its power too, another runner continues
// from its own. The first one then says that its history is another one, sends nothing,
// and comes back with the ledger that is made again from the events.
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
