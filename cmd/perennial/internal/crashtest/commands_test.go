package crashtest

import (
	"net/http"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// A script that computes the ceiling wrongly can pass 0, which must not mean "no ceiling".
func TestACeilingOfNothingIsRefusedOnEveryPath(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	w.write("zero.csv", "id,duration_days,offer_code,quantity,max_total_cents\nz,30,off_us_1,1,0\n", 0o600)
	w.write("zero.jsonl", `{"id":"z","duration_days":30,"proxy_ids":["px_1"],"max_total_cents":0}`, 0o600)
	const says = "max_total_cents is 0 and must be at least 1: leave it out for no ceiling"
	for _, args := range []string{
		"order --item off_us_1=1 --max-total-cents 0", "renew px_1 --max-total-cents 0", "renew px_1 --max-total-cents=0",
		"submit zero.csv", "submit zero.jsonl",
	} {
		if _, errs, code := w.cli(strings.Fields(args)...); code != cli.ExitUsage || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d %s", args, code, errs)
		}
	}
	for _, args := range []string{"order --item off_us_1=1", "renew px_1"} { // the configured default does not turn 0 into "no ceiling"
		if _, errs, code := w.cli(strings.Fields(args)...); code != cli.ExitUnreachable {
			t.Errorf("%s: exit %d %s", args, code, errs)
		}
	}
}

// The test covers each refusal by the account's rules, with each command that waits.
func TestARefusalAtIntakeEndsTheWaitAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	_, line := w.run()
	w.mustCLI("account", "pause", "--by", "ada", "--reason", "claims stay")
	w.mustCLI("renew", "px_1", "--id", "claims")
	const past = "2020-01-01T00:00:00Z"
	w.write("cidr.csv", "id,duration_days,offer_code,quantity,cidrs\ns1,30,off_us_1,1,198.51.100.0/24\n", 0o600)
	w.write("late.csv", "id,duration_days,offer_code,quantity,not_after\ns2,30,off_us_1,1,"+past+"\n", 0o600)
	w.write("claimed.jsonl", `{"id":"s3","duration_days":30,"proxy_ids":["px_1"]}`, 0o600)
	elsewhere := &world{t: t, dir: w.dir}
	w.write("none.yaml", "accounts:\n  main: {base_url: http://127.0.0.1:1, app_id: sbx_app_a, cidr_field: cidrs}\n", 0o600)
	for args, says := range map[string]string{
		"order --id o1 --item off_us_1=1@198.51.100.0/24 --wait": "cidrs cannot be sent", "order --id o2 --item off_us_1=1 --wait --not-after " + past: "not_after had passed",
		"renew --id r2 px_2 --wait --not-after " + past: "not_after had passed", "renew --id r3 px_1 --wait": "operation claims/0001 holds it",
		"submit cidr.csv --config none.yaml": "cidrs cannot be sent", "submit late.csv --config none.yaml": "not_after had passed", "submit claimed.jsonl --config none.yaml": "holds it",
	} {
		out, errs, code := elsewhere.cli(append(strings.Fields(args), "--nats", line.NATS)...)
		if code != cli.ExitFailed || !strings.Contains(out, says) {
			t.Errorf("%s: exit %d\n%s%s", args, code, out, errs)
		}
	}
}

// A scenario on a production account ends the wait, as every refusal at intake does.
func TestAScenarioOnAProductionAccountEndsTheWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	const ok = `{"success":true,"code":"ok","data":{`
	w.spoiled(
		&script{method: http.MethodGet, holds: "/api/v1/account", steps: []spoil{{body: ok + `"account_id":"acc_alpha","email":"a@example.com","status":"active"}}`}}},
		&script{method: http.MethodGet, holds: "/api/v1/wallet", steps: []spoil{{body: ok + `"environment":"production","currency":"USD","balance_cents":5,"balance":"0.05","frozen_cents":0,"cash_value":true}}`}}},
	)
	w.configureLive(w.sandbox.Sandbox, w.withUsers())
	w.run()
	out, errs, code := w.cli("order", "--item", "off_us_1=1", "--id", "s", "--scenario", "delayed", "--wait")
	if code != cli.ExitFailed || !strings.Contains(out, "sandbox_scenario is for sandbox accounts only") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// The codes are in docs/cli.md, "Exit codes".
