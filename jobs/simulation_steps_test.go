package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/upstream/sandbox"
)

// chaos takes steps in an order that the seed decides, with every possible fault.
func (s *simulation) chaos(ctx context.Context) {
	s.faulty = true
	steps := []func(context.Context){ // as often as they are listed here
		s.publish, s.publish, s.publishAgain, s.deliver, s.deliver, s.work, s.work, s.work, s.work, s.pass, s.pass, s.breakSomething, s.arriveLate, s.crashSoon,
		s.mind, s.otherMood, s.person, s.person, s.twoSchedules, s.quiet, s.reconfigure, s.work, s.crashSoon, s.reconcile, s.outside,
	}
	for range 60 + s.random.IntN(60) {
		if s.runner == nil {
			s.alive(func() { s.begin(ctx) })
		}
		s.step(ctx, pick(s, steps...))
	}
}

// step takes one step, and checks what must never happen.
func (s *simulation) step(ctx context.Context, do func(context.Context)) {
	s.counts.steps++
	s.alive(func() { do(ctx) })
	s.endLost()
	if s.faulty {
		s.amongMachines(ctx)
	}
	s.referee()
	rows, err := s.ledger.Rows(ctx, s.rows, 1000)
	s.must(err, "rows")
	for _, r := range rows {
		s.sayf("  %d %s %s%s", r.Seq, r.Type, r.Operation, s.leftOutBy(r))
		s.rows = r.Seq
		s.unlearned = s.unlearned && r.Type != "renewal.completed"
		s.intended[r.Operation] = s.intended[r.Operation] || r.Type == "operation.sending"
		s.noteWait(r)
	}
}

// noteWait counts the reason of a wait in a row. The reason must be in the table.
func (s *simulation) noteWait(r chain.Row) {
	f, err := fact.Decode(r.Type, []byte(r.Data))
	s.must(err, "row")
	of, reason := waitOf(f)
	if of == "" {
		return
	}
	if !slices.ContainsFunc(allWaits(), func(w wait) bool { return w.Of == of && w.Reason == reason }) {
		s.failf("row %d, %s: the %s waits for %q, which is in no table", r.Seq, r.Type, of, reason)
	}
	s.counts.waits[of+" "+reason]++
}

// leftOutBy records which proxies a row skipped, and returns the reasons.
func (s *simulation) leftOutBy(r chain.Row) (reasons string) {
	var f fact.ProxySkipped
	if r.Type != "proxy.skipped" || json.Unmarshal([]byte(r.Data), &f) != nil {
		return ""
	}
	for _, x := range f.Proxies() {
		s.leftOut[f.CommandID+" "+x.ProxyID] = true
		reasons += " " + x.ProxyID + ": " + x.Reason
	}
	return reasons
}

func (s *simulation) publish(context.Context) {
	body := map[string]any{"duration_days": pick(s, 30, 30, 60)}
	if s.chance(2) {
		s.anOrder(body)
	} else {
		s.aRenewal(body)
	}
	if s.chance(6) {
		body["max_total_cents"] = pick(s, 200, 700, 5000)
	}
	s.publishOne(body)
}

func (s *simulation) anOrder(body map[string]any) {
	item := map[string]any{"offer_code": "off_us_dallas", "quantity": 1 + s.random.IntN(3)}
	if s.config.field != "" && s.chance(4) {
		item["cidrs"] = []string{"198.51.100.0/25"}
	}
	items := []map[string]any{item}
	if s.chance(4) {
		items = append(items, map[string]any{"offer_code": pick(s, "off_de_frankfurt", "off_de_frankfurt", "off_us_dallas", "off_nowhere"), "quantity": 1})
	}
	body["items"] = items
	if scenario := pick(s, "", "", "delayed", "partial", "rejected"); scenario != "" {
		body["sandbox_scenario"] = scenario
	}
}

