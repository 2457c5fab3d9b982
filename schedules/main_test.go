package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/ledger/testrun"
	"perennial/queue"
	"perennial/queue/publish"
	"perennial/schedules/plans"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

func TestMain(m *testing.M) { testrun.Main(m) }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// watch is a clock that a test sets.
type watch struct {
	mu  sync.Mutex
	now time.Time
}

func (w *watch) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *watch) add(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// stream is a commands stream in memory that can fail.
type stream struct {
	mu       sync.Mutex
	commands []command.RenewalCommand
	raw      []string
	orders   []command.OrderCommand
	fail     func() error
	arrived  chan struct{}
}

func (s *stream) PublishCommands(_ context.Context, account string, out []publish.Outgoing) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(); err != nil {
			return err
		}
	}
	if account != "main" {
		return queue.ErrNoAccount
	}
	for _, o := range out {
		if o.Kind == queue.KindOrderCreate {
			var one command.OrderCommand
			if err := json.Unmarshal(o.Data, &one); err != nil {
				return err
			}
			s.orders = append(s.orders, one)
			continue
		}
		var c command.RenewalCommand
		d := json.NewDecoder(strings.NewReader(string(o.Data)))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil || o.Kind != queue.KindProxyRenew {
			return fmt.Errorf("kind %s: %w", o.Kind, err)
		}
		s.commands, s.raw = append(s.commands, c), append(s.raw, string(o.Data))
	}
	if s.arrived != nil {
		s.arrived <- struct{}{}
	}
	return nil
}

// ids returns one text per command on the stream, with the command's proxies.
func (s *stream) ids() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commands {
		ids = append(ids, strings.Join(c.ProxyIDs, " "))
	}
	return ids
}

func openLedger(t testing.TB, path string, clock func() time.Time) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path, Clock: clock})
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// rig is a sweeper with a real ledger and the real sandbox. Its clock starts at noon.
type rig struct {
	*Sweeper
	watch    *watch
	provided time.Duration // how far the provider's clock is ahead of ours
	stream   *stream
	path     string // the ledger's file
	config   Config
}

// fleet starts a sandbox with proxies that expire after the given durations; "" means never.
func fleet(t testing.TB, w *watch, expiries map[string]string) *upstream.Client {
	t.Helper()
	fixture := sandbox.DefaultFixture()
	fixture.Proxies = nil
	for id, in := range expiries {
		offer := "off_us_dallas"
		if strings.Contains(id, "_de_") {
			offer = "off_de_frankfurt"
		}
		fixture.Proxies = append(fixture.Proxies, sandbox.FixtureProxy{
			ProxyID: id, AccountID: sandbox.DemoAccountID, Environment: "sandbox", OfferCode: offer, ExpiresIn: in,
		})
	}
	return clientOf(t, w, fixture)
}

func clientOf(t testing.TB, w *watch, fixture sandbox.Fixture) *upstream.Client {
	t.Helper()
	server, err := sandbox.Start(context.Background(), sandbox.Options{Fixture: fixture, Clock: w.Now})
	check(t, err)
	t.Cleanup(func() { check(t, server.Close()) })
	client, err := upstream.New(upstream.Config{
		BaseURL: server.SandboxURL(), AppID: sandbox.DemoSandboxAppID, Secret: sandbox.DemoSandboxSecret, Clock: w.Now,
	})
	check(t, err)
	t.Cleanup(client.Close)
	return client
}

func keepalive() plans.Schedule {
	return plans.Schedule{Name: "keepalive", Account: "main", Cron: "*/15 * * * *", RenewBefore: 72 * time.Hour, DurationDays: 30}
}

func newRig(t testing.TB, expiries map[string]string, schedules ...plans.Schedule) *rig {
	t.Helper()
	h := &rig{watch: &watch{now: noon}, stream: &stream{}, path: filepath.Join(t.TempDir(), "main.ledger.db")}
	h.config = Config{
		Account: "main", Ledger: openLedger(t, h.path, h.watch.Now),
		Provider: fleet(t, h.watch, expiries), Publisher: h.stream, Clock: h.watch.Now,
		ProviderTime: func() time.Time { return h.watch.Now().Add(h.provided) }, Schedules: schedules,
	}
	h.restart(t)
	return h
}

// restart simulates a new process: the same ledger, and nothing in memory.
func (h *rig) restart(t testing.TB) {
	t.Helper()
	var err error
	h.Sweeper, err = New(h.config)
	check(t, err)
}