func TestExitCodesAreThoseOfTheDocs(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	for args, want := range map[string]int{
		"sweep forecast --days 0": cli.ExitUsage, "sweep forecast --days 400": cli.ExitUsage, "sweep forecast --days -1": cli.ExitUsage, "sweep forecast --days 30": cli.ExitUnreachable,
		"status -a nope": cli.ExitUsage, "renew px_1 -a nope": cli.ExitUsage, "wallet -a nope": cli.ExitUsage, "ledger balance -a nope": cli.ExitUsage, "doctor -a nope": cli.ExitUsage,
		"sweep list -a nope": cli.ExitUsage, "order --item x=1 -a nope": cli.ExitUsage, "proxies list -a nope": cli.ExitUsage, "review list -a nope": cli.ExitUsage,
	} {
		if out, errs, code := w.cli(strings.Fields(args)...); code != want {
			t.Errorf("%s: exit %d\n%s%s", args, code, out, errs)
		}
	}
}

// After a cancel, retry or resume, the runner reads a queued operation in its new state, and logs
// no error.
func TestAPersonsChangeIsNoErrorInTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	run, _ := w.run()
	w.mustCLI("account", "pause", "--by", "ada", "--reason", "stop")
	for _, id := range []string{"c1", "c2"} {
		w.mustCLI("order", "--item", "off_us_1=1", "--id", id)
	}
	await(t, "both are accepted", func() bool {
		out, _, _ := w.cli("status", "--state", "accepted", "-o", "json")
		return strings.Count(out, "\n") == 2
	})
	w.mustCLI("cancel", "c1", "--by", "ada", "--reason", "no")
	w.mustCLI("cancel", "c2", "--by", "ada", "--reason", "no")
	if out := w.mustCLI("retry", "--state", "rejected", "--since", "1d", "-o", "json"); strings.Count(out, `/1 was cancelled"}`) != 2 {
		t.Errorf("a filter: %s", out)
	}
	if out, errs, code := w.cli("retry", "c2", "none", "--by", "ada", "--reason", "yes", "-o", "json"); code != cli.ExitPartly ||
		!strings.HasPrefix(out, `{"id":"c2","changed":1}`+"\n"+`{"id":"none","changed":0,"reason":"`) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for _, wrong := range [][]string{{}, {"c1", "--state", "rejected"}, {"--state", "rejected"}, {"--since", "1d"}, {"--state", "review", "--since", "1d"}} {
		if _, errs, code := w.cli(append([]string{"retry"}, wrong...)...); code != cli.ExitUsage {
			t.Errorf("%v: exit %d: %s", wrong, code, errs)
		}
	}
	w.mustCLI("account", "resume", "--by", "ada", "--reason", "go")
	await(t, "the second is delivered", func() bool {
		out, _, _ := w.cli("status", "c2")
		return strings.Contains(out, "state    delivered")
	})
	if log := run.stderr.String(); strings.Contains(log, `"level":"error"`) || strings.Contains(log, "decided on") {
		t.Error(log)
	}
}

// A command that was refused at intake is listed among the rejected.
func TestACommandThatDoesNotMoveSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.run()
	w.mustCLI("account", "pause", "--by", "ada", "--reason", "moving house")
	_, errs, code := w.cli("renew", "px_1", "--id", "p", "--wait", "--timeout", "1s")
	const says = "the account is paused since "
	if code != cli.ExitFailed || !strings.Contains(errs, "p is accepted: "+says) || !strings.Contains(errs, "ada: moving house") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	for _, output := range []string{"table", "json"} {
		if out := w.mustCLI("status", "p", "-o", output); !strings.Contains(out, says) {
			t.Error(out)
		}
	}
	if _, _, code := w.cli("order", "--id", "late", "--item", "off_us_1=1", "--wait", "--not-after", "2020-01-01T00:00:00Z"); code != cli.ExitFailed {
		t.Errorf("exit %d", code)
	}
	if out := w.mustCLI("status", "--state", "rejected"); !strings.Contains(out, "late ") || !strings.Contains(out, "not_after had passed") {
		t.Error(out)
	}
	if out := w.mustCLI("status", "--state", "rejected", "--since", "1d", "-o", "json"); !strings.Contains(out, `"command_id":"late"`) {
		t.Error(out)
	}
}
