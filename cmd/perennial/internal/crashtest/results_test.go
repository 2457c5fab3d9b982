package crashtest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// waits calls the verb wait over plain NATS, and repeats the request if a killed runner leaves it
// without an answer.
func (r *role) waits(id string, seconds int) verbs.WaitAnswer {
	r.t.Helper()
	end := time.Now().Add(patience)
	for time.Now().Before(end) {
		body := fmt.Sprintf(`{"id":%q,"timeout_seconds":%d}`, id, seconds)
		answer, err := r.Request("perennial.svc.main.wait", []byte(body), time.Duration(seconds+1)*time.Second)
		if err != nil || answer.Header.Get("Nats-Service-Error-Code") != "" {
			continue
		}
		var out verbs.WaitAnswer
		if err := json.Unmarshal(answer.Data, &out); err != nil {
			r.t.Fatalf("%s: %v", answer.Data, err)
		}
		if out.Finished {
			return out
		}
	}
	r.t.Fatalf("%s did not finish", id)
	return verbs.WaitAnswer{}
}

// A producer waits for its commands before they are accepted, while a fault delays the provider's
// reply, and over a kill of the runner.
func TestAProducerWaitsForItsCommandsOverAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	outer := startOuterNATS(t, w)
	w.configure(outer.url(), "")
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "hang", "seconds": 2})
	run, _ := w.run()
	client := dial(t, outer.url())
	publish := func(kind, body string) {
		if _, err := client.Request("perennial.commands.main."+kind, []byte(body), patience); err != nil {
			t.Fatal(err)
		}
	}
	publish("proxy.renew", `{"id":"r1","proxy_ids":["px_1"],"duration_days":30,"labels":{"ticket":"OPS-7"}}`)
	for out := ""; !strings.Contains(out, `"sending"`) && !strings.Contains(out, `"completed"`); {
		out, _, _ = w.cli("status", "r1", "-o", "json")
	}
	run.kill()
	publish("order.create", `{"id":"o1","items":[{"offer_code":"off_us_1","quantity":2}],"duration_days":30,"sandbox_scenario":"delayed"}`)
	publish("order.create", `{"id":"x1","items":[{"offer_code":"off_us_1","quantity":0}],"duration_days":30}`)
	w.run()
	renewed := client.waits("r1", 2).Result
	if renewed.State != "completed" || renewed.Totals.ChargedCents != 300 || renewed.Labels["ticket"] != "OPS-7" || renewed.LinesTotal != 1 {
		t.Errorf("%+v", renewed)
	}
	if line := renewed.Lines[0]; line.PreviousExpiresAt == nil || line.ExpiresAt == nil || line.ExpiresAt.Sub(*line.PreviousExpiresAt) != 30*24*time.Hour {
		t.Errorf("%+v", line)
	}
	bought := client.waits("o1", 2).Result
	if bought.State != "delivered" || bought.Totals.ChargedCents != 600 || bought.LinesTotal != 2 || bought.Operations[0].OrderNo == "" {
		t.Errorf("%+v", bought)
	}
	for _, line := range bought.Lines {
		if line.OfferCode != "off_us_1" || line.CountryCode != "US" || line.Region != "Dallas" || line.ExpiresAt == nil || *line.ChargedCents != 300 {
			t.Errorf("%+v", line)
		}
	}
	if refused := client.waits("x1", 2).Result; refused.State != "rejected" || refused.Code != fact.RejectedInvalid || refused.Reason == "" {
		t.Errorf("%+v", refused)
	}
	answer, err := client.Request("perennial.svc.main.wait", []byte(`{"id":"never","timeout_seconds":1}`), patience)
	if err != nil || answer.Header.Get("Nats-Service-Error-Code") != daemon.CodeNotFound {
		t.Errorf("an id that never came: %v %v", answer, err)
	}
	w.sumsOfTheStream(client)
}

