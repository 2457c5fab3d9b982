//go:build check

// Tests of the command line that start many processes run in `make check` only.

package crashtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/ledger/tables"
	"perennial/queue/embedded"
	"perennial/schedules/plans"
)

// The former command names still work, and each noun has its verbs.
func TestEarlierNamesOfCommandsWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	_, line := w.run()
	awaitReady(t, line)
	for _, names := range [][]string{
		{"schedules", "schedules list", "schedules ls", "schedule list", "sweep list"}, {"reviews", "reviews list", "review ls"}, {"dead-letters", "dead list", "dlq ls"},
		{"operations", "operations list", "status --all"}, {"wallet", "wallet show", "wallet get"}, {"orders", "orders list"}, {"proxies", "proxies ls", "proxy list"},
		{"webhooks", "webhook list"}, {"audit", "reviews log", "review log"}, {"accounts show", "accounts show main", "account show", "account get"},
	} {
		printed := func(name string) string { return w.mustCLI(append(strings.Fields(name), "-o", "json")...) }
		for _, name := range names[1:] {
			// What an account shows changes while its runner starts, so that the test waits for
			// equal outputs.
			await(t, name+" prints what "+names[0]+" prints", func() bool { return printed(name) == printed(names[0]) })
		}
	}
	if w.mustCLI("wallet", "--json") != w.mustCLI("wallet", "-o", "json") {
		t.Error("--json is not -o json")
	}
	await(t, "a runner that works says that it is ready", func() bool {
		out := w.mustCLI("nodes", "-o", "json")
		return strings.Contains(out, `"role":"active"`) && strings.Contains(out, `"ready":true`)
	})
	w.mustCLI("offers", "--country", "US")
	w.mustCLI("watch", "--stored")
}

// A table has an account column, and JSON an account field.
func TestListingsAreOfAllAccountsUnlessOneIsNamed(t *testing.T) {
	t.Parallel()
	w := twoAccounts(t)
	w.run()
	for _, c := range []string{"main", "other"} {
		w.mustCLI("order", "--item", "off_us_1=1", "--id", c+"-buy", "--wait", "-a", c)
		w.fault(map[string]any{"method": "POST", "path": "/api/v1/orders", "fault": "code", "code": "idempotency_unresolved", "http_status": 409, "times": 1})
		if _, errs, code := w.cli("order", "--item", "off_us_1=1", "--id", c+"-doubt", "--wait", "-a", c); code != cli.ExitPerson {
			t.Fatalf("exit %d\n%s", code, errs)
		}
	}
	for _, command := range []string{"sweep list", "status", "review list", "proxies list --live", "wallet", "ledger balance", "ledger balance --by order"} {
		args := strings.Fields(command)
		if got := accountsOf(t, w.mustCLI(append(args, "-o", "json")...)); !slices.Equal(got, []string{"main", "other"}) {
			t.Errorf("%s is of %q", command, got)
		}
		table := w.mustCLI(args...)
		if !strings.Contains(table, "ACCOUNT") && command != "wallet" || !strings.Contains(table, "main") || !strings.Contains(table, "other") {
			t.Errorf("%s:\n%s", command, table)
		}
		one := w.mustCLI(append(args, "--account", "other")...)
		if strings.Contains(one, "main") || strings.HasPrefix(one, "ACCOUNT  ") && command != "ledger balance" && command != "status" {
			t.Errorf("%s of one account:\n%s", command, one)
		}
	}
	if out := w.mustCLI("status", "--limit", "1"); !strings.Contains(out, "other-doubt") || strings.Contains(out, "buy") {
		t.Errorf("the last accepted of all is other-doubt:\n%s", out)
	}
}

