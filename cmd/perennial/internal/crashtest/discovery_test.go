//go:build check

package crashtest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// fits checks a JSON text against a schema from the verb's metadata.
func fits(t testing.TB, what, schema string, text []byte) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatalf("%s: %v: %s", what, err, schema)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:schema", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:schema")
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatalf("%s: %v: %s", what, err, text)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s: %v\n%s", what, err, text)
	}
}

// everyVerb is requests that a busy account answers.
var everyVerb = []struct{ verb, body string }{
	{"order.create", `{"id":"asked","items":[{"offer_code":"off_us_1","quantity":1}],"duration_days":30}`},
	{"proxy.renew", `{"id":"asked-2","proxy_ids":["px_5"],"duration_days":30}`},
	{"status", `{"id":"bought"}`},
	{"status", `{"id":"renewed"}`},
	{"status", `{"id":"torn"}`},
	{"status", `{"id":"refused"}`},
	{"states", `{"ids":["bought","never"]}`},
	{"wait", `{"id":"renewed","timeout_seconds":1}`},
	{"wait", `{"id":"torn"}`},
	{"lines", `{"id":"bought","after":0,"limit":1}`},
	{"lines", `{"id":"refused"}`},
	{"list", `{"all":true,"limit":100}`},
	{"list", `{"since":"2026-01-01T00:00:00Z","labels":{"none":"such"}}`},
	{"balance", `{}`},
	{"show", `{}`},
	{"summary", `{}`},
	{"sweeps", `{}`},
	{"plan", `{"schedule":"keep"}`},
	{"sweep", `{"schedule":"keep","by":"ada","reason":"a test"}`},
	{"plan", `{"plan":"PLAN"}`},
	{"decline", `{"plan":"PLAN","by":"ada","reason":"a test"}`},
	{"sweep", `{"schedule":"keep","by":"ada","reason":"a test"}`},
	{"approve", `{"plan":"PLAN","by":"ada","reason":"a test"}`},
	{"forecast", `{"days":3}`},
	{"forecast", `{"schedule":"keep","days":3}`},
	{"reconcile", `{}`},
	{"record", `{"kind":"top-up","cents":100,"id":"card-1","by":"ada","reason":"a test"}`},
	{"evidence", `{"id":"torn"}`},
	{"proxies", `{"limit":2}`},
	{"proxy", `{"proxy_id":"px_1"}`},
	{"resolve", `{"id":"torn","line":"px_2","charged":true,"charged_cents":300,"by":"ada","reason":"a test"}`},
	{"retire", `{"proxy_ids":["px_1"],"by":"ada","reason":"a test"}`},
	{"reveal", `{"proxy_id":"px_1","by":"ada","reason":"a test"}`},
	{"dead-requeue", `{"seq":1,"by":"ada","reason":"a test"}`},
	{"dead-drop", `{"seq":2,"by":"ada","reason":"a test"}`},
	{"retry", `{"id":"poor","by":"ada","reason":"a test"}`},
	{"cancel", `{"id":"dear","by":"ada","reason":"a test"}`},
	{"release", `{"id":"dear-2","by":"ada","reason":"a test"}`},
	{"schedule-pause", `{"schedule":"keep","until":"2100-01-01T00:00:00Z","by":"ada","reason":"a test"}`},
	{"sweeps", `{}`},
	{"schedule-resume", `{"schedule":"keep","by":"ada","reason":"a test"}`},
	{"pause", `{"by":"ada","reason":"a test"}`},
	{"resume", `{"by":"ada","reason":"a test"}`},
}

// NATS shows the schema to any client.
func TestEveryVerbAnswersAsItsSchemaSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 6)
	w.configure("", `    daily_limit_cents: 5000
schedules:
  - {name: keep, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30, approve_over_cents: 1, match: {proxy_ids: [px_3, px_4]}}
`)
	_, line := w.run()
	w.mustCLI(strings.Fields("order --item off_us_1=2 --id bought --wait")...)
	w.mustCLI(strings.Fields("renew px_1 --id renewed --wait")...)
	w.cli(strings.Fields("order --item off_none=1 --id refused --wait")...)
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "renewal", "unresolved": 1})
	w.cli(strings.Fields("renew px_2 --id torn --wait")...)
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/orders", "fault": "code", "code": "insufficient_wallet_balance", "http_status": 400})
	w.cli(strings.Fields("order --item off_us_1=1 --id poor --wait")...)
	w.cli(strings.Fields("order --item off_us_1=20 --id dear --wait")...)
	w.cli(strings.Fields("order --item off_us_1=20 --id dear-2 --wait")...)
	nc, err := nats.Connect(line.NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range 2 { // two dead letters
		if err := nc.Publish("perennial.commands.main.proxy.renew", []byte("no command")); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "they are dead letters", func() bool { return strings.Count(w.mustCLI("dead", "list", "-o", "json"), "\n") == 2 })
	verbs, plan, left := described(t, nc), "", maps.Clone(described(t, nc))
	for _, x := range everyVerb {
		body := strings.Replace(x.body, "PLAN", plan, 1)
		schemas := verbs[x.verb]
		fits(t, x.verb+" "+body, schemas["request_schema"], []byte(body))
		answer, err := nc.Request("perennial.svc.main."+x.verb, []byte(body), patience)
		if err != nil {
			t.Fatal(err)
		}
		if why := answer.Header.Get(micro.ErrorHeader); why != "" {
			t.Fatalf("%s %s: %s", x.verb, body, why)
		}
		fits(t, "the answer to "+x.verb+" "+body, schemas["response_schema"], answer.Data)
		delete(left, x.verb)
		if x.verb == "sweep" {
			var made struct{ Plan string }
			if err := json.Unmarshal(answer.Data, &made); err != nil {
				t.Fatal(err)
			}
			plan = made.Plan
		}
	}
	if len(left) > 0 {
		t.Errorf("no answer of %v was read", slices.Sorted(maps.Keys(left)))
	}
}

// A dead letter, the answer at its inbox, and an event fit the printed AsyncAPI document, headers
// included.
func TestMessagesFitTheDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	_, line := w.run()
	w.mustCLI(strings.Fields("renew px_1 --id renewed --wait")...)
	client := dial(t, line.NATS)
	answers := client.publishFor("order.create", "no command", client.NewInbox())
	refused, err := answers.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal([]byte(w.mustCLI("schema")), &document); err != nil {
		t.Fatal(err)
	}
	schema := func(name string) string { return string(document.Components.Schemas[name]) }
	fits(t, "what comes to an inbox", schema("inbox.refused"), refused.Data)
	js, err := client.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	for stream, of := range map[string][2]string{"PERENNIAL_DEAD_main": {"headers.dead", "dead"}, "PERENNIAL_EVENTS_main": {"headers.event", "ledger.opened"}} {
		m, err := js.GetMsg(stream, 1)
		if err != nil {
			t.Fatal(err)
		}
		headers := map[string]string{}
		for name := range m.Header {
			headers[name] = m.Header.Get(name)
		}
		text, err := json.Marshal(headers)
		if err != nil {
			t.Fatal(err)
		}
		fits(t, stream, schema(of[0]), text)
		fits(t, stream, schema(of[1]), m.Data)
	}
}
