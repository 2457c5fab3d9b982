package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/jobs/inspect"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/events"
)

// Two demonstrations show the same amounts, and the amounts add up. The pictured sweep has finished
// when the demonstration ends.
func TestTwoDemosShowTheSameMoneyThatAddsUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := &world{t: t, dir: dir}
	amount := regexp.MustCompile(`\d+\.\d\d USD`)
	var amounts []string
	for range 2 {
		out, errs, code := w.cli("demo")
		if code != 0 || !strings.Contains(out, "they agree to the cent") {
			t.Fatalf("exit %d\n%s\n%s", code, out, errs)
		}
		books, events, _ := strings.Cut(out, "\nEVENTS")
		these := amount.FindAllString(books, -1)
		if amounts != nil && !slices.Equal(amounts, these) {
			t.Errorf("another demonstration shows %v\nin place of %v", these, amounts)
		}
		amounts = these
		demoAddsUp(t, books)
		demoIsPictured(t, out)
		for line := range strings.Lines(events) {
			if i := strings.LastIndex(line, "charged"); len([]rune(line)) > 126 || i >= 0 && !amount.MatchString(line[i:]) {
				t.Errorf("a line is too long or cut: %s", line)
			}
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("the demonstration left %v behind", left)
	}
}

// demoIsPictured compares a demonstration with the one in the README line by line. Ports, times,
// event numbers and counts, and the order of the lines may differ.
func demoIsPictured(t testing.TB, out string) {
	t.Helper()
	picture, err := os.ReadFile("../../../../docs/images/demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, m := range regexp.MustCompile(`<text [^>]*>(.*)</text>`).FindAllStringSubmatch(string(picture), -1) {
		shown = append(shown, html.UnescapeString(regexp.MustCompile(`</?tspan[^>]*>`).ReplaceAllString(m[1], "")))
	}
	if len(shown) == 0 || shown[0] != "$ go run ./cmd/perennial demo" {
		t.Fatal("the picture shows no demonstration: make picture")
	}
	if have, want := demoLines(shown[1:]), demoLines(strings.Split(out, "\n")); !slices.Equal(have, want) {
		t.Errorf("the README's picture is of another demonstration: make picture\npicture: %q\nnow:     %q", have, want)
	}
}

// demoLines removes from each line what differs between demonstrations.
func demoLines(lines []string) (all []string) {
	// Each operating system words a lost reply differently, on one line or on two.
	differs := regexp.MustCompile(`^.*->127\.0\.0\.1.*|^\s*(\d+  )?|:\d{4,5}\b|\d\d:\d\d:\d\d\.\d+|\d+ (facts|published|keys)|: read tcp.*`)
	for _, line := range lines {
		if line = differs.ReplaceAllString(line, ""); line != "" {
			all = append(all, line)
		}
	}
	events := slices.IndexFunc(all, func(line string) bool { return strings.HasPrefix(line, "EVENTS") })
	slices.Sort(all[max(events, 0):])
	return all
}

// demoAddsUp checks the books against the sum of the printed steps.
func demoAddsUp(t testing.TB, books string) {
	t.Helper()
	row := regexp.MustCompile(`(?m)^  (\S+(?: \S+)?) +\S* +(\d+)\.(\d\d) USD +(\d+)\.(\d\d) USD`)
	var sum, said [2]int64
	steps := 0
	for _, m := range row.FindAllStringSubmatch(books, -1) {
		charged, _ := strconv.ParseInt(m[2]+m[3], 10, 64)
		refunded, _ := strconv.ParseInt(m[4]+m[5], 10, 64)
		switch m[1] {
		case "sum":
			said = [2]int64{charged, refunded}
		case "ledger", "referee":
			if said != [2]int64{charged, refunded} {
				t.Errorf("%s: %v, and the sum is %v", m[1], m[2:], said)
			}
		default:
			steps, sum[0], sum[1] = steps+1, sum[0]+charged, sum[1]+refunded
		}
	}
	if steps != 7 || sum != said || !strings.Contains(books, "5,000.00 USD at the beginning") {
		t.Errorf("%d steps sum to %v, and the sum says %v\n%s", steps, sum, said, books)
	}
}

