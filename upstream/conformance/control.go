package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

type control struct{ *session }

// command sends a request to the control interface, even after an interrupt, because the
// request may reverse an earlier one.
func (s control) command(method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(s.cfg.ControlURL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := s.cfg.Transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("control %s: HTTP %d", path, resp.StatusCode)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

type setting = dict

// during applies a setting at a path of the control interface, calls the function do, and then
// sends undo to the same path. If undo is nil, it deletes all settings at the path instead. If
// the reversal fails, the finding begins with the text failed.
func (s control) during(path string, set, undo setting, failed string, do judgement) finding {
	if err := s.command(http.MethodPost, path, set, nil); err != nil {
		return notRun("%s", err)
	}
	out := s.verdict(do)
	method := http.MethodPost
	if undo == nil {
		method = http.MethodDelete
	}
	if err := s.command(method, path, undo, nil); err != nil {
		return differs("%s: %s", failed, err)
	}
	return out
}

func (s control) atClock(by time.Duration, do judgement) finding {
	original := int64(s.skew.Round(time.Second) / time.Second)
	moved := setting{"offset_seconds": original + int64(by/time.Second)}
	return s.during("/clock", moved, setting{"offset_seconds": original}, "the clock could not be set back", func(s *session) finding {
		s.moved = by
		defer func() { s.moved = 0 }()
		return do(s)
	})
}

func (s control) withFault(fault setting, do judgement) finding {
	fault["environment"] = s.cfg.environment()
	return s.during("/faults", fault, nil, "the faults could not be cleared", do)
}

func (s control) withWallet(cents int64, do judgement) finding {
	balance, known := s.balance()
	if !known {
		return notRun("the wallet could not be read")
	}
	add := func(n int64) setting {
		return setting{"account_id": s.accountID(), "environment": s.cfg.environment(), "add_cents": n}
	}
	return s.during("/wallet", add(cents-balance), add(balance-cents), "the wallet could not be filled again", do)
}

func (s control) accountID() string { return word(s.replyOf("account").data(), "account_id") }

func controlChecks(c *suite) {
	first := len(c.checks)
	clockChecks(c)
	for _, e := range endpoints {
		c.rule("control.revoked."+e.name, secCredentials, "the key, once disabled, is refused on "+e.method+" "+e.name, func(s *session) finding {
			revoked := func(yes bool) setting { return setting{"app_id": s.cfg.AppID, "revoked": yes} }
			return control{s}.during("/keys", revoked(true), revoked(false), "the key could not be enabled again", e.harmless().wants(refusing("api_key_revoked")))
		})
	}
	lowWalletChecks(c)
	interruptedChecks(c)
	for _, status := range []string{"partial", "manual_review", "failed"} {
		unsuccessfulChecks(c, status)
	}
	c.rule("control.rate_limited", secLimits, "rate_limited has Retry-After, and the same request is good afterwards", rateLimited)
	c.rule("control.referee", secWallet, "the server's own list of charges explains the wallet to the cent", refereeAgrees).costs()
	for _, one := range c.checks[first:] {
		one.phase = controlled
	}
}

func clockChecks(c *suite) {
	ahead := func(id, sentence string, by time.Duration) {
		c.rule("control.clock.server_"+id, secHeaders, sentence, func(s *session) finding {
			return control{s}.atClock(by, func(s *session) finding {
				r := s.send(changedBeforeSigning(func(d *draft) { d.stamp = d.shifted(-by) }))
				return when(by.Abs() > 5*time.Minute, refused(r, "stale_timestamp"), signatureAccepted(r))
			})
		})
	}
	nonce := func(id, sentence string, after time.Duration) {
		c.rule("control.nonce."+id, secHeaders, sentence, func(s *session) finding {
			r := withNonce(newNonce())
			s.send(r)
			return control{s}.atClock(after, r.wants(recorded))
		}).open()
	}
	ahead("ahead_6m", "a server six minutes ahead refuses with stale_timestamp", 6*time.Minute)
	ahead("behind_6m", "a server six minutes behind refuses with stale_timestamp", -6*time.Minute)
	ahead("ahead_4m", "a server four minutes ahead accepts", 4*time.Minute)
	ahead("behind_4m", "a server four minutes behind accepts", -4*time.Minute)
	c.rule("control.retention.23h", secIdempotency, "after 23 hours a key is still replayed, and charges nothing", laterReplay(23*time.Hour)).costs()
	c.rule("control.retention.25h", secIdempotency, "what a key gets after 25 hours", laterReplay(25*time.Hour)).costs().open()
	nonce("after_9m", "whether a nonce is remembered after nine minutes", 9*time.Minute)
	nonce("after_1d", "whether a nonce is remembered after a day", 24*time.Hour)
	c.rule("control.page_token.after_2d", secPagination, "what a page token gets after two days", func(s *session) finding {
		return control{s}.atClock(48*time.Hour, offerList.secondPage(s).wants(recorded))
	}).open()
}

func laterReplay(by time.Duration) judgement {
	return func(s *session) finding {
		b := s.ordered("kept")
		s.afford(s.chosenOffer().cents)
		return control{s}.atClock(by, func(s *session) finding {
			p := s.pay(b.request)
			same := word(p.reply.data(), "order_no") == b.orderNo
			seen := fmt.Sprintf("%s, the same order: %t, charged %d cents", p.reply.seen(), same, p.before-p.after)
			return when(!same || p.before != p.after, differs("%s", seen), ok("%s", seen))
		})
	}
}

func lowWalletChecks(c *suite) {
	poor := func(id, section, sentence string, made prepared) *Check {
		return c.rule("control.poor."+id, section, sentence, func(s *session) finding {
			r := made(s)
			return control{s}.withWallet(1, func(s *session) finding {
				got := s.send(r)
				left, _ := s.balance()
				return when(left != 1, differs("%s, and of 1 cent %d are left", got.seen(), left), refused(got, "insufficient_wallet_balance"))
			})
		})
	}
	poor("order", secCreate, "an order that the wallet cannot pay is refused with insufficient_wallet_balance and no charge", func(s *session) request {
		return post("/api/v1/orders", "poor", lines(s.chosenOffer().code, 1, 2))
	})
	poor("renewal", secRenew, "a renewal that the wallet cannot pay is refused with insufficient_wallet_balance and no charge", func(s *session) request {
		return post("/api/v1/proxies/renew", "poor", renewBody(s.needProxies(), 30))
	}).costs()
}

func interruptedChecks(c *suite) {
	unresolved := func(id, sentence string, do func(*session, unresolvedRequest) finding) {
		c.rule("control.unresolved."+id, secIdempotency, sentence, func(s *session) finding { return do(s, control{s}.leaveUnresolved()) }).costs()
	}
	unresolved("code", "a key whose first request was interrupted gets idempotency_unresolved with HTTP 409", func(s *session, l unresolvedRequest) finding {
		got := s.send(l.r)
		return when(got.status != http.StatusConflict, differs("%s", got.seen()), refused(got, "idempotency_unresolved"))
	})
	unresolved("stays", "it stays so, two days later too", func(s *session, l unresolvedRequest) finding {
		return control{s}.atClock(48*time.Hour, l.r.wants(refusing("idempotency_unresolved")))
	})
	unresolved("charged_once", "repeating it never charges again", func(s *session, l unresolvedRequest) finding {
		s.send(l.r)
		now, _ := s.balance()
		spent := l.before - now
		return when(spent != 0 && spent != l.sum, differs("%d cents are gone", spent), ok("%d cents are gone", spent))
	})
	c.rule("control.processing.code", secIdempotency, "a key whose first request is under way gets idempotency_processing, and its result later", whileHanging).costs()
}

type unresolvedRequest struct {
	r           request
	sum, before int64 // the estimated cost, and the wallet before the order, in cents
}

func (s control) leaveUnresolved() unresolvedRequest {
	return memo(s.session, "unresolved", func() (out unresolvedRequest) {
		out.r, out.sum = s.orderOf("unresolved")
		out.before, _ = s.balance()
		f := s.withFault(setting{"fault": "unresolved_record", "method": "POST", "path": "/api/v1/orders"}, out.r.wants(recorded))
		if f.verdict != OK {
			s.skipf("%s", f.seen)
		}
		return out
	})
}

func whileHanging(s *session) finding {
	r, sum := s.orderOf("hanging")
	return control{s}.withFault(setting{"fault": "hang", "seconds": 600, "method": "POST", "path": "/api/v1/orders"}, func(s *session) finding {
		before, _ := s.balance()
		ctx, leave := context.WithCancel(s.ctx)
		first := make(chan struct{})
		go func() {
			defer close(first)
			other := &session{ctx: ctx, cfg: s.cfg, base: s.base, signedHost: s.signedHost, skew: s.skew, moved: s.moved}
			other.sendOnce(r)
		}()
		defer func() { leave(); <-first }()
		if !(control{s}).until(func() bool { now, _ := s.balance(); return now != before }) {
			return differs("the hanging order was never charged")
		}
		during := s.send(r)
		leave()
		<-first
		var later reply
		control{s}.until(func() bool { later = s.send(r); return later.code() != "idempotency_processing" })
		after, _ := s.balance()
		return when(during.code() != "idempotency_processing" || !later.succeeded() || before-after != sum,
			differs("meanwhile %s, later %s, %d cents charged", during.seen(), later.seen(), before-after), ok("meanwhile %s, later %s", during.seen(), later.seen()))
	})
}

func (s control) until(done func() bool) bool {
	for range 2000 {
		if s.ctx.Err() != nil || done() {
			return s.ctx.Err() == nil
		}
	}
	return false
}

func rateLimited(s *session) finding {
	fault := setting{"fault": "code", "code": "rate_limited", "retry_after": "1", "path": "/api/v1/account"}
	return control{s}.withFault(fault, func(s *session) finding {
		before := len(s.limited)
		r := s.get("/api/v1/account")
		if len(s.limited) == before {
			return differs("%s without having been limited", r.seen())
		}
		limited := s.limited[before]
		seen := fmt.Sprintf("%s, then %s", limited.seen(), r.seen())
		return when(limited.header.Get("Retry-After") == "" || !r.succeeded(), differs("%s", seen), ok("%s", seen))
	})
}

func refereeAgrees(s *session) finding {
	var charges []struct {
		Environment string `json:"environment"`
		AccountID   string `json:"account_id"`
		Kind        string `json:"kind"`
		Key         string `json:"idempotency_key"`
		Cents       int64  `json:"amount_cents"`
	}
	if err := (control{s}).command(http.MethodGet, "/charges", nil, &charges); err != nil {
		return notRun("%s", err)
	}
	var net int64
	for _, c := range charges {
		switch {
		case c.Environment != s.cfg.environment() || c.AccountID != control{s}.accountID() || !strings.Contains(c.Key, s.tag):
		case c.Kind == "charge":
			net += c.Cents
		default:
			net -= c.Cents
		}
	}
	now, known := s.balance()
	return when(!known || s.opening-now != net, differs("the wallet lost %d cents, the list says %d", s.opening-now, net), ok("%d cents", net))
}
