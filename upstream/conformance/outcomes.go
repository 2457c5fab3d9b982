// Checks of unresolved records, of renewals that do not wholly succeed, of rate limits
// and of the referee.

package conformance

import (
	"context"
	"net/http"
	"time"
)

// interruptedChecks are records in processing and unresolved records.
func interruptedChecks() []Check {
	unresolved := func(do func(*session, left) finding) func(*session) finding {
		return given((*session).leaveUnresolved, do)
	}
	return []Check{
		{ID: "control.unresolved.code", Section: secIdempotency, Costs: true, Sentence: "a key whose first request was interrupted gets idempotency_unresolved with HTTP 409", run: unresolved(func(s *session, l left) finding {
			got := s.send(l.r)
			if got.status != http.StatusConflict {
				return differs("%s", got.seen())
			}
			return refused(got, "idempotency_unresolved")
		})},
		{ID: "control.unresolved.stays", Section: secIdempotency, Costs: true, Sentence: "it stays so, two days later too", run: unresolved(func(s *session, l left) finding {
			return s.atClock(48*time.Hour, func() finding { return refused(s.send(l.r), "idempotency_unresolved") })
		})},
		{ID: "control.unresolved.charged_once", Section: secIdempotency, Costs: true, Sentence: "repeating it never charges again", run: unresolved(func(s *session, l left) finding {
			s.send(l.r)
			now, _ := s.balance()
			if spent := l.before - now; spent != 0 && spent != l.sum {
				return differs("%d cents are gone", spent)
			}
			return ok("%d cents are gone", l.before-now)
		})},
		{ID: "control.processing.code", Section: secIdempotency, Costs: true, Sentence: "a key whose first request is under way gets idempotency_processing, and its result later", run: whileHanging},
	}
}

// left is a request whose record stays unresolved, with the wallet from before.
type left struct {
	r      request
	sum    int64 // what it costs
	before int64
	why    string
}

// leaveUnresolved makes one order whose record is left interrupted.
func (s *session) leaveUnresolved() (left, string) {
	got := memo(s, "unresolved", func() left {
		r, sum, why := s.orderOf("unresolved")
		if why != "" {
			return left{why: why}
		}
		out := left{r: r, sum: sum}
		out.before, _ = s.balance()
		f := s.withFault(map[string]any{"fault": "unresolved_record", "method": "POST", "path": "/api/v1/orders"}, func() finding {
			s.send(out.r)
			return ok("")
		})
		if f.verdict != OK {
			out.why = f.seen
		}
		return out
	})
	return got, got.why
}

// whileHanging repeats a request while the first one hangs, lets the first one
// go, and asks for the result.
func whileHanging(s *session) finding {
	r, sum, why := s.orderOf("hanging")
	if why != "" {
		return notRun("%s", why)
	}
	return s.withFault(map[string]any{"fault": "hang", "seconds": 600, "method": "POST", "path": "/api/v1/orders"}, func() finding {
		before, _ := s.balance()
		ctx, leave := context.WithCancel(s.ctx)
		first := make(chan struct{})
		go func() {
			defer close(first)
			s.sender(ctx).sendOnce(r)
		}()
		defer func() { leave(); <-first }()
		if !s.until(func() bool { now, _ := s.balance(); return now != before }) {
			return differs("the hanging order was never charged")
		}
		during := s.send(r)
		leave()
		<-first
		var later reply
		s.until(func() bool { later = s.send(r); return later.code() != "idempotency_processing" })
		after, _ := s.balance()
		if during.code() != "idempotency_processing" || !later.succeeded() || before-after != sum {
			return differs("meanwhile %s, later %s, %d cents charged", during.seen(), later.seen(), before-after)
		}
		return ok("meanwhile %s, later %s", during.seen(), later.seen())
	})
}

// sender is the part of a session that another goroutine may send with.
func (s *session) sender(ctx context.Context) *session {
	return &session{ctx: ctx, cfg: s.cfg, base: s.base, signedHost: s.signedHost, skew: s.skew, moved: s.moved}
}

// until asks again and again, a bounded number of times.
func (s *session) until(done func() bool) bool {
	for range 2000 {
		if s.ctx.Err() != nil || done() {
			return s.ctx.Err() == nil
		}
	}
	return false
}

// unsuccessfulChecks are renewals in which not every item succeeds.
func unsuccessfulChecks(name string) []Check {
	renewal := func(s *session) (*renewed, string) { r := s.renewUnsuccessfully(name); return r, r.why }
	result := func(s *session) (map[string]any, []string, string) {
		r := s.renewUnsuccessfully(name)
		why := r.why
		if why == "" && r.reply.data() == nil {
			why = "no result: " + r.reply.seen()
		}
		return r.reply.data(), r.ids, why
	}
	prefix, what := "control.renewal."+name, "a renewal that ends as "+name
	out := sumChecks(prefix, secRenewState, what, result)
	for _, f := range renewalFields {
		out = append(out, Check{ID: prefix + ".has." + f.name, Section: secRenewal, Costs: true, Sentence: what + " has " + f.name + ": " + f.says(),
			run: f.in(func(s *session) ([]map[string]any, string) {
				data, _, why := result(s)
				return []map[string]any{data}, why
			})})
	}
	return append(out,
		Check{ID: prefix + ".status", Section: secRenewState, Costs: true, Sentence: what + " says so", run: given(renewal, func(_ *session, r *renewed) finding { return unsuccessfulStatus(r, name) })},
		Check{ID: prefix + ".debited", Section: secRenewState, Costs: true, Sentence: what + " debits the wallet by charged_cents", run: given(renewal, func(_ *session, r *renewed) finding { return r.debited(r.reply.data(), "charged_cents") })},
		Check{ID: prefix + ".only_failed_refunded", Section: secRenewState, Costs: true, Sentence: what + " refunds its failed lines, and only those", run: func(s *session) finding {
			data, _, why := result(s)
			if why != "" {
				return notRun("%s", why)
			}
			return onlyFailedRefunded(data)
		}},
		Check{ID: prefix + ".only_succeeded_move", Section: secRenewState, Costs: true, Sentence: what + " moves the expiry of what succeeded, and no other", run: given(renewal, onlySucceededMove)})
}

