package crashtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// replyRow is a row of the reply table (state-machine.md): a reply of the provider, and the state
// in which a command ends without a person. first holds for a reply to the first attempt. later
// holds for a reply to a retry, after an executed attempt whose reply was lost. "done" stands for
// delivered or completed.
type replyRow struct {
	name         string
	reply        spoil
	first, later string
}

// replyRows returns the rows in groups, and each group shares one run. A row that pauses the
// account has its own group, because consecutive pauses grow longer.
func replyRows() map[string][]replyRow {
	coded := func(code upstream.Code, status int) spoil {
		return spoil{status: status, body: failure(string(code), "words")}
	}
	rows := []replyRow{
		{"success", spoil{through: true}, "done", "done"},
		{"success that lacks everything", spoil{executed: true, body: `{"success":true,"code":"ok","data":{}}`}, "done", "done"},
		{"success with HTTP 500", spoil{executed: true, status: http.StatusInternalServerError}, "review", "review"},
		{"success true and another code", spoil{body: strings.Replace(failure("validation_error", ""), "false", "true", 1)}, "review", "review"},
		{"success false and code ok", spoil{body: failure("ok", "")}, "review", "review"},
		{"a reset", spoil{drop: true}, "done", "done"},
		{"a reset behind the execution", spoil{executed: true, drop: true}, "done", "done"},
		{"half a reply", spoil{executed: true, raw: func(text string) string {
			return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text[:len(text)/2])
		}}, "done", "done"},
		{"a redirect", spoil{executed: true, status: http.StatusTemporaryRedirect, header: "Location: /api/v1/wallet"}, "done", "done"},
		{"HTTP 500", spoil{status: http.StatusInternalServerError, body: "Internal Server Error"}, "done", "done"},
		{"HTTP 500 behind the execution", spoil{executed: true, status: http.StatusInternalServerError, body: "Internal Server Error"}, "done", "done"},
		{"a firewall's 403", spoil{status: http.StatusForbidden, body: "<html>no</html>"}, "done", "done"},
		{"a gateway's 401", spoil{status: http.StatusUnauthorized, body: "<html>who</html>"}, "done", "done"},
		{"no JSON", spoil{executed: true, body: `{"success":tru`}, "done", "done"},
		{"no envelope", spoil{executed: true, body: `{"ok":1}`}, "done", "done"},
		{"more than 16 MiB", spoil{executed: true, raw: func(text string) string {
			return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", 1<<40, text)
		}}, "done", "done"},
	}
	for end, codes := range map[string]map[upstream.Code]int{
		"refused": {upstream.CodeValidationError: 422, upstream.CodeOfferNotFound: 404, upstream.CodeProxyNotFound: 404, upstream.CodeUnsupportedOperation: 400,
			upstream.CodeInsufficientWallet: 402},
		"frozen": {upstream.CodeOperationFailed: 422, upstream.CodeProxyEndpointUnavailable: 503, upstream.CodeIdempotencyUnresolved: 409,
			upstream.CodeIdempotencyKeyConflict: 409, upstream.CodeOrderNotFound: 404, "account_frozen": 409},
		"again": {upstream.CodeIdempotencyProcessing: 409, upstream.CodeIdempotencyReplayFailed: 409, upstream.CodeReplayedNonce: 401},
	} {
		for code, status := range codes {
			ends := map[string][2]string{"refused": {"rejected", "review"}, "frozen": {"review", "review"}, "again": {"done", "done"}}[end]
			rows = append(rows, replyRow{string(code), coded(code, status), ends[0], ends[1]})
		}
	}
	groups := map[string][]replyRow{"replies": rows}
	for code, status := range map[upstream.Code]int{
		upstream.CodeInsufficientScope: 403, upstream.CodeInvalidSignature: 401, upstream.CodeStaleTimestamp: 401, upstream.CodeAPIKeyRevoked: 403,
	} {
		groups[string(code)] = []replyRow{{string(code), coded(code, status), "done", "done"}}
	}
	for name, body := range map[string]string{"HTTP 429": "slow down", "HTTP 429 and a code of tomorrow": failure("slow_down", ""), "rate_limited": failure("rate_limited", "")} {
		groups["rate_limited"] = append(groups["rate_limited"], replyRow{name, spoil{status: http.StatusTooManyRequests, header: "Retry-After: 1", body: body}, "done", "done"})
	}
	return groups
}

// matrix has a command for each row, position and kind, and the state in which each must end.
type matrix struct {
	commands crashed
	scripts  []*script
	want     map[string]string
}