// sumsOfTheStream adds up the booked amounts of all events, as a third party would, and compares
// them with the balance.
func (w *world) sumsOfTheStream(client *role) {
	w.t.Helper()
	var charged, refunded int64
	ids := map[string]bool{}
	for _, row := range w.journal(w.t) {
		event, err := row.Event("main")
		if err != nil {
			w.t.Fatal(err)
		}
		var e struct {
			ID   string `json:"id"`
			Data struct {
				Booked *fact.Booked `json:"booked"`
			} `json:"data"`
		}
		if err := json.Unmarshal(event, &e); err != nil {
			w.t.Fatal(err)
		}
		if ids[e.ID] {
			w.t.Errorf("two events are %s", e.ID)
		}
		ids[e.ID] = true
		if b := e.Data.Booked; b != nil {
			charged, refunded = charged+b.ChargedCents, refunded+b.RefundedCents
		}
	}
	var balance tables.Balance
	if err := json.Unmarshal([]byte(client.verb("balance", "{}")), &balance); err != nil {
		w.t.Fatal(err)
	}
	if charged != balance.ChargedCents || refunded != balance.RefundedCents || charged == 0 {
		w.t.Errorf("the events sum to %d and %d, the balance is %+v", charged, refunded, balance)
	}
}

// publishFor publishes a command that names an inbox, and subscribes to the inbox.
func (r *role) publishFor(kind, body, inbox string) *nats.Subscription {
	r.t.Helper()
	answers, err := r.SubscribeSync(inbox)
	if err != nil {
		r.t.Fatal(err)
	}
	m := &nats.Msg{Subject: "perennial.commands.main." + kind, Data: []byte(body), Header: nats.Header{"Perennial-Reply-To": {inbox}}}
	if _, err := r.RequestMsg(m, patience); err != nil {
		r.t.Fatal(err)
	}
	return answers
}

// answered returns the next answer at an inbox.
func answered(t testing.TB, answers *nats.Subscription) (out struct {
	fact.CommandFinished

	Error string `json:"error"`
}) {
	t.Helper()
	answer, err := answers.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(answer.Data, &out); err != nil {
		t.Fatalf("%s: %v", answer.Data, err)
	}
	return out
}

func TestACommandIsAnsweredOnItsInbox(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world, _ *process, line daemon.ReadyLine) {
		prod := w.as(line, "prod")
		order := `{"id":"buy","items":[{"offer_code":"off_us_1","quantity":1}],"duration_days":30,"sandbox_scenario":"delayed"}`
		first := prod.publishFor("order.create", order, prod.NewInbox())
		repeated := prod.publishFor("order.create", order, prod.NewInbox())
		for name, answers := range map[string]*nats.Subscription{"first": first, "repeated": repeated} {
			if out := answered(t, answers); out.State != "delivered" || out.CommandID != "buy" || out.LinesTotal != 1 || out.Error != "" {
				t.Errorf("%s: %+v", name, out)
			}
		}
		again := prod.publishFor("order.create", order, prod.NewInbox())
		if out := answered(t, again); out.State != "delivered" {
			t.Errorf("behind its end: %+v", out)
		}
		for name, c := range map[string]struct{ body, err, state string }{
			"unreadable": {"{", "unreadable", ""},
			"conflict":   {strings.Replace(order, `"quantity":1`, `"quantity":2`, 1), "conflict", ""},
			"refused":    {strings.Replace(strings.Replace(order, `"quantity":1`, `"quantity":0`, 1), `"buy"`, `"bad"`, 1), "", "rejected"},
		} {
			out := answered(t, prod.publishFor("order.create", c.body, prod.NewInbox()))
			if out.Error != c.err || out.State != c.state || out.Reason == "" {
				t.Errorf("%s: %+v", name, out)
			}
		}
	})
}

// A runner is killed between the end of a command and its answer. It answers after its restart.
func TestAnInboxIsAnsweredOverAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	outer := startOuterNATS(t, w)
	w.configure(outer.url(), "")
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "hang", "seconds": 2})
	run, _ := w.run()
	client := dial(t, outer.url())
	answers := client.publishFor("proxy.renew", `{"id":"r1","proxy_ids":["px_1"],"duration_days":30}`, client.NewInbox())
	for out := ""; !strings.Contains(out, `"sending"`) && !strings.Contains(out, `"completed"`); {
		out, _, _ = w.cli("status", "r1", "-o", "json")
	}
	run.kill()
	w.run()
	if out := answered(t, answers); out.State != "completed" || out.Totals.ChargedCents != 300 {
		t.Errorf("%+v", out)
	}
}

