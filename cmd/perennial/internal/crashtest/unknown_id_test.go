package crashtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/queue"
)

// described returns the verbs of the account main with their metadata, as NATS shows them to any
// client.
func described(t testing.TB, nc *nats.Conn) map[string]map[string]string {
	t.Helper()
	m, err := nc.Request("$SRV.INFO.perennial-main", nil, patience)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	verbs := map[string]map[string]string{}
	for _, e := range info.Endpoints {
		verbs[strings.TrimPrefix(e.Subject, "perennial.svc.main.")] = e.Metadata
	}
	return verbs
}

func TestAnUnknownIDIsNotFoundByEveryVerb(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.configure("", `schedules:
  - {name: keep, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30}
`)
	_, line := w.run()
	w.mustCLI(strings.Fields("renew px_1 --id known --wait")...)
	nc, err := nats.Connect(line.NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const signed = `"by":"ada","reason":"a test"`
	asked := map[string]bool{}
	for _, x := range []struct{ verb, body string }{
		{"status", `{"id":"ID"}`}, {"wait", `{"id":"ID"}`}, {"lines", `{"id":"ID"}`}, {"evidence", `{"id":"ID"}`},
		{"release", `{"id":"ID",` + signed + `}`}, {"cancel", `{"id":"ID",` + signed + `}`}, {"retry", `{"id":"ID",` + signed + `}`},
		{"resolve", `{"id":"ID","charged":false,` + signed + `}`},
		{"resolve", `{"id":"ID","line":"px_1","charged":true,"charged_cents":300,` + signed + `}`},
		{"resolve", `{"id":"known/0001","line":"ID","charged":true,"charged_cents":300,` + signed + `}`},
		{"plan", `{"schedule":"ID"}`}, {"plan", `{"plan":"ID"}`}, {"sweep", `{"schedule":"ID",` + signed + `}`}, {"approve", `{"plan":"ID",` + signed + `}`}, {"decline", `{"plan":"ID",` + signed + `}`},
		{"forecast", `{"schedule":"ID","days":3}`}, {"schedule-pause", `{"schedule":"ID",` + signed + `}`}, {"schedule-resume", `{"schedule":"ID",` + signed + `}`},
		{"retire", `{"proxy_ids":["ID"],` + signed + `}`}, {"retire", `{"proxy_ids":["px_1","ID"],` + signed + `}`}, {"retire", `{"proxy_ids":["ID"],"undo":true,` + signed + `}`},
		{"reveal", `{"proxy_id":"ID",` + signed + `}`}, {"proxy", `{"proxy_id":"ID"}`},
	} {
		asked[x.verb] = true
		for _, id := range []string{"never", "never/0001", "known/0099", "*", strings.Repeat("n", 600_000)} {
			body := strings.Replace(x.body, "ID", id, 1)
			answer, err := nc.Request("perennial.svc.main."+x.verb, []byte(body), patience)
			if err != nil {
				t.Fatal(err)
			}
			if code := answer.Header.Get(micro.ErrorCodeHeader); code != daemon.CodeNotFound || len(answer.Data) > 2000 {
				t.Errorf("%s %.100s is %q: %.300s", x.verb, body, code, answer.Data)
			}
		}
	}
	for request, says := range map[string]string{`status {}`: "say one of id", `proxy {"proxy_id":"never"}`: "there is no proxy", `dead-requeue {"seq":-1,` + signed + `}`: "must be a whole number, 0 or more"} {
		verb, body, _ := strings.Cut(request, " ")
		answer, err := nc.Request("perennial.svc.main."+verb, []byte(body), patience)
		if err != nil || !strings.Contains(string(answer.Data), says) {
			t.Errorf("%s: %v %s", request, err, answer.Data)
		}
	}
	for verb, metadata := range described(t, nc) {
		takes := false
		for _, field := range []string{`"id"`, `"schedule"`, `"plan"`, `"proxy_ids"`, `"proxy_id"`} {
			takes = takes || strings.Contains(metadata["request_schema"], field+":{")
		}
		if takes != asked[verb] && verb != "record" && queue.ValidKind(queue.Kind(verb)) != nil { // the caller chooses these IDs
			t.Errorf("%s takes an id: %v, and is asked: %v", verb, takes, asked[verb])
		}
	}
}

// Each command prints one line with the reason.
func TestCommandsOfTheLineFailForAnUnknownID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.run()
	const none = "there is no command or operation"
	for args, says := range map[string]string{
		"status ID": none, "retry ID --by ada --reason x": "ID is not", "cancel ID --by ada --reason x": "ID is not", "release ID --by ada --reason x": "ID is not",
		"review show ID": "there is no operation \"ID\"", "review resolve ID --not-charged --by ada --reason x": "ID is not",
		"proxies get ID": "proxy_not_found", "proxies retire ID --by ada --reason x": `"ID" was never`, "orders get ID": "order_not_found",
		"sweep plan ID": "no schedule", "sweep run ID --by ada --reason x": "no schedule", "sweep forecast ID": "no schedule", "sweep approve ID --by ada --reason x": "no plan with this hash", "schedules decline ID --by ada --reason x": "no plan with this hash",
		"dead show 77": "no such dead letter", "dead requeue 77": "no such dead letter", "dead drop 77": "no such dead letter",
	} {
		unknown := strings.NewReplacer("ID", "px-never")
		_, errs, code := w.cli(strings.Fields(unknown.Replace(args))...)
		if code != cli.ExitFailed || !strings.Contains(errs, unknown.Replace(says)) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d\n%s", args, code, errs)
		}
	}
}