// After bad messages, the runner still executes a good command.
func TestBadInputIsAnsweredAndTheRunnerGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10)
	_, line := w.run()
	nc, js := connectTo(t, line.NATS)
	defer nc.Close()
	lines := make([]string, 51)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"offer_code":"off_%d","quantity":1}`, i)
	}
	for _, c := range []struct{ name, kind, body, event, reason string }{
		{"unknown field", "order.create", `{"id":"bad-1","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":1}],"max_total_cent":5}`, "command.rejected", `max_total_cent\"`},
		{"51 lines", "order.create", `{"id":"bad-2","duration_days":30,"items":[` + strings.Join(lines, ",") + `]}`, "command.rejected", "51 lines of at most 50"},
		{"31 days", "proxy.renew", `{"id":"bad-3","duration_days":31,"proxy_ids":["px_1"]}`, "command.rejected", "multiple of 30"},
		{"unknown offer", "order.create", `{"id":"bad-4","duration_days":30,"items":[{"offer_code":"off_nowhere","quantity":1}]}`, "command.rejected", "offer_not_found"},
		{"another body", "proxy.renew", `{"id":"bad-4","duration_days":30,"proxy_ids":["px_1"]}`, "command.conflict", "choose another id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := js.Publish(t.Context(), "perennial.commands.main."+c.kind, []byte(c.body)); err != nil {
				t.Fatal(err)
			}
			id := regexp.MustCompile(`bad-\d`).FindString(c.body)
			event := waitForEvent(t, line.NATS, c.event, id)
			if !strings.Contains(event, c.reason) {
				t.Errorf("%s does not say %q", event, c.reason)
			}
		})
	}
	for _, body := range []string{`{"duration_days":30,"proxy_ids":["px_1"]}`, `not json`, "\xff\xfe", `[1]`, ``} {
		if _, err := js.Publish(t.Context(), "perennial.commands.main.proxy.renew", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := w.cli("renew", "px_1", "--id", "good", "--wait", "-o", "json")
	if code != 0 || !strings.Contains(out, `"state":"completed"`) {
		t.Fatalf("after bad input, exit %d\n%s%s", code, out, errs)
	}
	dead, err := js.Stream(t.Context(), "PERENNIAL_DEAD_main")
	if err != nil {
		t.Fatal(err)
	}
	if info := dead.CachedInfo(); info.State.Msgs != 5 {
		t.Errorf("%d dead letters and there should be 5", info.State.Msgs)
	}
}

func waitForEvent(t testing.TB, url, eventType, id string) string {
	t.Helper()
	q, err := queue.Connect(queue.ConnectConfig{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for e, err := range events.Of(q.JetStream(), "main").Follow(ctx, events.From{Seq: 1, Types: []string{eventType}}) {
		if err != nil {
			t.Fatalf("no %s of %s: %v", eventType, id, err)
		}
		if commandIn(e) == id {
			return string(e.Data)
		}
	}
	return ""
}

func TestAnAccountThatIsNotConfiguredHasNoResponders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	_, line := w.run()
	nc, js := connectTo(t, line.NATS)
	defer nc.Close()
	_, err := js.Publish(t.Context(), "perennial.commands.other.proxy.renew", []byte(`{}`))
	if !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("the publisher gets %v", err)
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	run, line := w.run()
	if line.Data != "./data" || len(line.Accounts) != 1 || !strings.HasPrefix(line.HTTP, "http://127.0.0.1:") {
		t.Errorf("ready line %+v", line)
	}
	out, errs, code := w.cli("order", "--item", "off_us_1=2", "--id", "buy", "--wait", "-o", "json")
	var status inspect.CommandStatus
	if err := json.Unmarshal([]byte(out), &status); err != nil || code != 0 || status.State != "delivered" || status.Operations[0].ChargedCents != 600 {
		t.Fatalf("order: exit %d %s%s %v", code, out, errs, err)
	}
	if _, _, code = w.cli("order", "--item", "off_us_1=2", "--id", "refused", "--scenario", "rejected", "--wait"); code != cli.ExitFailed {
		t.Errorf("a refunded order exits with %d", code)
	}
	if _, errs, code = w.cli("order", "--item", "off_us_1=2", "--days", "31"); code != cli.ExitUsage || !strings.Contains(errs, "multiple of 30") {
		t.Errorf("31 days: exit %d %s", code, errs)
	}
	for args, want := range map[string]string{
		"order --item off_us_1=1 --item off_us_1=2": "appears twice",
		"order --item off_us_1":                     "OFFER=QUANTITY",
		"status --limit -3":                         "1 or more",
	} {
		if _, errs, code = w.cli(strings.Fields(args)...); code != cli.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d %s", args, code, errs)
		}
	}
	if _, _, code = w.cli("renew"); code != cli.ExitUsage {
		t.Errorf("renew without ids exits with %d", code)
	}
	if _, _, code = w.cli("status", "nothing-of-the-kind"); code != cli.ExitFailed {
		t.Errorf("an unknown id exits with %d", code)
	}
	w.write("batch.jsonl", `{"id":"b1","duration_days":30,"proxy_ids":["px_1"]}
{"id":"b2","duration_days":30,"proxy_ids":["px_2","px_3"]}
`, 0o600)
	for range 2 { // submitting again is harmless
		if out, errs, code = w.cli("submit", "batch.jsonl", "-o", "json"); code != 0 || !strings.Contains(out, `"completed":2`) {
			t.Fatalf("submit: exit %d %s%s", code, out, errs)
		}
	}
	checkLedgerCommands(t, w, 600+600+900)
	if code := run.terminate(); code != 0 {
		t.Errorf("run ends with %d after SIGTERM", code)
	}
	checkLedgerCommands(t, w, 600+600+900)
	if _, errs, code = w.cli("order", "--item", "off_us_1=1"); code != cli.ExitUnreachable || !strings.Contains(errs, "perennial run") {
		t.Errorf("without a runner: exit %d %s", code, errs)
	}
}

// checkLedgerCommands runs the ledger commands with and without a runner.
func checkLedgerCommands(t testing.TB, w *world, charged int64) {
	t.Helper()
	out, errs, code := w.cli("ledger", "balance", "-o", "json")
	var b tables.Balance
	if err := json.Unmarshal([]byte(out), &b); err != nil || code != 0 {
		t.Fatalf("balance: exit %d %s%s %v", code, out, errs, err)
	}
	if b.ChargedCents != charged || b.WalletCents != b.FundingCents-b.ExternalCents-(b.ChargedCents-b.RefundedCents) {
		t.Errorf("balance %+v, want %d charged", b, charged)
	}
	if out, errs, code = w.cli("ledger", "verify", "-o", "json"); code != 0 || !strings.Contains(out, `"ok":true`) {
		t.Errorf("verify: exit %d %s%s", code, out, errs)
	}
}

func TestASecondRunnerOnADirectorySaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.run()
	_, errs, code := w.cli("run")
	if code != cli.ExitFailed || !strings.Contains(errs, "data") || strings.Count(errs, "\n") > 4 {
		t.Errorf("exit %d\n%s", code, errs)
	}
}

