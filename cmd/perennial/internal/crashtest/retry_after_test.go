package crashtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
)

// The provider sends Retry-After, and the runner is killed. Before that time, the next run sends
// nothing: no commands, polls, listings or reads at its start.
func TestTrap38KilledWhileItWaitsTheNextRunWaitsToo(t *testing.T) {
	t.Parallel()
	const seconds = 4
	w := newWorld(t, 4)
	x := w.spoiled(&script{method: http.MethodPost, holds: `"px_1"`, steps: []spoil{
		{status: http.StatusTooManyRequests, header: fmt.Sprint("Retry-After: ", seconds), body: failure("rate_limited", "slow down")},
	}})
	w.configure("", "schedules: [{name: keep, cron: '* * * * *', renew_before: 36h, duration_days: 30, match: {proxy_ids: [px_1]}}]\n")
	run, line := w.run()
	c := crashed{{id: "o1", subject: "perennial.commands.main.order.create", body: []byte(`{"id":"o1","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":1}],"sandbox_scenario":"delayed"}`)},
		{id: "r1", subject: "perennial.commands.main.proxy.renew", body: []byte(`{"id":"r1","proxy_ids":["px_1"],"duration_days":30}`)}}
	c.publish(t, line.NATS)
	waitForEvent(t, line.NATS, "account.paused", "")
	run.kill()
	before := x.sightings()
	run, line = w.run()
	waitForHTTP(t, line.HTTP+"/readyz", "asked to slow down")
	c.publish(t, line.NATS)
	c.await(t, line.NATS)
	all := x.sightings()
	var told time.Time
	for _, s := range before {
		if s.throttled {
			told = s.at
		}
	}
	kinds := map[string]bool{}
	for _, s := range all[len(before):] {
		kinds[s.method+" "+strings.TrimSuffix(s.path, "/px_1")] = true
		if early := told.Add(seconds * time.Second).Sub(s.at); early > 0 {
			t.Errorf("%s %s came %s too early", s.method, s.path, early)
		}
	}
	for _, kind := range []string{"GET /api/v1/account", "GET /api/v1/proxies", "POST /api/v1/proxies/renew"} {
		if !kinds[kind] {
			t.Errorf("no %s was seen: %v", kind, kinds)
		}
	}
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("exit %d\n%s", code, run.stderr)
	}
	checkBooks(t, w, c.ids())
}

// Retry-After is a Unix time, an absurd number of seconds. The next run answers operators before
// the provider answers the run.
func TestTrap48APersonEndsAnAbsurdWaitAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	run, line := w.run()
	w.control(http.MethodPost, "/faults", fmt.Appendf(nil, `{"method":"POST","fault":"code","code":"rate_limited","http_status":429,"retry_after":"%d"}`, time.Now().Unix()))
	c := crashed{{id: "r1", subject: "perennial.commands.main.proxy.renew", body: []byte(`{"id":"r1","proxy_ids":["px_1"],"duration_days":30}`)}}
	c.publish(t, line.NATS)
	waitForEvent(t, line.NATS, "account.paused", "")
	run.kill()
	run, line = w.run()
	waitForHTTP(t, line.HTTP+"/readyz", "asked to slow down")
	if out := w.mustCLI("status", "r1"); !strings.Contains(out, "r1") {
		t.Error(out)
	}
	if _, errs, code := w.cli("ledger", "reconcile"); code == cli.ExitDone || !strings.Contains(errs, "does not work yet") {
		t.Errorf("exit %d: %s", code, errs)
	}
	w.mustCLI("account", "resume", "--reason", "that is a Unix time")
	c.await(t, line.NATS)
	w.settled(run, c.ids()...)
}
