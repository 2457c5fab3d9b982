package crashtest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/ledger/fact"
)

// request sends a command as a request, and returns its end, or an error's code and reason.
func (r *role) request(kind, body string, wait time.Duration) (out fact.CommandFinished, code string, err error) {
	r.t.Helper()
	m := &nats.Msg{
		Subject: "perennial.svc.main." + kind, Data: []byte(body),
		Header: nats.Header{"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
	}
	answer, err := r.RequestMsg(m, wait)
	if err != nil {
		return out, "", err
	}
	if code = answer.Header.Get("Nats-Service-Error-Code"); code != "" {
		out.Reason = answer.Header.Get("Nats-Service-Error")
		return out, code, nil
	}
	if err := json.Unmarshal(answer.Data, &out); err != nil {
		r.t.Fatalf("%s: %v", answer.Data, err)
	}
	return out, "", nil
}

// The answer has the end of the command, whatever it is. Repeating the request gives the same
// answer.
func TestACommandAsARequestIsAnsweredWithItsEnd(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world, _ *process, line daemon.ReadyLine) {
		prod := w.as(line, "prod")
		order := `{"id":"buy","items":[{"offer_code":"off_us_1","quantity":2}],"duration_days":30,"sandbox_scenario":"delayed"}`
		for range 2 {
			out, code, err := prod.request("order.create", order, patience)
			if err != nil || code != "" || out.State != "delivered" || out.LinesTotal != 2 || out.Totals.ChargedCents != 600 || out.Traceparent == "" || out.StreamSequence != 1 {
				t.Errorf("%v %s %+v", err, code, out)
			}
		}
		out, code, err := prod.request("proxy.renew", `{"id":"keep","proxy_ids":["px_1"],"duration_days":30}`, patience)
		if err != nil || code != "" || out.State != "completed" || out.Totals.ChargedCents != 300 {
			t.Errorf("%v %s %+v", err, code, out)
		}
		out, code, err = prod.request("order.create", strings.Replace(strings.Replace(order, `"quantity":2`, `"quantity":0`, 1), "buy", "none", 1), patience)
		if err != nil || code != "" || out.State != "rejected" || out.Reason == "" {
			t.Errorf("%v %s %+v", err, code, out)
		}
		for want, body := range map[string]string{"unreadable": "{", "conflict": strings.Replace(order, `"quantity":2`, `"quantity":1`, 1)} {
			if out, code, err := prod.request("order.create", body, patience); err != nil || code != want || out.Reason == "" {
				t.Errorf("%s: %v %s %+v", want, err, code, out)
			}
		}
		if _, _, err := w.as(line, "view").request("order.create", order, time.Second); err == nil {
			t.Error("a viewer orders")
		}
	})
}

// A killed runner leaves the request without an answer. When the client repeats it, the next runner
// answers with the end of the same command, which is executed once.
func TestARequestIsAskedAgainOverAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	outer := startOuterNATS(t, w)
	w.configure(outer.url(), "")
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "hang", "seconds": 2})
	run, _ := w.run()
	client := dial(t, outer.url())
	const renewal = `{"id":"r1","proxy_ids":["px_1"],"duration_days":30}`
	lost := make(chan error, 1)
	go func() {
		_, _, err := client.request("proxy.renew", renewal, 3*time.Second)
		lost <- err
	}()
	for out := ""; !strings.Contains(out, `"sending"`); {
		out, _, _ = w.cli("status", "r1", "-o", "json")
	}
	run.kill()
	if err := <-lost; err == nil {
		t.Error("a runner that is dead has answered")
	}
	_, line := w.run()
	w.readySays(line, ready)
	out, code, err := client.request("proxy.renew", renewal, patience)
	if err != nil || code != "" || out.State != "completed" || out.Totals.ChargedCents != 300 {
		t.Errorf("%v %s %+v", err, code, out)
	}
}