// On an external NATS server, two runners do not work on one account at the same time. The second
// waits for the first.
func TestExternalNATSRunsUnderALease(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	w := newWorld(t, 5)
	w.configure(server.URL(), "")
	run, _ := w.run()
	out, errs, code := w.cli("renew", "px_1", "px_2", "--wait")
	if code != 0 {
		t.Fatalf("renew: exit %d %s%s", code, out, errs)
	}
	second := start(t, w.dir, "run", "--data", "data-2")
	var line daemon.ReadyLine
	second.ready(&line)
	waitForHTTP(t, line.HTTP+"/readyz?verbose", `"standby"`)
	if code := run.terminate(); code != 0 {
		t.Errorf("run ended with %d\n%s", code, run.stderr)
	}
	// The second runner takes the lease. Its ledger was empty, and now holds the history.
	waitForHTTP(t, line.HTTP+"/readyz?verbose", `"active"`)
	if out, errs, code := w.cli("renew", "px_3", "--wait"); code != 0 {
		t.Errorf("renew: exit %d %s%s", code, out, errs)
	}
	if code := second.terminate(); code != 0 {
		t.Errorf("it ended with %d\n%s", code, second.stderr)
	}
	if out, errs, code := w.cli("ledger", "verify", "data-2/main.ledger.db"); code != 0 {
		t.Errorf("verify: exit %d %s%s", code, out, errs)
	}
}

func waitForHTTP(t testing.TB, url, text string) {
	t.Helper()
	w := &world{t: t}
	var said string
	defer func() {
		if t.Failed() {
			t.Logf("%s says %q and not %q", url, said, text)
		}
	}()
	await(t, url+" says "+text, func() bool {
		body, err := w.get(url)
		said = body
		return err == nil && strings.Contains(body, text)
	})
}

