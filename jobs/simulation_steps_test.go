package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perennial/ledger"
	"perennial/queue"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// chaos takes steps in an order that the seed decides, with everything that can
// go wrong.
func (s *simulation) chaos(ctx context.Context) {
	s.faulty = true
	steps := []func(context.Context){ // as often as they stand here
		s.publish, s.publish, s.publishAgain, s.deliver, s.deliver, s.work, s.work, s.work, s.work, s.pass, s.pass, s.breakSomething, s.arriveLate, s.crashSoon,
		s.mind,
	}
	for range 60 + s.random.IntN(60) {
		if s.runner == nil {
			s.alive(func() { s.begin(ctx) })
		}
		s.step(ctx, pick(s, steps...))
	}
}

// step takes one step and looks at what must never happen.
func (s *simulation) step(ctx context.Context, do func(context.Context)) {
	s.counts.steps++
	s.alive(func() { do(ctx) })
	s.referee()
	rows, err := s.ledger.Rows(ctx, s.rows, 1000)
	s.must(err, "rows")
	for _, r := range rows {
		s.sayf("  %d %s %s", r.Seq, r.Type, r.Operation)
		s.rows = r.Seq
	}
}

func (s *simulation) publish(context.Context) {
	id := fmt.Sprintf("c%d", len(s.commands)+1)
	c := simCommand{id: id, kind: queue.KindOrderCreate}
	body := map[string]any{"id": id, "duration_days": pick(s, 30, 30, 60)}
	if s.chance(2) {
		items := []map[string]any{{"offer_code": "off_us_dallas", "quantity": 1 + s.random.IntN(3)}}
		if s.chance(4) {
			items = append(items, map[string]any{"offer_code": pick(s, "off_de_frankfurt", "off_de_frankfurt", "off_us_dallas", "off_nowhere"), "quantity": 1})
		}
		body["items"] = items
		if scenario := pick(s, "", "", "delayed", "partial", "rejected"); scenario != "" {
			body["sandbox_scenario"] = scenario
		}
	} else {
		c.kind = queue.KindProxyRenew
		ids := map[string]bool{}
		for range 1 + s.random.IntN(4) {
			ids[fmt.Sprintf("px_%d", 1+s.random.IntN(8))] = true
		}
		if s.chance(12) {
			ids["px_nowhere"] = true
		}
		list := make([]string, 0, len(ids))
		for id := range ids {
			list = append(list, id)
		}
		slices.Sort(list)
		body["proxy_ids"] = list
		if s.chance(4) {
			body["due_before"] = s.time.Add(pick(s, 20*24*time.Hour, 24*time.Hour))
		}
	}
	if s.chance(6) {
		body["max_total_cents"] = pick(s, 200, 700, 5000)
	}
	text, err := json.Marshal(body)
	s.must(err, "command")
	c.body = text
	s.commands = append(s.commands, c)
	s.counts.commands++
	s.sayf("publish %s", text)
	s.stream.Publish(c.kind, c.body)
}

// publishAgain publishes what was published before, now and then with other
// content, and now and then something that nobody can read.
func (s *simulation) publishAgain(context.Context) {
	if len(s.commands) == 0 {
		return
	}
	c := pick(s, s.commands...)
	switch s.random.IntN(12) {
	case 0:
		s.stream.Publish(c.kind, []byte(strings.Replace(string(c.body), `"duration_days":`, `"labels":{"x":"y"},"duration_days":`, 1)))
	case 1:
		s.stream.Publish(c.kind, []byte(`{"id":`))
	default:
		s.stream.Publish(c.kind, c.body)
	}
	s.sayf("publish again %s", c.id)
}

// deliver takes in what is due.
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
			arrivals = append(arrivals, a)
		}
	}
	if len(arrivals) > 0 {
		s.must(r.acceptBatch(ctx, arrivals), "accept")
	}
}

