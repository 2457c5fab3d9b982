package crashtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/testrun"
)

// pair is two runners of one account on an external NATS server.
type pair struct {
	w    *world
	nats *natsProcess
	runs [2]*process
	at   [2]daemon.ReadyLine
}

var pairData = [2]string{"data", "data-2"}

func newPair(t testing.TB, proxies int) *pair {
	t.Helper()
	w := newWorld(t, proxies)
	p := &pair{w: w, nats: newNATSProcess(t, w)}
	p.nats.start("pw")
	p.nats.shortLeases()
	w.configure(p.nats.url(), "")
	return p
}

// start starts a runner with a point at which it kills or stops itself, "" for none.
func (p *pair) start(n int, crash string) {
	p.w.t.Helper()
	var env []string
	if crash != "" {
		env = []string{crashVariable + "=" + crash}
	}
	p.startWith(n, env...)
}

// startWith starts a runner with extra environment variables.
func (p *pair) startWith(n int, env ...string) {
	p.w.t.Helper()
	p.runs[n] = startIn(p.w.t, p.w.dir, env, "run", "--data", pairData[n])
	p.runs[n].ready(&p.at[n])
}

// role returns a runner's role from /readyz, "" while the runner is not ready.
func (p *pair) role(n int) string {
	text, err := p.w.get(p.at[n].HTTP + "/readyz?verbose")
	var v daemon.Readiness
	if err != nil || json.Unmarshal([]byte(text), &v) != nil || !v.Ready || len(v.Accounts) != 1 {
		return ""
	}
	return v.Accounts[0].Role
}

func (p *pair) awaitRole(n int, role string) {
	p.w.t.Helper()
	p.awaitOf(n, pairData[n]+" is "+role, func() bool { return p.role(n) == role })
}

// awaitOf waits for a condition on a runner, and logs the runner's state if it never holds.
func (p *pair) awaitOf(n int, what string, is func() bool) {
	p.w.t.Helper()
	defer func() {
		if p.w.t.Failed() {
			said, _ := p.w.get(p.at[n].HTTP + "/readyz?verbose")
			_ = p.runs[n].cmd.Process.Signal(syscall.SIGQUIT)
			_ = p.runs[n].wait()
			p.w.t.Logf("%s says %s\n%s", pairData[n], said, p.runs[n].stderr)
		}
	}()
	await(p.w.t, what, is)
}

// sameBooks stops both runners, the leader last. It checks that both ledgers are complete and hold
// one history, which agrees with the provider.
func (p *pair) sameBooks(ids []string) {
	p.w.t.Helper()
	for n := range p.runs {
		if p.runs[n] == nil {
			p.start(n, "")
		}
	}
	await(p.w.t, "one works and the other follows", func() bool {
		one, two := p.role(0), p.role(1)
		return one == "active" && two == "standby" || one == "standby" && two == "active"
	})
	if p.role(0) == "active" {
		p.handOver(0, 1)
		p.start(0, "")
		p.awaitRole(0, "standby")
	}
	p.handOver(1, 0)
	if code := p.runs[0].terminate(); code != cli.ExitDone {
		p.w.t.Errorf("%s ended with code %d\n%s", pairData[0], code, p.runs[0].stderr)
	}
	p.sameHistory()
	p.nats.kill()
	checkBooks(p.w.t, p.w, ids)
}

// handOver stops one runner with SIGTERM, and waits until the other one leads.
func (p *pair) handOver(from, to int) {
	p.w.t.Helper()
	if code := p.runs[from].terminate(); code != cli.ExitDone {
		p.w.t.Errorf("%s ended with code %d\n%s", pairData[from], code, p.runs[from].stderr)
	}
	p.awaitRole(to, "active")
}

// sameHistory checks that both ledgers are complete, and that the first one, which ran last,
// contains the history of the other.
func (p *pair) sameHistory() {
	p.w.t.Helper()
	last, behind := p.verified(pairData[0]), p.verified(pairData[1])
	if hash := p.hashAt(pairData[0], behind.Seq); hash != behind.Hash {
		p.w.t.Errorf("the ledgers end with %s and %s, and are not one history", last, behind)
	}
}

func (p *pair) open(dir string) *ledger.Ledger {
	p.w.t.Helper()
	l, err := ledger.Open(p.w.t.Context(), ledger.Config{Path: filepath.Join(p.w.dir, dir, "main.ledger.db"), Clock: time.Now, ReadOnly: true})
	if err != nil {
		p.w.t.Fatal(err)
	}
	return l
}

