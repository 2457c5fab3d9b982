//go:build check

// The rig is a sandbox, three NATS servers and N runners with one configuration. Each process logs
// to a file in one directory, which stays after a failure.

package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger/disktest"
	"perennial/queue"
)

const (
	appID   = "sbx_app_alpha"
	secret  = "canary-secret-7Qm2"
	proxies = 3000 // px_1 …, all renewable
)

type rig struct {
	t        *testing.T
	ctx      context.Context
	dir      string
	sandbox  cli.SandboxReadyLine
	charges  string
	provider *door
	nats     *cluster
	runners  []*runner
	queue    *queue.Queue // of a client that no fault cuts off
	js       jetstream.JetStream
	load     *load
	stream   tail
	versions *versions

	inherited  map[string][]string // keys of commands that a new leader retries only after ten minutes
	clocksWere time.Duration       // the largest change of a runner's clock
}

// runner is `perennial run` in one data directory.
type runner struct {
	rig   *rig
	n     int
	doors [servers]*door
	disk  *disktest.Disk // of its ledger
	shift time.Duration  // of its wall clock, see shiftClock
	url   string
	line  daemon.ReadyLine
	other string // the path of its version, "" for this version
	*process
}

func newRig(t *testing.T, runners int) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "clustertest-") //nolint:usetesting // it is kept after a failure
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, ctx: t.Context(), dir: dir, charges: filepath.Join(dir, "charges.jsonl"), inherited: map[string][]string{}, versions: newVersions(t, runners)}
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir)
		}
	})
	r.write("main.secret", secret)
	r.startSandbox()
	r.nats = newCluster(t, dir)
	r.connect()
	shifts := drawnShifts(t, runners)
	for n := range runners {
		one := &runner{rig: r, n: n, disk: disktest.New(t, "ledger."), shift: shifts[n]}
		one.doors, one.url = r.nats.clientDoors()
		r.runners = append(r.runners, one)
		one.start()
	}
	t.Cleanup(r.dumpOnFailure)
	r.load = newLoad(r)
	r.stream = newTail()
	r.holder()
	return r
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) startSandbox() {
	r.t.Helper()
	r.write("fixture.yaml", fmt.Sprintf(`
accounts:
  - account_id: acc_alpha
    email: alpha@example.com
    wallet: {currency: USD, sandbox_cents: 500000000, production_cents: 1000}
    keys:
      - {app_id: %s, secret: %q}
offers:
  - {offer_code: off_us_1, name: US static, country_code: US, country_name: United States, region: Dallas, line_name: premium,
     ip_type: isp, protocol: socks5, unit_price_cents: 300, base_duration_days: 30, duration_days: [30, 60, 90],
     max_quantity: 500, cidrs: ["198.51.100.0/24"], stock: 1000000}
proxies:
  - {count: %d, prefix: px_, account_id: acc_alpha, environment: sandbox, offer_code: off_us_1, expires_in: 24h..240h}
`, appID, secret, proxies))
	start(r.t, r.dir, "sandbox.log", "sandbox", "--db", "sandbox.db", "--fixture", "fixture.yaml", "--charges", r.charges).ready(r.t, &r.sandbox)
	r.provider = newDoor(r.t)
	r.provider.delay = 20 * time.Millisecond
	r.provider.to(strings.TrimPrefix(r.sandbox.Sandbox, "http://"))
}

func (r *rig) connect() {
	r.t.Helper()
	_, url := r.nats.clientDoors()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(nc.Close)
	if r.js, err = jetstream.New(nc); err != nil {
		r.t.Fatal(err)
	}
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	if r.queue, err = queue.Connect(queue.ConnectConfig{URL: url, Log: quiet}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.queue.Close)
	// JetStream creates a stream with three copies only if all three servers run.
	if !await(r.ctx, patience, func() bool {
		ctx, cancel := context.WithTimeout(r.ctx, 2*time.Second)
		defer cancel()
		_, err = r.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "RIG", Subjects: []string{"rig"}, Replicas: servers})
		return err == nil
	}) {
		r.t.Fatalf("the three servers are no cluster: %v; logs in %s", err, r.dir)
	}
}

func (r *rig) pids() (pids []int) {
	for _, one := range r.runners {
		if p := one.process; p != nil && p.running() {
			pids = append(pids, p.cmd.Process.Pid)
		}
	}
	return pids
}

func (o *runner) data() string   { return filepath.Join(o.rig.dir, fmt.Sprintf("data-%d", o.n)) }
func (o *runner) config() string { return fmt.Sprintf("runner-%d.yaml", o.n) }

func (o *runner) start() {
	r := o.rig
	r.t.Helper()
	r.write(o.config(), fmt.Sprintf(`
data_dir: %s
nats: {url: %q}
http: {listen: 127.0.0.1:0}
accounts:
  main:
    base_url: http://%s
    app_id: %s
    secret_file: main.secret
    rate_per_second: 1000
    concurrency: 8
    replicas: 3
`, o.data(), o.url, r.provider.address(), appID))
	o.other = r.versions.draw(o.n, o.process == nil)
	o.process = startWith(r.t, o.other, append(o.disk.Untraced(), o.clock()...), r.dir, fmt.Sprintf("runner-%d.log", o.n), "run", "--json", "--config", o.config())
	r.provider.know(o.cmd.Process.Pid) // before it connects
	o.ready(r.t, &o.line)
}

// role returns the runner's role for the account, and whether it is ready. The role is "" if the
// runner does not answer.
func (o *runner) role() (role string, ready bool) {
	if !o.running() {
		return "", false
	}
	ctx, cancel := context.WithTimeout(o.rig.ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.line.HTTP+"/readyz?verbose", nil)
	if err != nil {
		return "", false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", false
	}
	defer func() { _ = response.Body.Close() }()
	var said daemon.Readiness
	if json.NewDecoder(response.Body).Decode(&said) != nil || len(said.Accounts) != 1 {
		return "", false
	}
	return said.Accounts[0].Role, said.Ready
}

// holder waits until exactly one runner leads the account.
func (r *rig) holder() (holder *runner) {
	r.t.Helper()
	if !await(r.ctx, patience, func() bool {
		var active []*runner
		for _, one := range r.runners {
			if role, ready := one.role(); role == "active" && ready {
				active = append(active, one)
			}
		}
		if len(active) != 1 {
			return false
		}
		holder = active[0]
		return true
	}) {
		r.t.Fatalf("after %s not exactly one runner is active and ready; logs in %s", patience, r.dir)
	}
	return holder
}

// standby returns a runner that is not the leader, or the only runner.
func (r *rig) standby() *runner {
	holder := r.holder()
	for _, one := range r.runners {
		if one != holder {
			return one
		}
	}
	return holder
}

// dumpOnFailure makes the runners write their goroutines to their logs.
func (r *rig) dumpOnFailure() {
	if !r.t.Failed() {
		return
	}
	r.t.Logf("logs and data are kept in %s; -cluster.seed %d", r.dir, *seed)
	for _, one := range r.runners {
		if one.process != nil && one.running() {
			one.signal(syscall.SIGCONT)
			one.signal(syscall.SIGQUIT)
			one.ended(5 * time.Second)
		}
	}
}