// work carries the most urgent job one step further.
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
	j.leave = func() {}
	step := r.send
	if j.lane == lanePoll {
		step = r.poll
	}
	if err := step(ctx, ctx, j); err != nil {
		s.sayf("%s could not go on: %s", j.op.ID, firstWords(err))
		r.ready.done(j.op.ID)
		r.retake(ctx, j.op.ID)
	}
}

// firstWords are the part of an error without what the sandbox makes up.
func firstWords(err error) string {
	head, _, _ := strings.Cut(err.Error(), ":")
	return head
}

// pass lets time pass: to the next moment at which something is due, or beyond.
func (s *simulation) pass(context.Context) {
	s.time = s.time.Add(pick(s, time.Second, time.Second, 5*time.Second, 20*time.Second, time.Minute, 10*time.Minute, time.Duration(s.random.IntN(3600))*time.Second))
	if s.chance(40) {
		s.time = s.time.Add(pick(s, 5*time.Hour, 21*time.Hour))
	}
	if s.chance(25) {
		s.skew = pick(s, 0, 0, time.Second, -time.Minute, 7*time.Minute, time.Hour, -time.Hour)
	}
	s.sayf("time passes; the machine's clock is off by %s", s.skew)
}

// mind looks at what came due and at the pauses, as the runner does by itself.
func (s *simulation) mind(ctx context.Context) {
	r := s.runner
	if r == nil {
		return
	}
	s.must(r.queueDue(ctx, r.clock.Now()), "queue what is due")
	pauses := r.pauses.list()
	slices.SortFunc(pauses, func(a, b ledger.Pause) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Cause, b.Cause))
	})
	for _, x := range pauses {
		r.probeOne(ctx, x)
	}
}

// breakSomething spoils coming requests, or takes the key away and gives it back.
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
	case 6: // an outcome that nobody can know from the answer
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

// arriveLate has a request that was held up executed now, whoever still waits.
func (s *simulation) arriveLate(context.Context) {
	if len(s.late) == 0 {
		return
	}
	request := s.late[0]
	s.late = s.late[1:]
	s.sayf("held up until now:")
	if response, err := s.serve(request); err == nil {
		_ = response.Body.Close()
	}
}

func (s *simulation) crashSoon(context.Context) { s.crashIn = 1 + s.random.IntN(12) }

// peace ends every fault and lets everything come to its end.
func (s *simulation) peace(ctx context.Context) {
	s.sayf("PEACE")
	s.faulty, s.crashIn, s.skew = false, 0, 0
	s.control("DELETE", "/faults", nil)
	s.control("POST", "/keys", map[string]any{"app_id": sandbox.DemoSandboxAppID, "revoked": false})
	for len(s.late) > 0 {
		s.step(ctx, s.arriveLate)
	}
	s.added = 10_000_000
	s.control("POST", "/wallet", map[string]any{"account_id": sandbox.DemoAccountID, "environment": "sandbox", "add_cents": s.added})
	s.settle(ctx)
	for range 12 { // an answer lets the next one of its command go
		s.answer(ctx)
		s.settle(ctx)
	}
}

// settle works until nothing happens by itself any more.
func (s *simulation) settle(ctx context.Context) {
	wait, rows := 100*time.Millisecond, s.rows
	for range 3000 {
		if s.runner == nil {
			s.begin(ctx)
		}
		s.step(ctx, s.mind)
		s.step(ctx, s.deliver)
		if _, found := s.runner.ready.first(); found {
			s.step(ctx, s.work)
			continue
		}
		next, found := s.next(ctx)
		if !found {
			return
		}
		wait = min(2*wait, 10*time.Minute) // what is due may not start yet
		if s.rows > rows {
			wait, rows = 100*time.Millisecond, s.rows
		}
		s.time = s.time.Add(max(wait, next.Sub(s.time)))
	}
	due, _ := s.ledger.NextAfter(ctx, s.time)
	open, _ := s.ledger.Unfinished(ctx, 10)
	s.sayf("left: %d commands; next is due %v; paused %+v", s.stream.Left(), due, s.runner.pauses.list())
	for _, o := range open {
		s.sayf("left: %s %s %s %v", o.ID, o.State, o.Reason, o.NextAt)
	}
	s.failf("it does not come to an end")
}

