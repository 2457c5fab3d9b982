// Checks that need further keys or the other environment.

package conformance

import (
	"fmt"
)

// keyChecks need further keys, or the other environment.
func keyChecks() []Check {
	var out []Check
	for _, e := range endpoints {
		out = append(out,
			Check{ID: "auth.revoked." + e.name, Section: secCredentials, Sentence: fmt.Sprintf("a disabled key is refused on %s %s", e.method, e.name),
				run: asks(as(RoleRevoked, "", "a key of the role "+string(RoleRevoked), e.harmless()), refusing("api_key_revoked"))},
			Check{ID: "auth.outside." + e.name, Section: secCredentials, Sentence: fmt.Sprintf("a source outside the allowed range is refused on %s %s", e.method, e.name),
				run: asks(as(RoleOutside, "", "a key of the role "+string(RoleOutside), e.harmless()), refusing("insufficient_scope"))})
	}
	return append(append(out, thereChecks()...),
		Check{ID: "auth.environments_not_mixed", Section: secCredentials, Sentence: "the key is refused in the other environment", run: otherEnvironment},
		Check{ID: "auth.nonce.per_key", Section: secHeaders, Sentence: "a nonce is refused under the same key, not under another", run: noncePerKey},
		Check{ID: "auth.secret_never_comes_back", Section: secCredentials, Sentence: "no reply of the run holds the API Secret", last: true, run: func(s *session) finding {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.leaked > 0 {
				return differs("%d replies hold it", s.leaked)
			}
			return ok("%d replies looked at", s.requests.Load())
		}})
}

// elsewhere sends to the other environment's address.
func (s *session) elsewhere(r request) (reply, string) {
	if s.cfg.OtherBaseURL == "" {
		return reply{}, "needs the other environment's address"
	}
	base, err := parseAddress(s.cfg.OtherBaseURL)
	if err != nil {
		return reply{}, err.Error()
	}
	there := newSession(s.ctx, s.cfg, base)
	there.skew, there.moved = s.skew, s.moved
	return there.send(r), ""
}

// otherEnvironment asks the other environment with this key.
func otherEnvironment(s *session) finding {
	r, why := s.elsewhere(get("/api/v1/account"))
	if why != "" {
		return notRun("%s", why)
	}
	return refusedAnyhow(r)
}

// thereChecks observe that what belongs to this environment is unknown in the other one, to
// the same account.
func thereChecks() []Check {
	there := func(code string, ask func(*session) (request, string)) func(*session) finding {
		return func(s *session) finding {
			r, why := ask(s)
			if r.as = s.keyOf(RoleThere, ""); r.as == nil {
				why = "needs a key of the role there"
			}
			var got reply
			if why == "" {
				got, why = s.elsewhere(r)
			}
			if why != "" {
				return notRun("%s", why)
			}
			return refused(got, code)
		}
	}
	out := make([]Check, 0, 2+len(pagedLists))
	out = append(out,
		Check{ID: "errors.order_not_found.there", Section: secDetail, Sentence: "an order is order_not_found in the other environment", run: there("order_not_found", orderAt("orders"))},
		Check{ID: "errors.proxy_not_found.there", Section: secProxies, Sentence: "a proxy is proxy_not_found in the other environment", run: there("proxy_not_found", proxyAt("proxies"))})
	for _, p := range pagedLists {
		out = append(out, Check{ID: "page.token." + p.name + ".there", Section: secPagination, Sentence: "a token of " + p.name + " is refused with invalid_page_token in the other environment",
			run: there("invalid_page_token", p.second)})
	}
	return out
}

func noncePerKey(s *session) finding {
	second := s.keyOf(RoleSame, "")
	if second == nil {
		second = s.keyOf(RoleOther, "")
	}
	if second == nil {
		return notRun("needs a second key")
	}
	r := withNonce(newNonce())
	s.send(r)
	r.as = second
	return signatureAccepted(s.send(r))
}

// scopeChecks observe that a key with one scope opens its endpoints and no other.
func scopeChecks() []Check {
	scopes := []string{"account:read", "wallet:read", "offers:read", "orders:read", "orders:write", "proxies:read", "proxies:write"}
	out := make([]Check, 0, len(scopes)*len(endpoints))
	for _, scope := range scopes {
		for _, e := range endpoints {
			verb, want := "does not open", refusing("insufficient_scope")
			if e.scope == scope {
				verb, want = "opens", opened
			}
			out = append(out, Check{ID: "scope." + scope + "." + e.name, Section: secCredentials,
				Sentence: fmt.Sprintf("%s alone %s %s %s", scope, verb, e.method, e.name), run: asks(as(RoleScope, scope, "a key with the scope "+scope+" alone", e.harmless()), want)})
		}
	}
	return out
}

// as sends the request with a further key, and says what key that needs.
func as(role Role, scope, what string, r request) func(*session) (request, string) {
	return func(s *session) (request, string) {
		if r.as = s.keyOf(role, scope); r.as == nil {
			return r, "needs " + what
		}
		return r, ""
	}
}

// foreign makes a request for something of this account with another account's key.
func foreign(made func(*session) (request, string)) func(*session) (request, string) {
	return func(s *session) (request, string) {
		r, why := made(s)
		if r.as = s.keyOf(RoleOther, ""); r.as == nil {
			why = "needs a key of another account"
		}
		return r, why
	}
}

// opened wants anything but a refusal of the signature or of the scope.
func opened(r reply) finding {
	if r.code() == "insufficient_scope" {
		return differs("%s", r.seen())
	}
	return signatureAccepted(r)
}