func TestConfigurationMistakesAreNamed(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	account := "accounts: {main: {base_url: http://127.0.0.1:1, app_id: sbx_app_a, secret_file: s}}\n"
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":            {account + "htpp: {}\n", "htpp"},
		"no account":             {"data_dir: x\n", "accounts is empty"},
		"plain http":             {"accounts: {main: {base_url: http://example.com, app_id: sbx_app_a}}\n", "only https"},
		"plain http, live":       {"accounts: {main: {base_url: http://example.com, app_id: live_app_a}}\n", "only https"},
		"a password in a URL":    {"accounts: {main: {base_url: 'https://ada:canary@example.com', app_id: live_app_a}}\n", "no user"},
		"a secret for a file":    {"accounts: {main: {base_url: http://127.0.0.1:1, app_id: sbx_app_a, secret_file: canary}}\n", "names a file"},
		"NATS on every address":  {account + "nats: {listen: '0.0.0.0:4222'}\n", "loopback only"},
		"app id":                 {"accounts: {main: {base_url: https://example.com, app_id: app_a}}\n", "live_app_"},
		"anonymous NATS":         {"accounts: {main: {base_url: https://example.com, app_id: live_app_a}}\n", "nats.users"},
		"a user without roles":   {account + "nats: {users: [{user: app, password_file: main.secret}]}\n", "has no roles"},
		"an unknown role":        {account + "nats: {users: [{user: app, password_file: main.secret, roles: [{role: admin, accounts: [main]}]}]}\n", "producer, subscriber, viewer or operator"},
		"a role elsewhere":       {account + "nats: {users: [{user: app, password_file: main.secret, roles: [{role: producer, accounts: [mian]}]}]}\n", "not configured"},
		"a user twice":           {account + "nats: {users: [{user: app, password_file: main.secret, roles: [{role: producer, accounts: [main]}]}, {user: app, password_file: main.secret, roles: [{role: producer, accounts: [main]}]}]}\n", "names differ in more"},
		"names of one variable":  {account + "nats: {users: [{user: app-1, password_file: main.secret, roles: [{role: producer, accounts: [main]}]}, {user: App_1, password_file: main.secret, roles: [{role: operator, accounts: [main]}]}]}\n", "names differ in more"},
		"the runner's variable":  {account + "nats: {users: [{user: Perennial, password_file: main.secret, roles: [{role: producer, accounts: [main]}]}]}\n", "names differ in more"},
		"a user of no login":     {account + "nats: {users: [{user: app, roles: [{role: producer, accounts: [main]}]}]}\n", "one of password_file and creds_file"},
		"creds of the embedded":  {account + "nats: {users: [{user: app, creds_file: x, roles: [{role: producer, accounts: [main]}]}]}\n", "external server"},
		"our own user":           {account + "nats: {users: [{user: local, password_file: main.secret, roles: [{role: producer, accounts: [main]}]}]}\n", "choose another name"},
		"a name of two lines":    {account + "nats: {users: [{user: \"a\\nb\", password_file: main.secret, roles: [{role: producer, accounts: [main]}]}]}\n", "must be 1 to 64"},
		"a user's plain word":    {account + "nats: {users: [{user: app, password: canary, roles: [{role: producer, accounts: [main]}]}]}\n", "bcrypt"},
		"syncing the embedded":   {account + "nats: {sync_always: true}\n", "nats.sync_always"},
		"a user and no login":    {account + "nats: {url: 'nats://127.0.0.1:1', user: app}\n", "nats.password_file"},
		"a login for nothing":    {account + "nats: {password_file: main.secret}\n", "nats.url"},
		"two logins":             {account + "nats: {url: 'nats://127.0.0.1:1', password_file: main.secret, creds_file: x}\n", "exclude each other"},
		"renews for ever":        {account + "schedules: [{name: s, cron: '* * * * *', renew_before: 720h, duration_days: 30}]\n", "renew_before"},
		"no secret":              {"accounts: {main: {base_url: http://127.0.0.1:1, app_id: sbx_app_a}}\n", "PERENNIAL_MAIN_SECRET"},
		"readable secret":        {account, "chmod 600"},
		"account name":           {"accounts: {Main_1: {base_url: http://127.0.0.1:1, app_id: sbx_app_a}}\n", "Main_1"},
		"schedule of no account": {account + "schedules: [{name: s, account: x, cron: '* * * * *', renew_before: 72h, duration_days: 30}]\n", "account"},
		"not YAML":               {"accounts: [\n", "cannot be read"},
		"cron that is no cron":   {account + "schedules: [{name: s, cron: 'every day', renew_before: 72h, duration_days: 30}]\n", "cron"},
	} {
		t.Run(name, func(t *testing.T) {
			w.write("c.yaml", c.text, 0o600)
			w.write("s", "secret", 0o644)
			args := []string{"run", "--config", filepath.Join(w.dir, "c.yaml"), "--http", "127.0.0.1:0"}
			if !strings.Contains(c.text, "listen:") {
				args = append(args, "--nats-listen", "127.0.0.1:0")
			}
			_, errs, code := w.cli(args...)
			if code != cli.ExitUsage || !strings.Contains(errs, c.want) || strings.Contains(errs, "canary") {
				t.Errorf("exit %d, and it does not name %q:\n%s", code, c.want, errs)
			}
			if strings.Count(strings.TrimSpace(errs), "\n") > 2 {
				t.Errorf("an error has three lines at most:\n%s", errs)
			}
		})
	}
}