// renewUnsuccessfully asks for a shape of the result and renews two proxies.
func (s *session) renewUnsuccessfully(name string) *renewed {
	return memo(s, "unsuccessful "+name, func() *renewed {
		fault := map[string]any{"fault": "renewal"}
		switch name {
		case "partial":
			fault["failed"] = 1
		case "manual_review":
			fault["unresolved"] = 1
		case "failed":
			fault["failed"] = 2
		}
		var out *renewed
		if f := s.withFault(fault, func() finding { out = s.renew(name); return ok("") }); f.verdict != OK {
			return &renewed{why: f.seen}
		}
		return out
	})
}

func unsuccessfulStatus(r *renewed, name string) finding {
	data := r.reply.data()
	if word(data, "status") != name {
		return differs("%s, status %q", r.reply.seen(), brief(word(data, "status")))
	}
	if name != "failed" {
		return succeeds(r.reply)
	}
	charged, known := cents(data, "charged_cents")
	if _, hasWallet := data["wallet"]; r.reply.status != http.StatusUnprocessableEntity || r.reply.code() != "operation_failed" || !known || charged != 0 || !hasWallet {
		return differs("%s, charged_cents %s, wallet %t", r.reply.seen(), typeName(data["charged_cents"]), hasWallet)
	}
	return ok("%s, charged_cents 0, with wallet", r.reply.seen())
}

func onlyFailedRefunded(data map[string]any) finding {
	for _, line := range things(data, "line_items") {
		amount, _ := cents(line, "amount_cents")
		refunded, _ := cents(line, "refunded_cents")
		charged, _ := cents(line, "charged_cents")
		if failed := word(line, "status") == "failed"; failed && (refunded != amount || charged != 0) || !failed && (refunded != 0 || charged != amount) {
			return differs("a line that %s: %d of %d cents refunded, %d charged", brief(word(line, "status")), refunded, amount, charged)
		}
	}
	return ok("%d lines", len(things(data, "line_items")))
}

func onlySucceededMove(_ *session, r *renewed) finding {
	for _, line := range things(r.reply.data(), "line_items") {
		id := word(line, "proxy_id")
		if moved := !r.expiry[0][id].Equal(r.expiry[1][id]); moved != (word(line, "status") == "succeeded") {
			return differs("a line that %s: moved %t", brief(word(line, "status")), moved)
		}
	}
	return ok("%d lines", len(r.ids))
}

// rateChecks are the replies to requests over the rate limit.
func rateChecks() []Check {
	return []Check{{ID: "control.rate_limited", Section: secLimits, Sentence: "rate_limited has Retry-After, and the same request is good afterwards", run: func(s *session) finding {
		fault := map[string]any{"fault": "code", "code": "rate_limited", "retry_after": "1", "path": "/api/v1/account"}
		return s.withFault(fault, func() finding {
			before := len(s.limited)
			r := s.get("/api/v1/account")
			if len(s.limited) == before {
				return differs("%s without having been limited", r.seen())
			}
			limited := s.limited[before]
			if limited.header.Get("Retry-After") == "" || !r.succeeded() {
				return differs("%s, then %s", limited.seen(), r.seen())
			}
			return ok("%s, then %s", limited.seen(), r.seen())
		})
	}}, {ID: "control.referee", Section: secWallet, Costs: true, Sentence: "the server's own list of charges explains the wallet to the cent", run: func(s *session) finding {
		return s.refereeAgrees()
	}}}
}

// refereeAgrees compares what this account was charged with what its wallet lost.
func (s *session) refereeAgrees() finding {
	var charges []struct {
		Environment string `json:"environment"`
		AccountID   string `json:"account_id"`
		Kind        string `json:"kind"`
		Key         string `json:"idempotency_key"`
		Cents       int64  `json:"amount_cents"`
	}
	if err := s.command(http.MethodGet, "/charges", nil, &charges); err != nil {
		return notRun("%s", err)
	}
	var net int64
	for _, c := range charges {
		if c.Environment != s.cfg.environment() || c.AccountID != s.accountID() || !contains([]byte(c.Key), s.tag) {
			continue
		}
		if c.Kind == "charge" {
			net += c.Cents
		} else {
			net -= c.Cents
		}
	}
	now, known := s.balance()
	if !known || s.opening-now != net {
		return differs("the wallet lost %d cents, the list says %d", s.opening-now, net)
	}
	return ok("%d cents", net)
}
