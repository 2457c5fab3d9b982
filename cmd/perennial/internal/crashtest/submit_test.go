package crashtest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/ledger/testrun"
)

// Each bad line is named, and no line of the file is published, neither before nor after the bad
// one.
func TestSubmitPublishesAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	run, _ := w.run()
	w.write("bad.jsonl", `{"id":"b1","duration_days":30,"proxy_ids":["px_1"]}
{"id":"b2","duration_days":31,"proxy_ids":["px_2"]}
{"id":"b1","duration_days":60,"proxy_ids":["px_1"]}
not json
{"id":"b5","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":1,"cidrs":["198.51.100.0/24"]}]}
`, 0o600)
	_, errs, code := w.cli("submit", "bad.jsonl", "--rejects", "rejects.jsonl")
	if code != cli.ExitUsage {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{
		"bad.jsonl line 2 (id b2): duration_days", "line 3 (id b1): the id is in line 1", "line 4:", "line 5 (id b5): items[0]: cidrs", "4 of 5 lines", "nothing was published",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("the output lacks %q:\n%s", want, errs)
		}
	}
	text, err := os.ReadFile(filepath.Join(w.dir, "rejects.jsonl"))
	if err != nil || strings.Count(string(text), "\n") != 4 || !strings.Contains(string(text), `"line":2,"id":"b2","state":"invalid"`) {
		t.Errorf("%v\n%s", err, text)
	}
	if _, _, code := w.cli("status", "b1"); code != cli.ExitFailed {
		t.Errorf("b1 was published: exit %d", code)
	}
	w.settled(run)
}

// The command reads CSV with a byte order mark, semicolons, carriage returns and empty rows, from a
// file and from standard input.
func TestSubmitReadsCSVAsSpreadsheetsWriteIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	run, _ := w.run()
	w.write("buy.csv", "\xef\xbb\xbfid;duration_days;offer_code;quantity;label.team\r\no1;30;off_us_1;2;red\r\n;;;;\r\no2;30;off_nowhere;1;blue\r\n", 0o600)
	out, errs, code := w.cli("submit", "buy.csv", "--dry-run", "-o", "json")
	var first cli.PricedCommand
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&first); err != nil || code != cli.ExitDone || first.Cents != fact.Known(600) || first.Count != 2 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if _, _, code := w.cli("status", "o1"); code != cli.ExitFailed {
		t.Error("a dry run published something")
	}
	out, errs, code = w.cli("submit", "buy.csv", "--rejects", "rejects.jsonl")
	if code != cli.ExitPartly || !strings.Contains(out, "offer_not_found") || !strings.Contains(out, "o2") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	text, err := os.ReadFile(filepath.Join(w.dir, "rejects.jsonl"))
	if err != nil || !strings.Contains(string(text), `"line":4,"id":"o2","state":"rejected","reason":"the provider refused it`) {
		t.Errorf("%v\n%s", err, text)
	}
	var s inspect.CommandStatus
	if err := json.Unmarshal([]byte(w.mustCLI("status", "o1", "-o", "json")), &s); err != nil || s.Labels["team"] != "red" || len(s.Operations[0].ProxyIDs) != 2 {
		t.Errorf("%+v %v", s, err)
	}
	if out := w.mustCLI("orders", "get", s.Operations[0].OrderNo); !strings.Contains(out, s.Operations[0].ProxyIDs[0]) || strings.Contains(out, "password") {
		t.Error(out)
	}
	w.settled(run, "o1")
}

// The refusals are a ceiling below the price, an unknown offer, and too little money in the wallet.
func TestADryRunSaysWhatWouldBeRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.control("POST", "/wallet", []byte(`{"account_id":"acc_alpha","environment":"sandbox","add_cents":-49999500}`))
	w.write("buy.csv", "id,duration_days,offer_code,quantity,max_total_cents\na,30,off_us_1,2,599\nb,30,off_nowhere,1,\nc,30,off_us_1,1,300\n", 0o600)
	out, errs, code := w.cli("submit", "buy.csv", "--dry-run")
	for _, says := range []string{"over its max_total_cents (5.99 USD)", "no offer off_nowhere of 1 for 30 days"} {
		if code != cli.ExitDone || strings.Count(out, says) != 1 {
			t.Errorf("exit %d, without %q:\n%s%s", code, says, out, errs)
		}
	}
	if !strings.Contains(errs, "warning: the wallet holds 5.00 USD, and 4.00 USD is missing") {
		t.Error(errs)
	}
}

