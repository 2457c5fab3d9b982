//go:build check

package crashtest

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/cluster"
)

// The standby follows, is ready and does nothing. It takes over when the leader stops with SIGTERM
// and when the leader is killed, and the way back works too.
func TestAStandbyFollowsAndTakesOver(t *testing.T) {
	t.Parallel()
	p := newPair(t, 60)
	all := load()[:60]
	turn := func(commands crashed) {
		t.Helper()
		commands.publish(t, p.nats.url())
		commands.await(t, p.nats.url())
	}
	p.start(0, "")
	p.awaitRole(0, "active")
	turn(all[:20])
	p.w.reconfigure("concurrency: 8", "concurrency: 7")
	p.start(1, "")
	p.awaitRole(1, "standby")
	p.nodesAre("active", "standby")
	p.differs()
	await(t, "nodes shows who could take over", func() bool { return strings.Contains(p.w.mustCLI("nodes"), " yes ") })
	await(t, "a standby's metrics are of one that has all", func() bool {
		text, err := p.w.get(p.at[1].HTTP + "/metrics")
		journal, published := metricOf(text, `perennial_journal_seq{account="main"}`), metricOf(text, `perennial_published_seq{account="main"}`)
		return err == nil && journal != "" && journal == published && metricOf(text, `perennial_role{account="main",role="standby"}`) == "1"
	})
	p.handOver(0, 1)
	p.nodesAre("active")
	turn(all[20:40])
	p.start(0, "")
	p.awaitRole(0, "standby")
	p.awaitRole(1, "active")
	p.runs[1].kill()
	turn(all[40:])
	p.runs[1] = nil
	p.sameBooks(all.ids())
}

// Otherwise a runner that lost its lease during a failing run would page until its next start.
func TestAStandbyNoLongerReportsTheFailuresOfItsTime(t *testing.T) {
	t.Parallel()
	const failed = `perennial_sweep_failed{account="main",schedule="keep"}`
	p := newPair(t, 4)
	p.w.configure(p.nats.url(), "schedules:\n  - {name: keep, cron: \"@every 2s\", renew_before: 300h, duration_days: 30}\n")
	p.w.fault(map[string]any{"method": "GET", "path": "/api/v1/proxies", "fault": "code", "code": "insufficient_scope", "http_status": 403, "times": 1_000_000})
	p.start(0, "")
	waitForHTTP(t, p.at[0].HTTP+"/metrics", failed+" 1")
	p.start(1, "")
	p.awaitRole(1, "standby")
	if err := p.runs[0].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.w.control(http.MethodDelete, "/faults", nil)
	p.awaitRole(1, "active")
	if err := p.runs[0].cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.awaitRole(0, "standby")
	text, err := p.w.get(p.at[0].HTTP + "/metrics")
	for _, leaders := range []string{failed + " 1", "perennial_proxies_expiring{"} {
		if err != nil || strings.Contains(text, leaders) {
			t.Errorf("a standby has %s: %v", leaders, err)
		}
	}
}

// Its NATS users cannot read the heartbeats, so that `nodes` asks the run itself.
func TestNodesOfAnEmbeddedServerIsTheRunItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	if out, errs, code := w.cli("nodes"); code != cli.ExitUnreachable {
		t.Errorf("without a run: %d %s%s", code, out, errs)
	}
	run, line := w.run()
	n := decode[cluster.Node](t, w.mustCLI("nodes", "-o", "json"))
	if len(n.Accounts) != 1 || n.Accounts[0].Role != "active" || n.Accounts[0].Head == 0 || n.Node == "" {
		t.Errorf("%+v", n)
	}
	if nodes := w.nodesOf(line); !strings.Contains(nodes, `"role":"active"`) || !strings.Contains(nodes, n.Node) {
		t.Errorf("/nodes says %s", nodes)
	}
	if page, err := w.page(line, "/runners"); err != nil || !strings.Contains(page, n.Node) {
		t.Errorf("the page of runners: %v\n%s", err, page)
	}
	run.terminate()
	if out, errs, code := w.cli("nodes"); code != cli.ExitUnreachable {
		t.Errorf("behind its end: %d %s%s", code, out, errs)
	}
}

// The test kills the leader at every named moment, and another runner continues on its own ledger.
// It immediately repeats every attempt that may have been sent, with the same idempotency key.
// Every command ends once.
func TestCrashMatrixTakenOver(t *testing.T) {
	t.Parallel()
	for _, m := range outerMoments() {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, 4)
			wire := p.w.through(m.wire)
			p.w.configure(p.nats.url(), "")
			p.start(0, m.point+" kill")
			wire.arm(func() { _ = p.runs[0].cmd.Process.Kill() })
			p.awaitRole(0, "active")
			p.start(1, "")
			c := crashCommands(m)
			c.publish(t, p.nats.url())
			p.runs[0].awaitKilled()
			p.awaitRole(1, "active")
			c.publish(t, p.nats.url())
			for _, id := range c.ids() {
				p.ends(id)
			}
			p.runs[0] = nil
			p.start(0, "")
			p.awaitRole(0, "standby")
			p.handOver(1, 0)
			for _, id := range c.ids() {
				p.ends(id)
			}
			p.runs[0].terminate()
			p.sameHistory()
			checkReferee(t, p.w.charges)
		})
	}
}

// A leader that was stopped past its lease sends nothing when it continues. It follows the new
// leader.
func TestAStoppedHolderFindsItselfReplaced(t *testing.T) {
	t.Parallel()
	p := newPair(t, 40)
	all := load()[:40]
	p.start(0, "")
	p.awaitRole(0, "active")
	p.start(1, "")
	p.awaitRole(1, "standby")
	all[:10].publish(t, p.nats.url())
	all[:10].await(t, p.nats.url())
	_ = p.runs[0].cmd.Process.Signal(syscall.SIGSTOP)
	p.awaitRole(1, "active")
	all[10:].publish(t, p.nats.url())
	_ = p.runs[0].cmd.Process.Signal(syscall.SIGCONT) // a request may have gone to it
	p.awaitRole(0, "standby")
	all[10:].await(t, p.nats.url())
	p.sameBooks(all.ids())
}

// An embedded server has only one runner.
func TestAnAccountIsNotMovedOnAnEmbeddedServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.run()
	if _, errs, code := w.cli("account", "move", "main", "--to", "x"); code != cli.ExitUsage || !strings.Contains(errs, "one runner") {
		t.Errorf("%d %s", code, errs)
	}
}
