package conformance

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type session struct {
	ctx        context.Context
	cfg        *Config
	base       *url.URL
	signedHost string
	tag        string // makes the idempotency keys of this run unique
	serial     int
	memos      map[string]any
	skew       time.Duration // the server's clock minus the local clock
	moved      time.Duration // the offset that the current check has added to the server's clock
	limit      int64         // the spending limit in cents
	opening    int64         // the wallet at the start, in cents
	currency   string        // of the wallet
	requests   atomic.Int64
	gaveUp     atomic.Bool // the current check stopped, because the server asked for a wait that is too long

	everyReply
}

type everyReply struct {
	mu       sync.Mutex
	leaked   int               // the number of replies that contained the API Secret
	limited  []reply           // rate-limited replies
	replies  int               // the number of replies
	wrong    map[string]string // the first violation of each statement about all replies; the key is the id of the check
	unlisted string            // the last code that the API document does not list
}

func newSession(ctx context.Context, cfg *Config, base *url.URL) *session {
	host := strings.ToLower(base.Host)
	if port := base.Port(); !cfg.SignPort || port == "" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return &session{ctx: ctx, cfg: cfg, base: base, signedHost: host, tag: "conformance-" + newNonce()[:16], memos: map[string]any{}, everyReply: everyReply{wrong: map[string]string{}}}
}

// skipped is the panic that ends a check that is not possible. It holds the reason.
type skipped string

// skipf ends the running check with the verdict NotRun, as testing.T.Skipf ends a test.
func (s *session) skipf(format string, args ...any) { panic(skipped(fmt.Sprintf(format, args...))) }

// attempt returns what do returns, or why do skipped the check.
func attempt[T any](do func() T) (got T, why string) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case skipped:
			why = string(cause)
		default:
			panic(cause)
		}
	}()
	return do(), ""
}

func (s *session) verdict(run judgement) finding {
	f, why := attempt(func() finding { return run(s) })
	return when(why == "", f, notRun("%s", why))
}

// memo computes a value, or the reason why it is missing, once in each run.
func memo[T any](s *session, name string, do func() T) T {
	made, known := s.memos[name]
	if !known {
		got, why := attempt(do)
		if made = &got; why != "" {
			made = skipped(why)
		}
		s.memos[name] = made
	}
	if why, is := made.(skipped); is {
		panic(why)
	}
	got, _ := made.(*T)
	return *got
}

// now returns the server's time, so that the checks do not depend on the local clock.
func (s *session) now() time.Time { return s.cfg.Clock().Add(s.skew + s.moved) }

// learnClock stores the offset of the server's clock if the offset exceeds ten seconds.
func (s *session) learnClock(r reply) {
	server, ok := timeOf(r.envelope["timestamp"])
	if diff := server.Sub(s.cfg.Clock()); ok && diff.Abs() > 10*time.Second {
		s.skew = diff
	}
}

func (s *session) newKey(name string) string {
	s.serial++
	return fmt.Sprintf("%s-%s-%d", s.tag, name, s.serial)
}

// scan checks what the API document says about all replies, and looks for a leaked API Secret.
func (s *everyReply) scan(r reply, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies++
	if bytes.Contains(r.raw, []byte(secret)) {
		s.leaked++
	}
	success, isBool := r.envelope["success"].(bool)
	if r.envelope == nil || !isBool || r.code() == "" {
		s.note("envelope.every_reply", r.seen())
		return
	}
	if success != (r.code() == "ok") {
		s.note("envelope.every_success", fmt.Sprintf("%s with success %t", r.seen(), success))
	}
	if word(r.envelope, "trace_id") == "" {
		s.note("errors.every_trace_id", r.seen())
	}
	if !strings.Contains(listedCodes, " "+r.code()+" ") {
		s.unlisted = brief(r.code())
	}
	s.values("", r.envelope)
}

func (s *everyReply) note(id, where string) {
	if s.wrong[id] == "" {
		s.wrong[id] = where
	}
}

func (s *everyReply) values(path string, v any) {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			s.values(path, inner)
		}
	case dict:
		for name, inner := range v {
			s.value(strings.TrimPrefix(path+"."+name, "."), name, inner)
		}
	}
}

func (s *everyReply) value(path, name string, v any) {
	at := brief(path) + " is " + typeName(v)
	switch {
	case v == nil:
	case strings.HasSuffix(name, "_cents") && !integer.fits(v):
		s.note("conventions.cents_are_integers", at)
	case (name == "balance" || name == "unit_price" || name == "total" || name == "amount") && !decimal.fits(v):
		s.note("conventions.decimals_are_strings", at)
	case (strings.HasSuffix(name, "_at") || path == "timestamp") && !instant.fits(v):
		s.note("conventions.times_have_zones", at)
	default:
		s.values(path, v)
	}
}

func (s *session) get(path string, pairs ...pair) reply { return s.send(get(path, pairs...)) }

func (s *session) keyOf(role Role, scope string) *Key {
	for i := range s.cfg.Keys {
		if k := &s.cfg.Keys[i]; k.Role == role && k.Scope == scope {
			return k
		}
	}
	return nil
}

func (s *session) order(no string) reply { return s.get("/api/v1/orders/" + rfc3986(no)) }

func (s *session) proxy(id string) reply { return s.get("/api/v1/proxies/" + rfc3986(id)) }

func (s *session) balance() (int64, bool) {
	return cents(s.get("/api/v1/wallet").data(), "balance_cents")
}

func (s *session) afford(estimate int64) {
	if s.limit == 0 {
		s.skipf("nothing may be spent")
	}
	now, ok := s.balance()
	switch {
	case !ok:
		s.skipf("the wallet could not be read")
	case max(s.opening-now, 0)+estimate > s.limit:
		s.skipf("it would exceed the %d cents that may be spent", s.limit)
	case now < estimate:
		s.skipf("the wallet holds %d cents and it takes about %d", now, estimate)
	}
}

var listedCodes = " ok invalid_signature stale_timestamp replayed_nonce idempotency_key_required idempotency_key_conflict idempotency_processing" +
	" idempotency_replay_failed idempotency_unresolved insufficient_scope api_key_revoked validation_error offer_not_found order_not_found" +
	" proxy_not_found insufficient_wallet_balance invalid_page_token rate_limited unsupported_operation proxy_endpoint_unavailable operation_failed "

// passiveChecks report the violations in all replies. They run last.
func passiveChecks(c *suite) {
	every := func(id, section, sentence string) {
		c.rule(id, section, sentence, func(s *session) finding {
			where := s.wrong[id]
			return when(where != "", differs("%s", where), ok("%d replies", s.replies))
		}).atEnd()
	}
	every("conventions.cents_are_integers", secConventions, "every *_cents of every reply is an integer")
	every("conventions.decimals_are_strings", secConventions, "every balance, unit_price, total and amount of every reply is a decimal string")
	every("conventions.times_have_zones", secConventions, "every time of every reply is ISO 8601 with a zone")
	every("envelope.every_reply", secEnvelope, "every reply of the run is an envelope")
	every("envelope.every_success", secEnvelope, "success is true exactly with the code ok, in every reply")
	every("errors.every_trace_id", secErrors, "every reply of the run has a trace_id")
	c.rule("errors.unlisted_codes", secErrors, "codes that the document does not list", func(s *session) finding {
		return ok("the last one: %q", s.unlisted)
	}).open().atEnd()
}