// The account was charged and refunded hundreds of times two months ago. The archive takes all but
// the newest rows.
func TestTheProgramArchivesWhatIsOldAndPublished(t *testing.T) {
	t.Parallel()
	w := oldWorld(t, "")
	before := decode[tables.Balance](t, w.mustCLI("ledger", "balance", "-o", "json"))
	entries := w.mustCLI("ledger", "entries", "-n", "20000")
	if out, errs, code := w.cli("ledger", "entries", "--since", "1d"); code != cli.ExitDone || !strings.Contains(out, "first/0001") || strings.Count(out, "\n") >= strings.Count(entries, "\n") {
		t.Errorf("the entries of a day: exit %d\n%s%s", code, out, errs)
	}
	out := w.archiveOld("--to", w.dir)
	if out.FirstSeq != 1 || out.LastSeq < 400 || out.LastSeq > 600 || filepath.Dir(out.File) != w.dir || out.BytesAfter >= out.BytesBefore {
		t.Errorf("%+v", out)
	}
	if got := w.mustCLI("ledger", "entries", "-n", "20000"); got != entries {
		t.Error("the entries are other ones")
	}
	after := decode[tables.Balance](t, w.mustCLI("ledger", "balance", "-o", "json"))
	if before.Head, before.Unbooked, after.Unbooked = after.Head, nil, nil; before != after {
		t.Errorf("the balance was %+v and is %+v", before, after)
	}
	v := decode[againstLine](t, w.mustCLI("ledger", "verify", "--archive", out.File, "--against-events", "-o", "json"))
	if !v.OK || v.Rows != out.Head.Seq || v.Unpublished != 0 || v.Removed != out.LastSeq {
		t.Errorf("%+v", v)
	}
	if alone := decode[fileLine](t, w.mustCLI("ledger", "verify", out.File, "-o", "json")); !alone.OK || alone.Rows != out.LastSeq {
		t.Errorf("the archive by itself: %+v", alone)
	}
	run, line := w.run()
	awaitReady(t, line)
	w.mustCLI("renew", "px_1", "--id", "first", "--wait")
	w.mustCLI("renew", "px_2", "--id", "second", "--wait")
	if code := run.terminate(); code != 0 {
		t.Fatalf("run ended with %d\n%s", code, run.stderr)
	}
	if err := os.Rename(out.File, filepath.Join(filepath.Dir(w.ledgerFile()), filepath.Base(out.File))); err != nil { // verify reads every row
		t.Fatal(err)
	}
	checkBooks(t, w, []string{"first", "second"})
}

// A proxy fails five times, and an operator resolves the review from the command line.
func TestAPersonAnswersForWhatSweepsGaveUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.configure("", `schedules:
  - {name: keep, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30, match: {proxy_ids: [px_1]}}
`)
	run, line := w.run()
	fail := func(from, to int) {
		w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "renewal", "failed": 1, "times": to - from + 1})
		for n := from; n <= to; n++ {
			if out, errs, code := w.cli("renew", "px_1", "--id", fmt.Sprintf("try-%d", n), "--wait"); code != cli.ExitFailed {
				t.Fatalf("exit %d\n%s%s", code, out, errs)
			}
		}
		run.terminate() // a start lists the proxies immediately
		run, line = w.run()
	}
	review := func() (all []tables.Review) {
		for text := range strings.Lines(w.mustCLI("review", "list", "-o", "json")) {
			var one tables.Review
			if err := json.Unmarshal([]byte(text), &one); err != nil {
				t.Fatal(err)
			}
			all = append(all, one)
		}
		return all
	}
	fail(1, 5)
	if p := w.sweepAgain("keep"); p.LeftOutCounts[plans.ReasonPerson] != 1 {
		t.Fatalf("left out %v", p.LeftOutCounts)
	}
	waiting := review()
	if len(waiting) != 1 || waiting[0].ProxyID != "px_1" || waiting[0].CommandID != "try-5" {
		t.Fatalf("in review: %+v", waiting)
	}
	if page, err := w.get(line.HTTP + "/metrics"); err != nil || !strings.Contains(page, `perennial_reviews{account="main"} 1`) {
		t.Errorf("no metric tells of it: %v", err)
	}
	id := waiting[0].OperationID
	shown := w.mustCLI("review", "show", id)
	if of := w.mustCLI("review", "show", "try-5"); !strings.Contains(of, id) { // the command's id
		t.Errorf("review show of the command:\n%s", of)
	}
	for _, text := range []string{"try-1/", "--not-charged --send-again", "px_1"} {
		if !strings.Contains(shown, text) {
			t.Errorf("review show does not say %q:\n%s", text, shown)
		}
	}
	answer := func(code int, says string, args ...string) {
		t.Helper()
		out, errs, got := w.cli(append([]string{"review", "resolve", id, "--by", "ada", "--reason", "looked"}, args...)...)
		if got != code || !strings.Contains(out+errs, says) {
			t.Errorf("%v: exit %d\n%s%s", args, got, out, errs)
		}
	}
	answer(cli.ExitFailed, "booked", "--charged", "300")
	answer(cli.ExitFailed, "needs no review", "--line", "px_2", "--not-charged")
	operation := id
	id = waiting[0].CommandID // the id of a command with one operation that needs review
	answer(cli.ExitDone, "", "--line", "px_1", "--not-charged", "--send-again")
	id = operation
	answer(cli.ExitFailed, "is failed and needs no review", "--not-charged", "--send-again")
	if of := w.mustCLI("review", "show", waiting[0].CommandID); !strings.Contains(of, operation) { // also after it is resolved
		t.Errorf("review show of the command:\n%s", of)
	}
	if len(review()) != 0 {
		t.Error("it was answered and still waits")
	}
	if p := w.plan("plan", "keep"); len(p.Included) != 1 {
		t.Errorf("left out %v", p.LeftOut)
	}

	fail(6, 10)
	w.sweepAgain("keep")
	id = review()[0].OperationID
	answer(cli.ExitDone, "", "--not-charged")
	if p := w.plan("plan", "keep"); p.LeftOutCounts[plans.ReasonRetired] != 1 || len(review()) != 0 {
		t.Errorf("left out %v", p.LeftOut)
	}
}

