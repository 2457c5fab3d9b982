package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/testrun"
	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/intake"
	"perennial/queue/letters"
	"perennial/queue/publish"
	"perennial/queue/streams"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

func TestMain(m *testing.M) {
	flag.DurationVar(&patience, "patience", patience, "bounds every waiting")
	checks := "200"
	if testrun.Check {
		checks = "1000"
	}
	_ = flag.Set("rapid.checks", checks) // a default: the command line may ask for more
	_ = flag.Set("test.parallel", "8")   // a default too: these tests wait more than they compute
	flag.Parse()
	testrun.Main(m)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func quiet() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// rig is a runner with real parts: the sandbox over sockets, JetStream in this process, a
// ledger on disk.
type rig struct {
	t      testing.TB
	server *sandbox.Server
	client *upstream.Client
	queue  *queue.Queue
	ledger *ledger.Ledger
	runner *Runner
	path   string
	dead   []letters.Dead
	// commands wraps the runner's commands stream, if a test needs it.
	commands func(Commands) Commands
	halt     func()             // stops the runner; does nothing the second time
	reached  func(point string) // hears of the moments named in testdata/faults, or is nil
	ahead    atomic.Int64       // nanoseconds that this machine's clock is ahead
}

func (h *rig) now() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }

// oneClock makes the client sign with the rig's clock, which later advances.
func (h *rig) oneClock(change ...func(*upstream.Config)) {
	h.t.Helper()
	c := upstream.Config{
		BaseURL: h.server.SandboxURL(), AppID: sandbox.DemoSandboxAppID, Secret: sandbox.DemoSandboxSecret, Clock: h.now,
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	h.client, err = upstream.New(c)
	check(h.t, err)
	h.t.Cleanup(h.client.Close)
}

// later advances the clocks of the rig and of the provider.
func (h *rig) later(d time.Duration) {
	h.t.Helper()
	h.control("/clock", map[string]any{"offset_seconds": int(d.Seconds())})
	h.ahead.Store(int64(d))
}

// fleet is the demonstration's account and offers, with six proxies at 300 cents and one that
// never expires.
func fleet() sandbox.Fixture {
	f := sandbox.DefaultFixture()
	f.Proxies = []sandbox.FixtureProxy{
		{Count: 6, Prefix: "px_", AccountID: sandbox.DemoAccountID, Environment: "sandbox", OfferCode: "off_us_dallas", ExpiresIn: "24h"},
		{ProxyID: "px_forever", AccountID: sandbox.DemoAccountID, Environment: "sandbox", OfferCode: "off_us_dallas"},
	}
	return f
}

func newRig(t testing.TB, change ...func(*Config)) *rig {
	t.Helper()
	h := idleRig(t, change...)
	h.start()
	return h
}

// idleRig returns a rig whose runner is bound but does not run.
func idleRig(t testing.TB, change ...func(*Config)) *rig {
	t.Helper()
	return rigOf(t, fleet(), change...)
}

// rigOf is idleRig with the given fleet.
func rigOf(t testing.TB, of sandbox.Fixture, change ...func(*Config)) *rig {
	t.Helper()
	h := &rig{t: t, path: filepath.Join(t.TempDir(), "main.ledger.db"), halt: func() {}}
	var err error
	h.server, err = sandbox.Start(context.Background(), sandbox.Options{Fixture: of, AsyncDelay: 10 * time.Millisecond, DelayedDelay: 10 * time.Millisecond})
	check(t, err)
	t.Cleanup(func() { _ = h.server.Close() })
	h.client, err = upstream.New(upstream.Config{BaseURL: h.server.SandboxURL(), AppID: sandbox.DemoSandboxAppID, Secret: sandbox.DemoSandboxSecret})
	check(t, err)
	t.Cleanup(h.client.Close)
	nats, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Log: quiet()})
	check(t, err)
	t.Cleanup(nats.Shutdown)
	h.queue, err = queue.Connect(queue.ConnectConfig{Embedded: nats, Log: quiet()})
	check(t, err)
	t.Cleanup(h.queue.Close)
	check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(t.Context(), h.queue.JetStream()))
	h.openLedger()
	h.bind(change...)
	return h
}

func (h *rig) openLedger() {
	h.t.Helper()
	var err error
	h.ledger, err = ledger.Open(context.Background(), ledger.Config{Path: h.path, Clock: h.now, BusyTimeout: 50 * time.Millisecond})
	check(h.t, err)
	opened := h.ledger
	h.t.Cleanup(func() { _ = opened.Close() })
}