// facts lists the journal's types after a row, in order.
func (h *rig) facts(t testing.TB, after int64) (types []string) {
	t.Helper()
	rows, err := h.Ledger.Rows(t.Context(), after, 1000)
	check(t, err)
	for _, r := range rows {
		types = append(types, r.Type)
	}
	return types
}

// renewal records the end of a renewal of one proxy in the ledger. A failed renewal costs
// nothing.
func renewal(t testing.TB, l *ledger.Ledger, n int, id, state string, cents int64, observed time.Time) {
	t.Helper()
	name := fmt.Sprintf("earlier-%s-%d", id, n)
	ref := fact.Ref{CommandID: name, OperationID: name + "/0001"}
	status, refunded := "completed", int64(0)
	if state == "failed" {
		status, refunded = "failed", cents
	}
	facts := []fact.Fact{fact.CommandAccepted{
		Ref: fact.Ref{CommandID: name}, Kind: fact.KindRenewal, Content: json.RawMessage(`{}`), DurationDays: 30,
		Operations: []fact.Planned{{OperationID: ref.OperationID, Chunk: "0001", Generation: 1, Key: "key-" + name, ProxyIDs: []string{id}}},
	}}
	if state != "claimed" {
		facts = append(facts,
			fact.OperationSending{Ref: ref, Attempt: 1, Key: "key-" + name, Body: "{}", SentAt: observed, Observed: map[string]time.Time{id: observed}},
			fact.RenewalSettled{Ref: ref, Status: status, Attempt: 1, Lines: fact.Lines{
				ChargedCents: cents, RefundedCents: refunded,
				Items: []fact.Line{{ProxyID: id, State: fact.LineState(state), ChargedCents: cents, RefundedCents: refunded}},
			}})
	}
	check(t, l.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Append(facts...) }))
}

// unresolved records a renewal that needs review, for which the provider reports this many
// cents.
func unresolved(t testing.TB, l *ledger.Ledger, id string, cents int64) {
	t.Helper()
	renewal(t, l, 1, id, "claimed", 0, noon)
	ref := fact.Ref{CommandID: "earlier-" + id + "-1", OperationID: "earlier-" + id + "-1/0001"}
	check(t, l.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.OperationSending{Ref: ref, Attempt: 1, Key: "key-" + ref.CommandID, Body: "{}", SentAt: tx.Now()},
			fact.OperationReview{Ref: ref, Attempt: 1, Ambiguous: true, Reason: "pending", Settlement: &fact.Lines{
				ChargedCents: cents, Items: []fact.Line{{ProxyID: id, State: fact.LineUnresolved, ChargedCents: cents}},
			}})
	}))
}

// paid records what a proxy costs, with a renewal of an older expiry.
func paid(t testing.TB, l *ledger.Ledger, id string, cents int64) {
	t.Helper()
	renewal(t, l, 0, id, "succeeded", cents, noon.Add(-30*fact.Day))
}

// paid calls the function paid and advances the clock by a second, because a listing at the same
// instant would not count.
func (h *rig) paid(t testing.TB, id string, cents int64) {
	t.Helper()
	paid(t, h.Ledger, id, cents)
	h.watch.add(time.Second)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want %v", err, target)
	}
}

func want[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func px(id string, in time.Duration) tables.Proxy {
	expires := noon.Add(in)
	return tables.Proxy{ProxyID: id, CountryCode: "US", Region: "Dallas", LineName: "premium", IPType: "isp", ExpiresAt: &expires, SeenAt: noon}
}

func ids(p plans.Plan) (ids []string) {
	for _, one := range p.Included {
		ids = append(ids, one.ProxyID)
	}
	return ids
}

// why returns why a plan skips a proxy.
func why(p plans.Plan, id string) string {
	for _, out := range p.LeftOut {
		if out.ProxyID == id {
			return out.Reason
		}
	}
	return ""
}

func commandIDs(t testing.TB, p plans.Plan) (ids []string) {
	t.Helper()
	for _, raw := range p.Commands {
		var c command.RenewalCommand
		check(t, json.Unmarshal(raw, &c))
		ids = append(ids, c.ID)
	}
	return ids
}

type fake func(r upstream.PageRequest) (upstream.Page[upstream.Proxy], error)

func (f fake) ProxiesPage(_ context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	return f(r)
}

func refused(code upstream.Code) error { return &upstream.Error{HTTPStatus: 400, Code: code} }

// shown lists the ledger's proxies that are not gone.
func shown(t testing.TB, l *ledger.Ledger) (ids []string) {
	t.Helper()
	check(t, l.Fleet.Expiring(t.Context(), noon.AddDate(10, 0, 0), func(p tables.Proxy) error {
		ids = append(ids, p.ProxyID)
		return nil
	}))
	return ids
}