// A client that waits for a command keeps waiting while the runner restarts. It prints an
// error if no runner answers.
func TestFollowingOutlivesARestartOfTheRunner(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	w := newWorld(t, 1)
	w.configure(server.URL(), "")
	w.write("orders.jsonl", `{"id":"o1","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":1}],"sandbox_scenario":"delayed"}`+"\n", 0o600)
	run, _ := w.run()
	order := start(t, w.dir, "order", "--item", "off_us_1=1", "--scenario", "delayed", "--id", "o2", "--wait", "-o", "json")
	batch := start(t, w.dir, "submit", "orders.jsonl")
	for _, id := range []string{"o1", "o2"} {
		waitForEvent(t, server.URL(), "order.accepted", id)
	}
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("run ended with %d\n%s", code, run.stderr)
	}
	run, _ = w.run()
	for name, follower := range map[string]*process{"order --wait": order, "submit": batch} {
		if code := follower.wait(); code != cli.ExitDone {
			t.Errorf("%s ended with %d\n%s", name, code, follower.stderr)
		}
	}
	run.terminate()
	if _, errs, code := w.cli("renew", "px_1", "--wait"); code != cli.ExitUnreachable || !strings.Contains(errs, "perennial run") {
		t.Errorf("with no runner: exit %d %s", code, errs)
	}
}

// The test runs every command that prints an amount.
func TestTablesAndSentencesShowMoneyInOneForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 8)
	w.configure("", "    daily_limit_cents: 5000\n"+approved)
	w.run()
	w.mustCLI("order", "--item", "off_us_1=2", "--id", "buy", "--wait")
	w.mustCLI("renew", "px_1", "--id", "r1", "--wait", "--label", "team=a")
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "renewal", "unresolved": 1, "times": 1})
	w.cli("renew", "px_2", "--id", "doubt", "--wait")
	w.cli("order", "--item", "off_us_1=100", "--id", "dear", "--wait", "--timeout", "1s")
	w.control("POST", "/wallet", []byte(`{"account_id":"acc_alpha","environment":"sandbox","add_cents":70000}`))
	w.write("batch.jsonl", `{"id":"b1","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":2}]}
{"id":"b2","duration_days":30,"proxy_ids":["px_nowhere"]}
`, 0o600)
	var o struct {
		OrderNo string `json:"order_no"`
	}
	if err := json.Unmarshal([]byte(strings.SplitN(w.mustCLI("orders", "-o", "json"), "\n", 2)[0]), &o); err != nil {
		t.Fatal(err)
	}
	var r tables.Review
	if err := json.Unmarshal([]byte(w.mustCLI("review", "list", "-o", "json")), &r); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command string
		amounts int // at least
	}{
		{"sweep plan keep", 5}, {"sweep run keep", 5}, {"sweep list", 1}, {"sweep forecast --days 366", 3},
		{"status", 6}, {"status r1", 3}, {"status dear", 3}, {"review list", 1}, {"review show " + r.OperationID, 1},
		{"ledger balance", 6}, {"ledger balance --by label", 3}, {"ledger entries", 3}, {"ledger reconcile", 3},
		{"account show", 1}, {"wallet", 2}, {"offers", 1}, {"orders", 1}, {"orders get " + o.OrderNo, 1}, {"doctor", 1},
		{"submit batch.jsonl --dry-run", 2}, {"ledger record --kind top-up --cents 700 --by ada --reason transfer", 1},
	} {
		out, errs, _ := w.cli(strings.Fields(c.command)...)
		if got := inOneForm(t, c.command, out+errs); got < c.amounts {
			t.Errorf("%s shows %d amounts:\n%s%s", c.command, got, out, errs)
		}
	}
}
