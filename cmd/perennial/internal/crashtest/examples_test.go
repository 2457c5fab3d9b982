//go:build check

package crashtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"perennial/ledger/fact"
)

// richRun is a world in which example programs order and renew while the runner is killed.
type richRun struct {
	*world

	url         string
	langs       []language
	projections []*projection
	producers   map[string]*persistent
}

func newRichRun(t testing.TB) *richRun {
	t.Helper()
	r := &richRun{world: newWorld(t, 12), langs: languages(t), producers: map[string]*persistent{}}
	address := freeAddress(t) // the embedded server listens here after every start
	r.url = "nats://" + address
	r.write("nats.secret", natsPassword, 0o600)
	text, err := os.ReadFile(filepath.Join(r.dir, "perennial.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	users := fmt.Sprintf(`nats:
  listen: %s
  users:
    - {user: prod, password_file: nats.secret, roles: [{role: producer, accounts: [main]}]}
    - {user: sub, password_file: nats.secret, roles: [{role: subscriber, accounts: [main]}]}
    - {user: view, password_file: nats.secret, roles: [{role: viewer, accounts: [main]}]}
`, address)
	r.write("perennial.yaml", strings.Replace(string(text), "nats: {url: \"\", listen: 127.0.0.1:0}\n", users, 1), 0o600)
	for _, lang := range r.langs { // they find no server yet, and are restarted
		p := &projection{lang: lang, url: r.url, file: filepath.Join(r.dir, lang.name+".json")}
		p.start(t)
		r.projections = append(r.projections, p)
	}
	return r
}

// produce starts a producer, in each language in turn, that publishes a command and waits for its
// end.
func (r *richRun) produce(kind, id string, command map[string]any) {
	r.t.Helper()
	command["id"], command["duration_days"] = id, 30
	body, err := json.Marshal(command)
	if err != nil {
		r.t.Fatal(err)
	}
	lang := r.langs[len(r.producers)%len(r.langs)]
	p := &persistent{again: func() *stranger {
		return lang.as(r.t, r.url, "prod", "producer", kind, string(body))
	}}
	p.stranger = p.again()
	r.producers[id] = p
}

func (r *richRun) order(id string, quantity int, scenario string) {
	r.produce("order.create", id, map[string]any{"offer_code": "off_us_1", "quantity": quantity, "sandbox_scenario": scenario})
}

func (r *richRun) renew(id string, proxies ...string) {
	r.produce("proxy.renew", id, map[string]any{"proxy_ids": proxies, "labels": map[string]string{"team": "=blue"}})
}

// killedAt runs do until the runner kills itself at a point. Then it kills clients too.
func (r *richRun) killedAt(point string, do func()) {
	r.t.Helper()
	run := r.runUntil(point + " kill")
	var line struct{}
	run.ready(&line)
	do()
	run.awaitKilled()
	r.killClients()
}

func (r *richRun) killClients() {
	r.t.Helper()
	for _, p := range r.projections {
		p.kill()
		p.start(r.t)
	}
	for _, id := range []string{"late", "plain"} {
		if p := r.producers[id]; p != nil {
			p.kill()
		}
	}
}

// The programs of docs/events/examples order, renew, keep inventories, sum and verify. Meanwhile
// the runner with its NATS server, the inventories and the producers are killed repeatedly.
func TestTheExamplesFollowARichRunOverKills(t *testing.T) {
	t.Parallel()
	r := newRichRun(t)
	r.inDoubt()
	r.killedAt("send.received", func() {
		r.order("plain", 2, "")
		r.order("late", 3, "delayed")
	})
	r.killedAt("poll.received", func() {
		r.order("partly", 4, "partial")
		r.order("back", 2, "rejected")
		r.order("large", 230, "")
	})
	r.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "drop_after", "times": 1})
	r.killedAt("result.committed", func() {
		r.renew("some", "px_3", "px_4", "px_5", "px_6", "px_7")
		r.renew("rest", "px_10", "px_11", "px_12")
	})
	r.resolved()
	for _, id := range []string{"some", "rest"} { // one of them has met the fault
		r.producers[id].end()
	}
	r.renew("split", "px_8", "px_9", "px_nowhere") // refused with no ambiguous attempt, so that the runner splits it
	r.checkEnds()
	r.checkInventories()
	r.checkMoneyAndChain()
}

// inDoubt leaves a renewal of each language in review, because the provider's record stays
// unresolved. The test kills the runner during the first one.
func (r *richRun) inDoubt() {
	r.t.Helper()
	r.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "unresolved_record", "times": -1})
	r.killedAt("send.received", func() { r.renew("doubt", "px_1") })
	run, _ := r.run()
	r.renew("doubt-too", "px_2")
	r.rowsOf("operation.review", 2)
	run.kill()
	r.killClients()
	r.control("DELETE", "/faults", nil)
}

// resolved resolves the reviews while their producers are stopped. Their inboxes died with the
// killed server, so that the producers must ask for the end.
func (r *richRun) resolved() {
	r.t.Helper()
	doubts := []string{"doubt", "doubt-too"}
	for _, id := range doubts {
		r.producers[id].signal(syscall.SIGSTOP)
	}
	_, line := r.run()
	r.readySays(line, ready)
	for _, id := range doubts {
		r.mustCLI("review", "resolve", id, "--charged", "300", "--confirm-amount", "300", "--by", "ada", "--reason", "the wallet shows it")
	}
	r.rowsOf("operation.resolved", 2)
	for _, id := range doubts {
		r.producers[id].signal(syscall.SIGCONT)
	}
}

// rowsOf waits until the journal has count rows of a type.
func (r *richRun) rowsOf(kind string, count int) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("%d facts %s", count, kind), func() bool {
		n := 0
		for _, row := range r.journal(r.t) {
			if row.Type == kind {
				n++
			}
		}
		return n == count
	})
}

// checkEnds checks that each producer received the end of its command, in spite of the kills.
func (r *richRun) checkEnds() {
	r.t.Helper()
	want := map[string]string{
		"doubt": "resolved", "doubt-too": "resolved", "plain": "delivered", "late": "delivered", "partly": "delivered", "back": "refunded",
		"large": "delivered", "some": "completed", "split": "partial", "rest": "completed",
	}
	for id, state := range want {
		out, code := r.producers[id].end()
		if out == "" {
			r.t.Errorf("%s: exit %d, no end: %s", id, code, r.producers[id].errs.String())
			continue
		}
		end := decode[fact.CommandFinished](r.t, out)
		if good := state == "delivered" || state == "completed"; end.CommandID != id || end.State != state || (code == 0) != good {
			r.t.Errorf("%s: exit %d, %s", id, code, out)
		}
	}
}

// checkInventories compares each program's inventory with the provider's list, after the kills and
// after the loss of its file. A program refuses the file of another history.
func (r *richRun) checkInventories() {
	r.t.Helper()
	owned := map[string]time.Time{}
	for text := range strings.Lines(r.mustCLI("proxies", "list", "--live", "-o", "json")) {
		p := decode[struct {
			ProxyID   string    `json:"proxy_id"`
			ExpiresAt time.Time `json:"expires_at"`
		}](r.t, text)
		owned[p.ProxyID] = p.ExpiresAt
	}
	if len(owned) != 12+2+3+4+230 {
		r.t.Errorf("the provider lists %d proxies", len(owned))
	}
	last := r.lastOf("command.finished")
	for _, p := range r.projections {
		p.holdsAll(r.t, last, owned)
		p.kill()
		if err := os.Rename(p.file, p.file+".kept"); err != nil {
			r.t.Fatal(err)
		}
		p.start(r.t) // its consumer has acknowledged the events that the file lost
		p.holdsAll(r.t, last, owned)
		p.kill()
		text, err := os.ReadFile(p.file + ".kept")
		if err != nil {
			r.t.Fatal(err)
		}
		r.write(filepath.Base(p.file), regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(string(text), strings.Repeat("0", 64)), 0o600)
		p.start(r.t) // as after a restore that lost events
		p.refuses("is not the one")
	}
}

// answeredFor is the proxies whose renewals an operator resolved as charged.
var answeredFor = []string{"px_1", "px_2"}

// holdsAll waits until an event is in the file, and checks its proxies.
func (p *projection) holdsAll(t testing.TB, seq int64, owned map[string]time.Time) {
	t.Helper()
	p.comesTo(t, seq)
	have := map[string]time.Time{}
	for id, proxy := range p.holds().Proxies {
		switch {
		case slices.Contains(answeredFor, id): // no event carries the new expiry
			have[id] = owned[id]
		case proxy.ExpiresAt != nil:
			have[id] = *proxy.ExpiresAt
		}
	}
	if !maps.EqualFunc(have, owned, time.Time.Equal) {
		t.Errorf("%s has %d proxies of %d, or other expiries:\n%v\n%v", p.name, len(have), len(owned), have, owned)
	}
}

func (r *richRun) lastOf(kind string) (seq int64) {
	for _, row := range r.journal(r.t) {
		if row.Type == kind {
			seq = row.Seq
		}
	}
	return seq
}
