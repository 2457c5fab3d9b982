// Checks that use the control interface of Perennial's sandbox. With it the run can move
// the server's clock, disable its own key, empty the wallet and ask for outcomes
// that a sandbox does not show by itself. It undoes what it does.

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

// command sends one request to the control interface; it goes through even when
// the run was interrupted, for it may be what undoes another.
func (s *session) command(method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.cfg.Timeout)
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

// atClock runs do with the server's clock moved, and moves it back.
func (s *session) atClock(by time.Duration, do func() finding) finding {
	original := int64(s.skew.Round(time.Second) / time.Second)
	set := func(by time.Duration) error {
		return s.command(http.MethodPost, "/clock", map[string]int64{"offset_seconds": original + int64(by/time.Second)}, nil)
	}
	if err := set(by); err != nil {
		return notRun("%s", err)
	}
	s.moved = by
	out := do()
	s.moved = 0
	if err := set(0); err != nil {
		return differs("the clock could not be set back: %s", err)
	}
	return out
}

// withFault sets one fault for this account, once, and clears all afterwards.
func (s *session) withFault(fault map[string]any, do func() finding) finding {
	fault["environment"] = s.cfg.environment()
	if err := s.command(http.MethodPost, "/faults", fault, nil); err != nil {
		return notRun("%s", err)
	}
	out := do()
	if err := s.command(http.MethodDelete, "/faults", nil, nil); err != nil {
		return differs("the faults could not be cleared: %s", err)
	}
	return out
}

func (s *session) accountID() string {
	r, _ := s.replyOf("account")
	return word(r.data(), "account_id")
}

// withWallet runs do with so many cents in the wallet, and puts the rest back.
func (s *session) withWallet(cents int64, do func() finding) finding {
	balance, known := s.balance()
	if !known {
		return notRun("the wallet could not be read")
	}
	add := func(n int64) error {
		return s.command(http.MethodPost, "/wallet", map[string]any{"account_id": s.accountID(), "environment": s.cfg.environment(), "add_cents": n}, nil)
	}
	if err := add(cents - balance); err != nil {
		return notRun("%s", err)
	}
	out := do()
	if err := add(balance - cents); err != nil {
		return differs("the wallet could not be filled again: %s", err)
	}
	return out
}

func controlChecks() []Check {
	out := clockChecks()
	for _, e := range endpoints {
		out = append(out, Check{ID: "control.revoked." + e.name, Section: secCredentials, Sentence: fmt.Sprintf("the key, once disabled, is refused on %s %s", e.method, e.name),
			run: func(s *session) finding { return s.whileRevoked(e) }})
	}
	out = append(out, poorChecks()...)
	out = append(out, interruptedChecks()...)
	for _, name := range []string{"partial", "manual_review", "failed"} {
		out = append(out, unsuccessfulChecks(name)...)
	}
	out = append(out, rateChecks()...)
	for i := range out {
		out[i].control = true
	}
	return out
}

func (s *session) whileRevoked(e endpoint) finding {
	const revoked, active = true, false
	set := func(revoked bool) error {
		return s.command(http.MethodPost, "/keys", map[string]any{"app_id": s.cfg.AppID, "revoked": revoked}, nil)
	}
	if err := set(revoked); err != nil {
		return notRun("%s", err)
	}
	r := s.send(e.harmless())
	if err := set(active); err != nil {
		return differs("the key could not be enabled again: %s", err)
	}
	return refused(r, "api_key_revoked")
}