// The provider would refuse their renewal.
func TestADryRunNamesProxiesThatTheAccountDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.write("renew.jsonl", `{"id":"a","duration_days":30,"proxy_ids":["px_1","px_none"]}`+"\n"+`{"id":"b","duration_days":30,"proxy_ids":["px_2"]}`, 0o600)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"renew", "px_1"}, cli.ExitDone, "nothing was published"},
		{[]string{"renew", "px_none"}, cli.ExitFailed, "the account does not know px_none"},
		{[]string{"renew", "px_none", "px_nowhere"}, cli.ExitFailed, "the account does not know 2 of its proxies, px_none first"},
		{[]string{"renew", "px_1", "px_none"}, cli.ExitPartly, "the account does not know px_none"},
		{[]string{"submit", "renew.jsonl"}, cli.ExitPartly, "the account does not know px_none"},
		{[]string{"renew", "px_none", "-o", "json"}, cli.ExitFailed, `"estimate_cents":null,"warning":"the account does not know px_none"`},
	} {
		if out, errs, code := w.cli(append(c.args, "--dry-run")...); code != c.code || !strings.Contains(out, c.says) || strings.Contains(out, "px_1 first") {
			t.Errorf("%v: exit %d\n%s%s", c.args, code, out, errs)
		}
	}
}

// The ID is also named if the row cannot become a command.
func TestABadLineNamesItsIDWhateverIsWrong(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	w.write("bad.csv", "duration_days,id,offer_code,quantity\nmany,a1,off_us_1,1\n30,a2,off_us_1,1,2,3\n30,a3,off_us_1,1.5\n,a4,off_us_1,1\n", 0o600)
	w.write("bad.jsonl", `{"id":"b1","duration_days":"30","proxy_ids":["px_1"]}`+"\n"+`{"id":"b2","duration_days":1e3,"proxy_ids":["px_1"]}`+"\n"+`{"id":"b3","what":1}`, 0o600)
	_, errs, code := w.cli("submit", "bad.csv", "bad.jsonl")
	for _, want := range []string{"line 2 (id a1): ", "line 3 (id a2): ", "line 4 (id a3): ", "line 5 (id a4): ", "line 1 (id b1): ", "line 2 (id b2): ", "line 3 (id b3): "} {
		if code != cli.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("exit %d, without %q:\n%s", code, want, errs)
		}
	}
}

// The first command's outcome is not shown.
func TestAnIDWithOtherContentShowsAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.run()
	w.mustCLI("renew", "px_1", "--id", "same", "--wait")
	w.write("other.jsonl", `{"id":"same","duration_days":30,"proxy_ids":["px_2"]}`, 0o600)
	const says = "the id was accepted before with other content, which is kept and is completed: choose another id"
	if out, errs, code := w.cli("submit", "other.jsonl"); code != cli.ExitFailed || !strings.Contains(out, says) || !strings.Contains(out, "same     conflict") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if out, _, _ := w.cli("submit", "other.jsonl", "-o", "json"); !strings.Contains(out, `"state":"conflict","reason":"`+says) {
		t.Error(out)
	}
}

func TestAnAwaitedOrderPrintsItsIDBeforeItsProxies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	run, _ := w.run()
	out, errs, code := w.cli("order", "--id", "o1", "--item", "off_us_1=2", "--wait", "--timeout", "1m")
	if code != cli.ExitDone || !strings.HasPrefix(errs, "published as o1\n") || strings.Count(out, "\n  proxy ") != 2 {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	w.mustCLI("account", "pause", "--reason", "test")
	if _, errs, code := w.cli("order", "--id", "o2", "--item", "off_us_1=1", "--wait", "--timeout", "300ms"); code != cli.ExitFailed || !strings.Contains(errs, "continues") {
		t.Errorf("exit %d: %s", code, errs)
	}
	w.mustCLI("account", "resume", "--reason", "test")
	w.cli("order", "--id", "o2", "--item", "off_us_1=1", "--wait")
	w.settled(run, "o1", "o2")
}

func TestMistakesOnTheCommandLineSayWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	for args, want := range map[string]string{
		"ordr":      "did you mean order?",
		"reconcile": "did you mean ledger reconcile?", "pause": "did you mean schedules pause or accounts pause?",
		"ledger":                                "Available Commands",
		"status nothing -o json":                `"exit_code":`,
		"order --item a=1@x -o json":            `"error":`,
		"order":                                 "say what to buy: perennial order off_us_dallas=5",
		"order off_us_1=0":                      "off_us_1=0: the quantity must be over 0",
		"order off_us_1=1 --max 5.5":            "--max",
		"order off_us_1=1 --days 31":            "--days 31: use 30, 60, 90",
		"order off_us_1=1 --timeout 1s":         "--timeout needs --wait",
		"order off_us_1=1 --not-after tomorrow": "--not-after tomorrow: use an instant such as",
		"order off_us_1=1 --priority urgent":    "--priority urgent: use high or bulk",
		"renew px_1 --due-before soon":          "--due-before soon: use an instant",
		"reviews resolve x":                     "say what happened: --charged AMOUNT",
		"reviews resolve x --not-charged":       "say why: --reason",
	} {
		if _, errs, code := w.cli(strings.Fields(args)...); code == cli.ExitDone || !strings.Contains(errs, want) || strings.Contains(errs, "cli-") {
			t.Errorf("%s: exit %d\n%s", args, code, errs)
		}
	}
	if out := w.mustCLI("--version"); !regexp.MustCompile(`\d+\.\d+\.\d+`).MatchString(out) {
		t.Error(out)
	}
}