func (s *simulation) aRenewal(body map[string]any) {
	ids := map[string]bool{}
	for range 1 + s.random.IntN(4) {
		ids[fmt.Sprintf("px_%d", 1+s.random.IntN(8))] = true
	}
	if s.chance(12) {
		ids["px_nowhere"] = true
	}
	body["proxy_ids"] = slices.Sorted(maps.Keys(ids))
	switch s.random.IntN(5) {
	case 0, 1:
		body["due_before"] = s.time.Add(pick(s, 60*24*time.Hour, 20*24*time.Hour, 24*time.Hour))
	case 2:
		expect := map[string]string{}
		for id := range ids {
			if at := s.shown[id]; at != "" {
				expect[id] = at
			}
		}
		if len(expect) == len(ids) {
			body["expect_expires_at"] = expect
		}
	}
}

// publishOne publishes a command and keeps it.
func (s *simulation) publishOne(body map[string]any) {
	s.publishAs(fmt.Sprintf("c%d", len(s.commands)+1), body)
}

func (s *simulation) publishAs(id string, body map[string]any) {
	c := simCommand{id: id, kind: queue.KindOrderCreate}
	body["id"] = c.id
	if body["proxy_ids"] != nil {
		c.kind = queue.KindProxyRenew
	}
	s.guarded[c.id] = body["due_before"] != nil || body["expect_expires_at"] != nil
	text, err := json.Marshal(body)
	s.must(err, "command")
	c.body = text
	s.commands = append(s.commands, c)
	s.counts.commands++
	s.sayf("publish %s", text)
	s.store(c.kind, c.id, c.body)
}

// publishAgain publishes an earlier message, sometimes with other content, and sometimes
// something that is not a command.
func (s *simulation) publishAgain(context.Context) {
	if len(s.commands) == 0 {
		return
	}
	c := pick(s, s.commands...)
	switch s.random.IntN(12) {
	case 0:
		s.store(c.kind, c.id, []byte(strings.Replace(string(c.body), `"duration_days":`, `"labels":{"x":"y"},"duration_days":`, 1)))
	case 1:
		s.store(c.kind, c.id, []byte(`{"id":`))
	default:
		s.store(c.kind, c.id, c.body)
	}
	s.sayf("publish again %s", c.id)
}

// deliver passes the due messages to the intake.
func (s *simulation) deliver(ctx context.Context) {
	r := s.runner
	if r == nil {
		return
	}
	messages, err := s.stream.Fetch(ctx, 1+s.random.IntN(6))
	s.must(err, "fetch")
	s.reached("intake.delivered")
	var arrivals []*arrival
	for i := range messages {
		a, err := r.read(ctx, &messages[i])
		s.must(err, "read a command")
		if a != nil {
			r.ready.reserve(a.place())
			arrivals = append(arrivals, a)
		}
	}
	if len(arrivals) > 0 {
		s.must(r.acceptBatch(ctx, arrivals), "accept")
	}
}

// work executes the next step of the most urgent job.
func (s *simulation) work(ctx context.Context) {
	r := s.runner
	if r == nil {
		return
	}
	if _, found := r.ready.first(); !found {
		return
	}
	j, err := r.ready.pop(ctx)
	s.must(err, "pop")
	j.releaseSlot = func() {}
	step := r.send
	if j.lane == lanePoll {
		step = r.poll
	}
	if err := step(ctx, ctx, j); err != nil {
		s.sayf("%s could not go on: %s", j.op.ID, firstWords(err))
		r.ready.done(j.op.ID)
		r.requeue(ctx, j.op.ID)
	}
}

// firstWords returns an error's text without parts that the sandbox makes up.
func firstWords(err error) string {
	head, _, _ := strings.Cut(err.Error(), ":")
	return head
}