// clockChecks move the server's clock.
func clockChecks() []Check {
	signedBefore := func(by time.Duration) func(*session) finding {
		return func(s *session) finding {
			return s.atClock(by, func() finding {
				r := s.send(request{method: http.MethodGet, path: "/api/v1/account", resign: true, damage: func(d *draft) {
					d.stamp = s.now().Add(-by).UTC().Format(time.RFC3339)
				}})
				if by.Abs() > 5*time.Minute {
					return refused(r, "stale_timestamp")
				}
				return signatureAccepted(r)
			})
		}
	}
	return []Check{
		{ID: "control.clock.server_ahead_6m", Section: secHeaders, Sentence: "a server six minutes ahead refuses with stale_timestamp", run: signedBefore(6 * time.Minute)},
		{ID: "control.clock.server_behind_6m", Section: secHeaders, Sentence: "a server six minutes behind refuses with stale_timestamp", run: signedBefore(-6 * time.Minute)},
		{ID: "control.clock.server_ahead_4m", Section: secHeaders, Sentence: "a server four minutes ahead accepts", run: signedBefore(4 * time.Minute)},
		{ID: "control.clock.server_behind_4m", Section: secHeaders, Sentence: "a server four minutes behind accepts", run: signedBefore(-4 * time.Minute)},
		{ID: "control.retention.23h", Section: secIdempotency, Costs: true, Sentence: "after 23 hours a key is still replayed, and charges nothing", run: laterReplay(23 * time.Hour)},
		{ID: "control.retention.25h", Section: secIdempotency, Costs: true, Open: true, Sentence: "what a key gets after 25 hours", run: laterReplay(25 * time.Hour)},
		{ID: "control.nonce.after_9m", Section: secHeaders, Open: true, Sentence: "whether a nonce is remembered after nine minutes", run: laterNonce(9 * time.Minute)},
		{ID: "control.nonce.after_1d", Section: secHeaders, Open: true, Sentence: "whether a nonce is remembered after a day", run: laterNonce(24 * time.Hour)},
		{ID: "control.page_token.after_2d", Section: secPagination, Open: true, Sentence: "what a page token gets after two days", run: given(pagedLists[0].second, func(s *session, r request) finding {
			return s.atClock(48*time.Hour, func() finding { return recorded(s.send(r)) })
		})},
	}
}

// laterReplay repeats an order after a while of the server's clock.
func laterReplay(by time.Duration) func(*session) finding {
	kept := func(s *session) (*bought, string) {
		b := s.buy("kept")
		if b.orderNo == "" {
			return b, b.why
		}
		o, _ := s.chosenOffer()
		return b, s.afford(o.cents)
	}
	return given(kept, func(s *session, b *bought) finding {
		return s.atClock(by, func() finding {
			before, _ := s.balance()
			r := s.send(b.request())
			after, _ := s.balance()
			seen := fmt.Sprintf("%s, the same order: %t, charged %d cents", r.seen(), word(r.data(), "order_no") == b.orderNo, before-after)
			if word(r.data(), "order_no") != b.orderNo || before != after {
				return differs("%s", seen)
			}
			return ok("%s", seen)
		})
	})
}

func laterNonce(by time.Duration) func(*session) finding {
	return func(s *session) finding {
		r := withNonce(newNonce())
		s.send(r)
		return s.atClock(by, func() finding { return recorded(s.send(r)) })
	}
}

// poorChecks observe that a wallet that is too low is charged nothing.
func poorChecks() []Check {
	try := func(made func(*session) (request, string)) func(*session) finding {
		return given(made, func(s *session, r request) finding {
			return s.withWallet(1, func() finding {
				got := s.send(r)
				if left, _ := s.balance(); left != 1 {
					return differs("%s, and of 1 cent %d are left", got.seen(), left)
				}
				return refused(got, "insufficient_wallet_balance")
			})
		})
	}
	return []Check{
		{ID: "control.poor.order", Section: secCreate, Sentence: "an order that the wallet cannot pay is refused with insufficient_wallet_balance and no charge", run: try(func(s *session) (request, string) {
			o, why := s.chosenOffer()
			return request{method: http.MethodPost, path: "/api/v1/orders", fresh: "poor", body: []byte(lines(o.code, 1, 2))}, why
		})},
		{ID: "control.poor.renewal", Section: secRenew, Costs: true, Sentence: "a renewal that the wallet cannot pay is refused with insufficient_wallet_balance and no charge", run: try(func(s *session) (request, string) {
			ids := s.ownProxies()
			if len(ids) == 0 {
				return request{}, "the run has no proxy of its own"
			}
			return request{method: http.MethodPost, path: "/api/v1/proxies/renew", fresh: "poor", body: renewBody(ids, 30)}, ""
		})},
	}
}