func (p *pair) verified(dir string) chain.Head {
	p.w.t.Helper()
	l := p.open(dir)
	defer func() { _ = l.Close() }()
	v, err := l.Verify(p.w.t.Context())
	if err != nil {
		p.w.t.Errorf("%s: %v", dir, err)
	}
	return v.Head
}

func (p *pair) hashAt(dir string, seq int64) string {
	p.w.t.Helper()
	l := p.open(dir)
	defer func() { _ = l.Close() }()
	row, err := l.Row(p.w.t.Context(), seq)
	if err != nil {
		p.w.t.Errorf("%s: row %d: %v", dir, seq, err)
	}
	return row.Hash
}

// differs checks that nodes, doctor and the log report that the standby's configuration differs
// from the leader's.
func (p *pair) differs() {
	t := p.w.t
	t.Helper()
	const says = "has other settings or schedules than"
	if table := p.w.mustCLI("nodes"); !strings.Contains(table, says) || !strings.Contains(table, strings.TrimPrefix(p.at[1].HTTP, "http://")) {
		t.Errorf("nodes: %s", table)
	}
	if f := examined(t, p.w, cli.ExitFailed)["runners"]; f.OK || !strings.Contains(f.Seen, says) || !strings.Contains(f.Do, "perennial.yaml") {
		t.Errorf("doctor: %+v", f)
	}
	await(t, "a runner's log says so", func() bool { return strings.Contains(p.runs[0].stderr.String(), says) })
}

// metricOf returns the value of a metric, "" if it is missing.
func metricOf(text, name string) string {
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// outerMoments are the moments on an external NATS server. There the ledger's writer publishes rows
// before it commits them, and no outbox does. Outside of `make check` they are only the moments
// that TestCrashMatrixKilled lacks, and those around the POST.
func outerMoments() (all []moment) {
	for _, m := range moments() {
		aroundPOST := m.point == "send.before" && m.kind == "order" || m.wire == "executed" && m.kind == "renew"
		if !strings.HasSuffix(m.point, "outbox.sent") && (testrun.Check || aroundPOST) {
			all = append(all, m)
		}
	}
	return append(all, moment{point: "intake.committed>ledger.publishing", kind: "renew"}, moment{point: "intake.committed>ledger.published", kind: "renew"})
}

// nodesAre waits until `nodes` and /nodes show runners in these roles, each with the whole history.
func (p *pair) nodesAre(roles ...string) {
	p.w.t.Helper()
	var said string
	await(p.w.t, "nodes shows runners that are "+strings.Join(roles, " and "), func() bool {
		said = p.w.mustCLI("nodes", "-o", "json")
		var found []string
		for line := range strings.Lines(said) {
			n := decode[cluster.Node](p.w.t, line)
			if len(n.Accounts) != 1 || n.Accounts[0].Account != "main" || n.Node == "" || n.Version == "" || n.StartedAt.IsZero() || n.Accounts[0].Lag != 0 {
				return false
			}
			found = append(found, n.Accounts[0].Role)
		}
		slices.Sort(found)
		return slices.Equal(found, roles)
	})
	if table := p.w.mustCLI("nodes"); strings.Count(table, " main ") != len(roles) || !strings.Contains(table, "active") {
		p.w.t.Errorf("the table is\n%s", table)
	}
}

func (p *pair) ends(id string) {
	p.w.t.Helper()
	var status inspect.CommandStatus
	await(p.w.t, id+" has ended", func() bool {
		out, _, code := p.w.cli("status", id, "-o", "json", "--nats", p.nats.url())
		return code == cli.ExitDone && json.Unmarshal([]byte(out), &status) == nil && len(status.Operations) > 0 &&
			!slices.ContainsFunc(status.Operations, func(o inspect.OperationStatus) bool { return !o.State.Ended() })
	})
}

func (w *world) mustSubmit(id, proxy string) {
	w.t.Helper()
	w.mustCLI("renew", proxy, "--id", id)
}

// onlyFirstIsCharged checks that the referee has exactly one charge.
func (w *world) onlyFirstIsCharged() {
	w.t.Helper()
	text, err := os.ReadFile(w.charges)
	if err != nil {
		w.t.Fatal(err)
	}
	if n := strings.Count(string(text), `"kind":"charge"`); n != 1 {
		w.t.Errorf("%d charges:\n%s", n, text)
	}
}