// pass advances the time to the next moment at which something is due, or beyond.
func (s *simulation) pass(context.Context) {
	s.time = s.time.Add(pick(s, time.Second, time.Second, 5*time.Second, 20*time.Second, time.Minute, 10*time.Minute, time.Duration(s.random.IntN(3600))*time.Second))
	if s.chance(40) {
		s.time = s.time.Add(pick(s, 5*time.Hour, 21*time.Hour))
	}
	if s.chance(25) {
		s.skew = pick(s, 0, 0, time.Second, -time.Minute, 7*time.Minute, time.Hour, -time.Hour)
		s.skewed = s.skewed || s.skew != 0
	}
	s.sayf("time passes; the machine's clock is off by %s", s.skew)
}

// mind handles due operations and pauses, as the runner does.
func (s *simulation) mind(ctx context.Context) {
	r := s.runner
	if r == nil {
		return
	}
	if r.Unqueued() != nil {
		r.queueMissed(ctx)
	}
	s.must(r.queueDue(ctx, r.clock.Now()), "queue what is due")
	pauses := r.pauses.list()
	slices.SortFunc(pauses, func(a, b tables.Pause) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Cause, b.Cause))
	})
	for _, x := range pauses {
		r.probeOne(ctx, x)
	}
}

// breakSomething makes future requests fail, or disables or enables the key.
func (s *simulation) breakSomething(context.Context) {
	s.counts.faults++
	path := pick(s, "/api/v1/orders", "/api/v1/proxies/renew", "/api/v1/proxies/renew")
	f := map[string]any{"environment": "sandbox", "method": "POST", "path": path, "skip": s.random.IntN(2), "times": 1 + s.random.IntN(2)}
	switch s.random.IntN(14) {
	case 0:
		f["fault"] = "drop_before"
	case 1:
		f["fault"] = "drop_after"
	case 2:
		f["fault"] = pick(s, "error_before", "error_after")
	case 3:
		f["fault"] = pick(s, "truncate", "garbage", "html")
	case 4:
		f["fault"], f["path"] = "renewal", "/api/v1/proxies/renew"
		f[pick(s, "failed", "unresolved")] = 1 + s.random.IntN(2)
	case 5:
		f["fault"] = "unresolved_record"
	case 6: // an outcome that the answer does not give
		f["fault"], f["executed"] = "code", s.chance(2)
		f["code"] = pick(s, "idempotency_processing", "idempotency_replay_failed", "idempotency_unresolved", "operation_failed", "proxy_endpoint_unavailable", "of_tomorrow")
	case 7:
		f["fault"], f["code"], f["retry_after"] = "code", "rate_limited", pick(s, "", "3", "soon", "-1", "4000")
	case 8:
		f["fault"], f["code"] = "code", pick(s, "insufficient_scope", "invalid_signature", "api_key_revoked", "stale_timestamp", "replayed_nonce")
	case 9:
		f["fault"], f["code"] = "code", pick(s, "validation_error", "proxy_not_found", "insufficient_wallet_balance")
	case 10, 11:
		f["method"], f["path"] = "GET", "/api/v1/*"
		f["fault"] = pick(s, "drop_before", "error_before", "garbage", "html")
	case 12:
		s.control("POST", "/keys", map[string]any{"app_id": sandbox.DemoSandboxAppID, "revoked": true})
		s.sayf("the key is revoked")
		return
	default:
		s.control("POST", "/keys", map[string]any{"app_id": sandbox.DemoSandboxAppID, "revoked": false})
		s.sayf("the key is good")
		return
	}
	s.control("POST", "/faults", f)
	s.sayf("fault %v %v on %s %s", f["fault"], f["code"], f["method"], f["path"])
}

// arriveLate executes a delayed request now, whether or not its sender still waits.
func (s *simulation) arriveLate(context.Context) {
	if len(s.late) == 0 {
		return
	}
	request := s.late[0]
	s.late = s.late[1:]
	s.wakesUp(request)
	s.sayf("held up until now:")
	if response, err := s.serve(request); err == nil {
		_ = response.Body.Close()
	}
}

func (s *simulation) crashSoon(context.Context) { s.crashIn = 1 + s.random.IntN(12) }