func (m *matrix) add(r replyRow) {
	lost := spoil{executed: true, drop: true}
	for position, steps := range map[string][]spoil{"first": {r.reply}, "later": {lost, r.reply}} {
		n := len(m.commands)/2 + 1
		want := map[string]string{"first": r.first, "later": r.later}[position]
		for kind, c := range map[string]struct{ done, holds, more string }{
			"order.create": {"delivered", fmt.Sprintf(`"quantity":%d}`, n), fmt.Sprintf(`"items":[{"offer_code":"off_us_1","quantity":%d}]`, n)},
			"proxy.renew":  {"completed", fmt.Sprintf(`"px_%d"`, n), fmt.Sprintf(`"proxy_ids":["px_%d"]`, n)},
		} {
			id := fmt.Sprintf("%s, %s: %s", r.name, position, kind)
			m.commands = append(m.commands, published{id: id, subject: "perennial.commands.main." + kind, body: fmt.Appendf(nil, `{"id":%q,"duration_days":30,%s}`, id, c.more)})
			m.scripts = append(m.scripts, &script{method: http.MethodPost, holds: c.holds, steps: append([]spoil(nil), steps...)})
			m.want[id] = strings.Replace(want, "done", c.done, 1)
		}
	}
}

// One real run gets every row of the reply table, for a first attempt and for a retry, of an order
// and of a renewal. Each command ends as the table says. An operator resolves the reviews from the
// referee's records. Afterwards ledger, referee, wallet and events agree.
func TestFaultMatrix(t *testing.T) {
	t.Parallel()
	for name, rows := range replyRows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := matrix{want: map[string]string{}}
			for _, r := range rows {
				m.add(r)
			}
			m.run(t)
		})
	}
}

func (m *matrix) run(t testing.TB) {
	w := newWorld(t, 120)
	w.spoiled(m.scripts...)
	run, line := w.run()
	m.commands.publish(t, line.NATS)
	ends := w.ends(line.NATS, m.commands.ids()...)
	var settled []string
	for id, status := range ends {
		if status.State != m.want[id] {
			t.Errorf("%s: %s, not %s: %s", id, status.State, m.want[id], status.Reason)
		}
		if status.State == "review" {
			w.answerAsTheReferee(line, status)
		} else {
			settled = append(settled, id)
		}
	}
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("exit %d\n%s", code, run.stderr)
	}
	checkBooks(t, w, settled)
}

// answerAsTheReferee resolves a review, as an operator who has asked the provider would.
func (w *world) answerAsTheReferee(line daemon.ReadyLine, status inspect.CommandStatus) {
	w.t.Helper()
	charges, err := sandbox.ReadCharges(w.charges)
	if err != nil {
		w.t.Fatal(err)
	}
	q, err := queue.Connect(queue.ConnectConfig{URL: line.NATS})
	if err != nil {
		w.t.Fatal(err)
	}
	defer q.Close()
	for _, o := range status.Operations {
		answer := desk.Resolution{ID: o.OperationID, Charged: new(bool), By: "ada", Reason: "the provider said so"}
		for _, c := range charges {
			if c.IdempotencyKey == o.IdempotencyKey {
				*answer.Charged = true
				answer.ChargedCents += c.AmountCents
			}
		}
		answer.ConfirmCents = &answer.ChargedCents
		if err := request(w.t.Context(), q, "resolve", answer, &struct{}{}); err != nil {
			w.t.Errorf("%s: %v", o.OperationID, err)
		}
	}
}

// idempotency_key_required needs a person, for a first attempt and for a retry.
func TestFaultMatrixHeadersThatAreTakenAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 120)
	m := matrix{want: map[string]string{}}
	m.add(replyRow{"idempotency_key_required", spoil{status: http.StatusBadRequest, body: failure("idempotency_key_required", "")}, "rejected", "review"})
	w.spoiled(m.scripts...)
	run, line := w.run()
	var settled []string
	for i := range m.commands {
		m.commands[i:i+1].publish(t, line.NATS)
		id := m.commands[i].id
		status := w.ends(line.NATS, id)[id]
		if status.State != m.want[id] {
			t.Errorf("%s: %s, not %s: %s", id, status.State, m.want[id], status.Reason)
		}
		var shown verbs.AccountView
		if err := json.Unmarshal([]byte(w.mustCLI("account", "show", "-o", "json")), &shown); err != nil || len(shown.Paused) != 1 || shown.Paused[0].Cause != "idempotency_key_required" {
			t.Errorf("%+v %v", shown.Paused, err)
		}
		w.mustCLI("account", "resume", "--by", "ada", "--reason", "the gateway passes headers again")
		if status.State == string(fact.StateReview) {
			w.answerAsTheReferee(line, status)
		} else {
			settled = append(settled, id)
		}
	}
	run.terminate()
	checkBooks(t, w, settled)
}