func (h *rig) bind(change ...func(*Config)) {
	h.t.Helper()
	c := Config{
		Account: "main", Ledger: h.ledger, Provider: h.client, Clock: h.now, Random: func() float64 { return 0 },
		Log: logrus.NewEntry(quiet()), Version: "test", Holder: "test", RatePerSecond: 500, Concurrency: 4, DrainTimeout: 5 * time.Second,
		DeadLetter: func(_ context.Context, d letters.Dead) error { h.dead = append(h.dead, d); return nil },
	}
	for _, f := range change {
		f(&c)
	}
	h.runner = NewRunner(c)
	check(h.t, h.runner.Bind(h.t.Context()))
}

func (h *rig) start() {
	h.t.Helper()
	intake, err := intake.Open(h.t.Context(), h.queue.JetStream(), "main")
	check(h.t, err)
	h.runner.Commands = intake
	if h.commands != nil {
		h.runner.Commands = h.commands(intake)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if h.reached != nil {
		ctx = failpoint.With(ctx, h.reached)
	}
	ended := make(chan error, 1)
	go func() { ended <- h.runner.Run(ctx) }()
	h.halt = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("the runner ended with %v", err)
		}
		intake.Close()
	})
	h.t.Cleanup(h.halt)
}

// restart stops the runner, closes the ledger, and starts both again.
func (h *rig) restart(change ...func(*Config)) {
	h.t.Helper()
	h.halt()
	check(h.t, h.ledger.Close())
	h.openLedger()
	before := len(h.facts("runner.started"))
	h.bind(change...)
	h.start()
	h.until("the runner has started again", func() bool { return len(h.facts("runner.started")) > before })
}

func (h *rig) order(text string) { h.publish(queue.KindOrderCreate, text) }
func (h *rig) renew(text string) { h.publish(queue.KindProxyRenew, text) }

func (h *rig) publish(kind queue.Kind, text string) {
	h.t.Helper()
	check(h.t, publish.New(h.queue.JetStream()).Publish(h.t.Context(), "main", publish.Outgoing{Kind: kind, Data: []byte(text)}))
}

// accepts adds an accepted renewal to the ledger, as the intake does, while no runner runs.
func (h *rig) accepts(text string) fact.Planned {
	h.t.Helper()
	c, err := command.Parse(fact.KindRenewal, []byte(text), command.Rules{Environment: upstream.Sandbox})
	check(h.t, err)
	content, hash, err := c.Content()
	check(h.t, err)
	planned := c.Operations(h.runner.Binding(), c.ProxyIDs, false)
	check(h.t, h.ledger.Write(h.t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.CommandAccepted{
			Ref: fact.Ref{CommandID: c.ID}, Kind: c.Kind, ContentHash: hash, Content: content, DurationDays: c.DurationDays, Operations: planned,
		})
	}))
	return planned[0]
}

// patience limits each wait of these tests.
var patience = 2 * time.Minute

// until checks again each time the journal has grown.
func (h *rig) until(what string, done func() bool) {
	h.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		seq, _, err := h.ledger.Head(h.t.Context())
		check(h.t, err)
		if done() {
			return
		}
		select {
		case <-h.ledger.Changed(seq):
		case <-late.C:
			h.t.Fatalf("never happened: %s\njournal: %s", what, strings.Join(h.journal(), " · "))
		}
	}
}

// await waits until a command is in one of the states. It fails if the command stops in
// another state.
func (h *rig) await(id string, states ...fact.State) inspect.CommandStatus {
	h.t.Helper()
	var s inspect.CommandStatus
	h.until(id+" becomes "+string(states[0]), func() bool {
		var err error
		s, err = inspect.Status(h.t.Context(), h.ledger, id)
		return err == nil && (slices.Contains(states, fact.State(s.State)) || rests(s))
	})
	if !slices.Contains(states, fact.State(s.State)) {
		h.t.Fatalf("%s is %s and not %s: %s\njournal: %s", id, s.State, states[0], s.Reason, strings.Join(h.journal(), " · "))
	}
	return s
}

// rests reports whether no operation of the command continues automatically.
func rests(s inspect.CommandStatus) bool {
	return len(s.Operations) > 0 && !slices.ContainsFunc(s.Operations, func(o inspect.OperationStatus) bool {
		return !o.State.Ended() && o.State != fact.StateReview
	})
}

