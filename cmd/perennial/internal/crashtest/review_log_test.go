package crashtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"perennial/ledger/report"
)

// The hints of a correction take it back, proxy by proxy.
func TestTheHintsOfACorrectionTakeItBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.configure("", "")
	w.run()
	wallet := func() string { return w.mustCLI("ledger", "balance", "-o", "json") }
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "code", "code": "proxy_endpoint_unavailable"})
	w.cli("renew", "px_1", "px_2", "--id", "r-1", "--wait")
	w.mustCLI("reviews", "resolve", "r-1", "--charged", "600", "--confirm-amount", "600", "--by", "ada", "--reason", "the invoice")
	answered := wallet()
	hints := 0
	for line := range strings.Lines(w.mustCLI("reviews", "correct", "r-1", "--by", "ada", "--reason", "a slip")) {
		if _, command, found := strings.Cut(strings.TrimSpace(line), "to take it back: perennial "); found {
			hints++
			w.mustCLI(append(strings.Fields(strings.TrimSuffix(command, "TEXT")), "it was right", "--by", "ada")...)
		} else if !strings.HasPrefix(line, "booked: refund 6.00 USD; the ledger's wallet has ") {
			t.Errorf("%q", line)
		}
	}
	if now := wallet(); hints != 2 || !sameWallet(t, now, answered) {
		t.Errorf("%d hints; before %s, after %s", hints, answered, now)
	}
}

func sameWallet(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y struct {
		Wallet int64 `json:"wallet_cents"`
	}
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	return x.Wallet == y.Wallet
}

// Each log entry has the name and the reason. Automatic events are not in the log.
func TestTheLogSaysWhatPeopleDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 6)
	w.configure("", "schedules:\n  - {name: keep, cron: \"0 0 1 1 *\", renew_before: 300h, duration_days: 30, approve_over_cents: 1, match: {proxy_ids: [px_5, px_6]}}\n")
	_, line := w.run()
	nc, _ := connectTo(t, line.NATS)
	defer nc.Close()
	w.mustCLI("renew", "px_4", "--id", "price", "--wait")
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "code", "code": "proxy_endpoint_unavailable"})
	w.cli("renew", "px_1", "--id", "r-1", "--wait")
	say := func(args ...string) { w.mustCLI(append(args, "--by", "ada", "--reason", "so: it is")...) }
	w.awaitOffered("r-1", "review", "resolve", "")
	say("review", "resolve", "r-1", "--charged", "300", "--confirm-amount", "300")
	say("account", "pause")
	w.mustCLI("renew", "px_2", "--id", "r-2")
	await(t, "r-2 is there", func() bool { return strings.Contains(w.offered("cancel", "r"), "r-2") })
	say("cancel", "r-2")
	say("account", "resume")
	say("proxies", "retire", "px_3")
	say("proxies", "retire", "px_3", "--undo")
	say("reviews", "correct", "r-1", "--refund", "7")
	if out := w.mustCLI("operations", "list"); !strings.Contains(out, "2.93 USD") {
		t.Errorf("the list does not show the net amount:\n%s", out)
	}
	w.cli("sweep", "run", "keep", "--by", "ada", "--reason", "so: it is") // held for an approval: exit 4
	plan := ""
	await(t, "completion offers the plan", func() bool { plan = w.offered("sweep", "approve", ""); return plan != "" })
	say("sweep", "approve", plan)
	say("schedules", "pause", "keep")
	say("schedules", "resume", "keep")
	for range 2 {
		if err := nc.Publish("perennial.commands.main.proxy.renew", []byte("no command")); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "two dead letters", func() bool { return strings.Count(w.mustCLI("dead", "list", "-o", "json"), "\n") == 2 })
	w.write("fixed.json", `{"id":"fixed","duration_days":30,"proxy_ids":["px_6"]}`, 0o600)
	say("dead", "requeue", "1", "--file", "fixed.json")
	say("dead", "drop", "2")
	for line, want := range map[string]string{"renew px_": "px_1 px_2 px_3 px_4 px_5 px_6", "renew px_1 px_2 px": "px_3 px_4 px_5 px_6", "proxies get px_4": "px_4", "status r": "r-2 r-1"} {
		w.awaitOffered(want, strings.Split(line, " ")...)
	}

	var said []string
	for line := range strings.Lines(w.mustCLI("review", "log", "-o", "json")) {
		var d report.Decision
		if err := json.Unmarshal([]byte(line), &d); err != nil || d.By != "ada" || strings.TrimPrefix(d.Reason, "a corrected command replaces it: ") != "so: it is" {
			t.Errorf("%s: %v", line, err)
		}
		if d.Cents != nil && *d.Cents != 300 && *d.Cents != 7 {
			t.Errorf("%s", line)
		}
		about, _, _ := strings.Cut(d.About, ",")
		if strings.HasPrefix(d.Fact, "operation.") || d.Fact == "command.cancelled" {
			about = "" // the operation's id
		}
		said = append(said, strings.TrimSpace(d.Fact+" "+d.Outcome+" "+about))
	}
	want := []string{
		"operation.resolved charged", "account.paused  account", "command.cancelled", "account.resumed  account", "proxy.retired  px_3", "proxy.reinstated  px_3",
		"ledger.recorded refund r-1/0001 px_1", "sweep.planned asked keep", "sweep.finished approved keep " + plan,
		"schedule.paused  keep", "schedule.resumed  keep", "dead.requeued  dead letter 1", "dead.dropped  dead letter 1", "dead.dropped  dead letter 2",
	}
	if strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("the log says\n%s\nand not\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	if later := w.mustCLI("review", "log", "--from", "2999-01-01", "-o", "json"); later != "" {
		t.Errorf("of another time: %s", later)
	}
	if table := w.mustCLI("review", "log"); !strings.Contains(table, "3.00 USD") || !strings.Contains(table, "so: it is") {
		t.Errorf("%s", table)
	}
}

// Completion offers it although more commands came later than completion lists at first.
func TestAnOlderCommandIsOffered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 206)
	w.run()
	w.mustCLI("renew", "px_206", "--id", "first", "--wait")
	var lines strings.Builder
	for i := range 205 {
		fmt.Fprintf(&lines, `{"id":"later-%d","proxy_ids":["px_%d"],"duration_days":30}`+"\n", i, i+1)
	}
	w.write("many.jsonl", lines.String(), 0o600)
	w.mustCLI("submit", "many.jsonl")
	w.awaitOffered("first", "status", "fi")
}

// awaitOffered waits until completion offers these values. Completion offers nothing while the
// runner is slow to answer.
func (w *world) awaitOffered(want string, words ...string) {
	w.t.Helper()
	await(w.t, strings.Join(words, " ")+" is completed with "+want, func() bool { return w.offered(words...) == want })
}

// offered returns what completion offers for the last word, except flags.
func (w *world) offered(words ...string) string {
	w.t.Helper()
	var values []string
	for line := range strings.Lines(w.mustCLI(append([]string{"__complete"}, words...)...)) {
		if value, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(value, ":") && !strings.HasPrefix(value, "--") {
			values = append(values, value)
		}
	}
	return strings.Join(values, " ")
}