// next is when something is due; false when nothing is.
func (s *simulation) next(ctx context.Context) (at time.Time, found bool) {
	at, found = s.stream.Next()
	earlier := func(x time.Time) {
		if !found || x.Before(at) {
			at, found = x, true
		}
	}
	due, err := s.ledger.NextAfter(ctx, s.time)
	s.must(err, "next")
	if due != nil {
		earlier(*due)
	}
	for _, x := range s.runner.pauses.list() {
		if x.Until != nil {
			earlier(*x.Until)
		} else {
			earlier(s.time.Add(time.Second))
		}
	}
	accepted, err := s.ledger.In(ctx, ledger.StateAccepted, 1000)
	s.must(err, "accepted")
	for _, o := range accepted { // under a ceiling one waits for the one before it, which may wait for a person
		first, err := s.runner.firstUnfinished(ctx, o.CommandID)
		s.must(err, "first unfinished")
		if first == o.ID {
			earlier(s.time.Add(time.Second))
		}
	}
	return at, found
}

// answer is a person who looks at the provider's own books and answers every
// review with what they say; what is held is cancelled.
func (s *simulation) answer(ctx context.Context) {
	open, err := s.ledger.Unfinished(ctx, 1000)
	s.must(err, "unfinished")
	for _, o := range open {
		switch o.State {
		case ledger.StateHeld:
			_, err := s.runner.Cancel(ctx, o.ID, "somebody", "not wanted any more")
			s.must(err, "cancel "+o.ID)
		case ledger.StateReview:
			lines, err := s.ledger.Lines(ctx, o.ID)
			s.must(err, "lines")
			if !slices.ContainsFunc(lines, func(l ledger.RenewalLine) bool { return l.State == "unresolved" }) {
				s.resolve(ctx, o, "", s.truth(o.Key, "")) // else line by line, below
			}
		case ledger.StateAccepted: // behind one that waits for a person
		default:
			s.failf("%s is %s in the end: %s", o.ID, o.State, o.Reason)
		}
	}
	reviews, err := s.ledger.Reviews(ctx)
	s.must(err, "reviews")
	for _, x := range reviews {
		o, err := s.ledger.Operation(ctx, x.OperationID)
		s.must(err, "operation")
		s.resolve(ctx, o, x.ProxyID, s.truth(o.Key, x.ProxyID))
	}
}

func (s *simulation) resolve(ctx context.Context, o ledger.Operation, proxy string, cents int64) {
	charged := cents > 0
	s.counts.reviews++
	s.sayf("somebody answers for %s %s: %d", o.ID, proxy, cents)
	err := s.runner.Resolve(ctx, Resolution{ID: o.ID, ProxyID: proxy, Charged: &charged, ChargedCents: cents, By: "somebody", Reason: "the provider's books"})
	var refused *RefusedError
	if err != nil && !errors.As(err, &refused) {
		s.must(err, "resolve "+o.ID)
	}
}

// truth is what the provider kept under a key, for one proxy or for all.
func (s *simulation) truth(key, proxy string) (cents int64) {
	for _, c := range s.charged() {
		if c.IdempotencyKey != key || (proxy != "" && c.ProxyID != proxy) {
			continue
		}
		if c.Kind == "refund" {
			cents -= c.AmountCents
		} else {
			cents += c.AmountCents
		}
	}
	return cents
}

// acked: what is acknowledged must be in the ledger.
func (s *simulation) acked(ctx context.Context, m queue.Message) {
	var c struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(m.Data, &c) != nil {
		return // a dead letter
	}
	_, err := s.ledger.Command(ctx, c.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		_, err = s.ledger.Rejection(ctx, c.ID)
	}
	if err != nil {
		s.failf("%s was acknowledged and is not in the ledger: %v", c.ID, err)
	}
}