func (h *rig) awaitFact(factType string) fact.Fact {
	h.t.Helper()
	var found fact.Fact
	h.until(factType, func() bool {
		all := h.facts(factType)
		if len(all) > 0 {
			found = all[len(all)-1]
		}
		return len(all) > 0
	})
	return found
}

// rows returns all rows that a query could see before the call. The tail that Rows reads
// learns of a commit slightly after the database.
func (h *rig) rows() []chain.Row {
	h.t.Helper()
	seq, _, err := h.ledger.Head(h.t.Context())
	check(h.t, err)
	<-h.ledger.Changed(seq - 1)
	rows, err := h.ledger.Rows(h.t.Context(), 0, 10_000)
	check(h.t, err)
	return rows
}

func (h *rig) journal() (words []string) {
	for _, r := range h.rows() {
		words = append(words, r.Type+" "+r.Operation)
	}
	return words
}

func (h *rig) facts(factType string) (found []fact.Fact) {
	h.t.Helper()
	for _, r := range h.rows() {
		if r.Type == factType {
			f, err := fact.Decode(r.Type, []byte(r.Data))
			check(h.t, err)
			found = append(found, f)
		}
	}
	return found
}

func (h *rig) control(path string, body map[string]any) {
	h.t.Helper()
	text, err := json.Marshal(body)
	check(h.t, err)
	h.ask(http.MethodPost, path, text)
}

func (h *rig) ask(method, path string, body []byte) {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), method, h.server.ControlURL()+path, bytes.NewReader(body))
	check(h.t, err)
	resp, err := http.DefaultClient.Do(request)
	check(h.t, err)
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		h.t.Fatalf("%s: %s", path, answer)
	}
	http.DefaultClient.CloseIdleConnections()
}

const (
	orders = "/api/v1/orders"
	renew  = "/api/v1/proxies/renew"
)

func (h *rig) fault(path, name string, more map[string]any) {
	h.t.Helper()
	body := map[string]any{"method": "POST", "path": path, "fault": name}
	maps.Copy(body, more)
	h.control("/faults", body)
}

// settled checks at the end that the books, the referee and the provider's wallet agree to the
// cent, and that the ledger verifies.
func (h *rig) settled(charged, refunded int64) {
	h.t.Helper()
	all, err := h.server.Charges()
	check(h.t, err)
	var taken, returned int64
	for _, c := range all {
		if c.Kind == "charge" {
			taken += c.AmountCents
		} else {
			returned += c.AmountCents
		}
	}
	b, err := h.ledger.Money.Balance(h.t.Context(), "main")
	check(h.t, err)
	if taken != charged || returned != refunded || b.ChargedCents != charged || b.RefundedCents != refunded {
		h.t.Errorf("want %d charged and %d refunded; the referee says %d and %d, the ledger %+v\njournal: %s",
			charged, refunded, taken, returned, b, strings.Join(h.journal(), " · "))
	}
	w, err := h.client.Wallet(h.t.Context())
	check(h.t, err)
	if w.BalanceCents != b.WalletCents {
		h.t.Errorf("the wallet holds %d and the book %d", w.BalanceCents, b.WalletCents)
	}
	if _, err := h.ledger.Verify(h.t.Context()); err != nil {
		h.t.Error(err)
	}
}

// resumes ends every pause as an operator.
func (h *rig) resumes(by, reason string) {
	h.t.Helper()
	_, err := h.runner.ResumeByHand(h.t.Context(), by, reason, false)
	check(h.t, err)
}

// listed fills the ledger's table of proxies, as a listing does.
func (h *rig) listed() {
	h.t.Helper()
	page, err := h.client.ProxiesPage(h.t.Context(), upstream.PageRequest{Size: 50})
	check(h.t, err)
	check(h.t, h.runner.noteAll(h.t.Context(), h.now(), page.Items))
}

// someNoon is the time in tests without a clock.
var someNoon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var rulesOfSandbox = command.Rules{Environment: upstream.Sandbox}

// sentOf returns a renewal whose first attempt is in progress.
func sentOf(ids ...string) decide.Operation {
	return decide.Operation{
		Operation: fact.Operation{
			ID: "c/0001", CommandID: "c", Kind: fact.KindRenewal, Chunk: "0001", Generation: 1, Key: "k",
			State: fact.StateSending, Version: 2, Attempts: 1, AppID: "sbx_app_demo", UpdatedAt: someNoon,
		},
		DurationDays: 30, ProxyIDs: ids,
	}
}