func TestEveryEventOfACommandCarriesItsTrace(t *testing.T) {
	t.Parallel()
	const parent, state = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "rojo=00f067aa0ba902b7"
	w := newWorld(t, 2)
	_, line := w.run()
	client := dial(t, line.NATS)
	for id, header := range map[string]nats.Header{
		"traced": {"traceparent": {parent}, "tracestate": {state}}, "plain": nil, "broken": {"traceparent": {"00-x"}, "tracestate": {state}},
	} {
		body := fmt.Sprintf(`{"id":%q,"proxy_ids":["px_1"],"duration_days":30}`, id)
		if _, err := client.RequestMsg(&nats.Msg{Subject: "perennial.commands.main.proxy.renew", Data: []byte(body), Header: header}, patience); err != nil {
			t.Fatal(err)
		}
		client.waits(id, 5)
	}
	// A command ends before its last event is on the stream.
	await(t, "the end of each command is on the stream", func() bool {
		ends := 0
		for _, m := range w.published(line) {
			if strings.HasSuffix(m.Subject, ".command.finished") {
				ends++
			}
		}
		return ends >= 3
	})
	of := map[string]int{}
	for _, m := range w.published(line) {
		var e struct {
			Traceparent string `json:"traceparent"`
			Tracestate  string `json:"tracestate"`
			DataSchema  string `json:"dataschema"`
			Type        string `json:"type"`
			Data        struct {
				CommandID string `json:"command_id"`
			} `json:"data"`
		}
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		want, wantState := "", ""
		if e.Data.CommandID == "traced" {
			want, wantState = parent, state
		}
		if e.Traceparent != want || m.Header.Get("traceparent") != want || e.Tracestate != wantState || m.Header.Get("tracestate") != wantState {
			t.Errorf("%s of %q: %q %q, headers %v", e.Type, e.Data.CommandID, e.Traceparent, e.Tracestate, m.Header)
		}
		if m.Header.Get("content-type") != "application/cloudevents+json" || !strings.HasPrefix(e.DataSchema, "urn:perennial:schema:") {
			t.Errorf("%s: %v %q", e.Type, m.Header, e.DataSchema)
		}
		of[e.Data.CommandID]++
	}
	if of["traced"] < 4 {
		t.Errorf("%v", of)
	}
}

func TestAnUnknownIdIsNotFoundEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	_, line := w.run()
	w.readySays(line, ready)
	nc, err := nats.Connect(line.NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const who = `"by":"ada","reason":"x"`
	for verb, body := range map[string]string{
		"status": `{"id":"none"}`, "wait": `{"id":"none"}`, "lines": `{"id":"none"}`, "evidence": `{"id":"none"}`,
		"release": `{"id":"none",` + who + `}`, "cancel": `{"id":"none",` + who + `}`, "retry": `{"id":"none",` + who + `}`,
		"resolve": `{"id":"none","charged":false,` + who + `}`, "plan": `{"schedule":"none"}`, "sweep": `{"schedule":"none",` + who + `}`,
		"approve": `{"plan":"none",` + who + `}`, "schedule-pause": `{"schedule":"none",` + who + `}`, "schedule-resume": `{"schedule":"none",` + who + `}`,
		"reveal": `{"proxy_id":"none",` + who + `}`, "dead-requeue": `{"seq":99,` + who + `}`, "dead-drop": `{"seq":99,` + who + `}`,
	} {
		answer, err := nc.Request("perennial.svc.main."+verb, []byte(body), patience)
		if err != nil {
			t.Fatal(err)
		}
		if code := answer.Header.Get("Nats-Service-Error-Code"); code != daemon.CodeNotFound {
			t.Errorf("%s: %q %s", verb, code, answer.Data)
		}
	}
}

func (w *world) journal(t testing.TB) []chain.Row {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(w.dir, "data", "main.ledger.db"), ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	rows, err := l.Rows(t.Context(), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