// charged is the referee's list. It is read again only when something can have
// been charged since.
func (s *simulation) charged() []sandbox.Charge {
	if served := s.counts.served; served != s.asOf || s.list == nil {
		var err error
		s.list, err = s.server.Charges()
		s.must(err, "referee")
		s.asOf = served
	}
	return s.list
}

// referee finds what was paid twice.
func (s *simulation) referee() {
	charges := s.charged()
	for _, c := range charges[s.charges:] {
		what := c.Kind + " " + c.IdempotencyKey + " " + c.ProxyID
		if s.paid[what] {
			s.failf("paid twice: %s", what)
		}
		s.paid[what] = true
	}
	s.charges = len(charges)
}

// accounts compares the ledger with the referee, key by key, and with the wallet.
func (s *simulation) accounts(ctx context.Context) {
	if s.stream.Left() > 0 {
		s.failf("%d commands were never acknowledged", s.stream.Left())
	}
	charges := s.charged()
	type sums struct{ charged, refunded int64 }
	provider := map[string]sums{}
	for _, c := range charges {
		x := provider[c.IdempotencyKey]
		if c.Kind == "refund" {
			x.refunded += c.AmountCents
		} else {
			x.charged += c.AmountCents
		}
		provider[c.IdempotencyKey] = x
	}
	once := map[string]string{} // what was paid for, for a command
	for _, c := range s.commands {
		operations, err := s.ledger.OperationsOf(ctx, c.id)
		s.must(err, "operations")
		if len(operations) == 0 {
			if _, err := s.ledger.Rejection(ctx, c.id); err != nil {
				s.failf("%s is neither accepted nor refused: %v", c.id, err)
			}
		}
		for _, o := range operations {
			have := provider[o.Key]
			delete(provider, o.Key)
			if have.charged-have.refunded != o.ChargedCents-o.RefundedCents || (o.State != ledger.StateResolved && have.charged != o.ChargedCents && o.State != ledger.StateCompleted && o.State != ledger.StatePartial) {
				s.failf("%s (%s): the ledger has %d charged and %d refunded, the provider %d and %d", o.ID, o.State, o.ChargedCents, o.RefundedCents, have.charged, have.refunded)
			}
			if !o.State.Ended() {
				s.failf("%s is %s in the end", o.ID, o.State)
			}
		}
	}
	for key := range provider {
		s.failf("nobody asked for what was charged under %s", key)
	}
	for _, c := range charges {
		if c.Kind == "charge" && c.ProxyID != "" && s.truth(c.IdempotencyKey, c.ProxyID) > 0 {
			command := s.commandOf(ctx, c.IdempotencyKey)
			if other := once[command+" "+c.ProxyID]; other != "" && other != c.IdempotencyKey {
				s.failf("%s was renewed twice for %s: under %s and %s", c.ProxyID, command, other, c.IdempotencyKey)
			}
			once[command+" "+c.ProxyID] = c.IdempotencyKey
		}
	}
	s.wallet(ctx)
}

func (s *simulation) commandOf(ctx context.Context, key string) string {
	for _, c := range s.commands {
		operations, err := s.ledger.OperationsOf(ctx, c.id)
		s.must(err, "operations")
		if slices.ContainsFunc(operations, func(o ledger.Operation) bool { return o.Key == key }) {
			return c.id
		}
	}
	return key
}

func (s *simulation) wallet(ctx context.Context) {
	book, err := s.ledger.Balance(ctx, "main")
	s.must(err, "balance")
	wallet, err := s.runner.Provider.Wallet(ctx)
	s.must(err, "wallet")
	if book.WalletCents+s.added != wallet.BalanceCents || book.SuspenseCents != 0 {
		s.failf("the book has %d and %d of it were added, the wallet holds %d; %d are in suspense", book.WalletCents, s.added, wallet.BalanceCents, book.SuspenseCents)
	}
	if s.seed%4 > 0 {
		return // what Verify finds does not depend on how the facts came about
	}
	if _, err := s.ledger.Verify(ctx); err != nil {
		s.failf("verify: %v", err)
	}
}

var _ Provider = (*upstream.Client)(nil)