// An order shows the provider's quote, and a renewal the last price paid for the same kind. Nothing
// is published.
func TestOneCommandIsPricedBeforeItIsPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	run, _ := w.run()
	priced := func(args ...string) (p cli.PricedCommand) {
		t.Helper()
		if err := json.Unmarshal([]byte(w.mustCLI(append(args, "--dry-run", "-o", "json")...)), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := priced("order", "--item", "off_us_1=3", "--id", "o"); p.ID != "o" || p.Count != 3 || p.Cents != fact.Known(900) {
		t.Errorf("%+v", p)
	}
	if p := priced("renew", "px_1", "--id", "r"); p.Count != 1 || p.Cents.Known() {
		t.Errorf("nothing was paid yet, and the price is %+v", p)
	}
	w.mustCLI("renew", "px_1", "--id", "paid", "--wait")
	if p := priced("renew", "px_1", "--id", "r"); p.Cents != fact.Known(300) {
		t.Errorf("%+v", p)
	}
	for _, id := range []string{"o", "r"} {
		if _, _, code := w.cli("status", id); code != cli.ExitFailed {
			t.Errorf("%s was published: exit %d", id, code)
		}
	}
	w.settled(run, "paid")
}

// The limit is a duration or a time.
func TestRenewLeavesOutWhatIsNotDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2) // they live for at least 24 hours
	run, _ := w.run()
	if out, errs, code := w.cli("renew", "px_1", "--id", "early", "--due-before", "1h", "--wait"); code != cli.ExitFailed && code != cli.ExitPartly {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	w.mustCLI("renew", "px_1", "--id", "due", "--due-before", "2200-01-01T00:00:00Z", "--wait")
	if _, errs, code := w.cli("renew", "px_1", "--due-before", "soon"); code != cli.ExitUsage || !strings.Contains(errs, "--due-before soon") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if paid := len(w.renewals()); paid != 1 {
		t.Errorf("%d renewals were paid", paid)
	}
	w.settled(run, "due")
}

// If two columns have the same name, the later one would silently win, and could replace a ceiling
// of one cent.
func TestTrap63AHeadingThatNamesAColumnTwiceIsRefused(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	row := map[string]string{
		"id": "a", "duration_days": "30", "offer_code": "off_us_1", "quantity": "1", "cidrs": "198.51.100.0/24", "max_total_cents": "1",
		"not_after": "2030-01-01T00:00:00Z", "sandbox_scenario": "success", "priority": "bulk", "label.team": "red",
		"proxy_ids": "px_1", "due_before": "2030-01-01T00:00:00Z",
	}
	n := 0
	for _, column := range slices.Sorted(maps.Keys(row)) {
		for _, again := range []string{column, strings.ToUpper(column), " " + column + "\t", "\u00a0" + column, strings.Replace(column, ".", ". ", 1)} {
			for _, separator := range []string{",", ";"} {
				if n++; n%7 > 0 && !testrun.Check {
					continue // some of each column, spelling and separator
				}
				value := row[column]
				if separator == ";" {
					value = ""
				}
				w.write("twice.csv", "id"+separator+"x"+separator+column+separator+again+"\na"+separator+separator+value+separator+value+"\n", 0o600)
				if column == "id" {
					w.write("twice.csv", column+separator+again+"\n"+value+separator+value+"\n", 0o600)
				}
				for _, flags := range [][]string{nil, {"--dry-run"}} {
					_, errs, code := w.cli(append([]string{"submit", "twice.csv"}, flags...)...)
					if code != cli.ExitUsage || !strings.Contains(errs, "twice, in columns") || !strings.Contains(strings.ToLower(errs), strings.TrimPrefix(column, "label.")) {
						t.Errorf("%q and %q %v: exit %d: %s", column, again, flags, code, errs)
					}
				}
			}
		}
	}
	for _, column := range []string{"labels", "Items"} {
		w.write("twice.csv", "id,label.team,"+column+"\na,red,blue\n", 0o600)
		if _, errs, code := w.cli("submit", "twice.csv"); code != cli.ExitUsage || !strings.Contains(errs, column) {
			t.Errorf("%s: exit %d: %s", column, code, errs)
		}
	}
}
