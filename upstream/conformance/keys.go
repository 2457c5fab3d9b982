// Checks that need further keys or the other environment.

package conformance

import (
	"fmt"
	"net/http"
)

// keyChecks need further keys, or the other environment.
func keyChecks() []Check {
	var out []Check
	for _, e := range endpoints {
		out = append(out,
			Check{ID: "auth.revoked." + e.name, Section: secCredentials, Sentence: fmt.Sprintf("a disabled key is refused on %s %s", e.method, e.name),
				run: func(s *session) finding { return asRole(s, RoleRevoked, e, "api_key_revoked") }},
			Check{ID: "auth.outside." + e.name, Section: secCredentials, Sentence: fmt.Sprintf("a source outside the allowed range is refused on %s %s", e.method, e.name),
				run: func(s *session) finding { return asRole(s, RoleOutside, e, "insufficient_scope") }})
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

func asRole(s *session, role Role, e endpoint, code string) finding {
	key := s.keyOf(role, "")
	if key == nil {
		return notRun("needs a key of the role %s", role)
	}
	r := e.harmless(s)
	r.as = key
	return refused(s.send(r), code)
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
	r, why := s.elsewhere(request{method: http.MethodGet, path: "/api/v1/account"})
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
		Check{ID: "errors.order_not_found.there", Section: secDetail, Sentence: "an order is order_not_found in the other environment", run: there("order_not_found", func(s *session) (request, string) {
			r, why := s.anyOrder()
			return request{method: http.MethodGet, path: "/api/v1/orders/" + rfc3986(word(r.data(), "order_no"))}, why
		})},
		Check{ID: "errors.proxy_not_found.there", Section: secProxies, Sentence: "a proxy is proxy_not_found in the other environment", run: there("proxy_not_found", func(s *session) (request, string) {
			r, why := s.anyProxy()
			return request{method: http.MethodGet, path: "/api/v1/proxies/" + rfc3986(word(r.data(), "proxy_id"))}, why
		})})
	for _, p := range pagedLists {
		out = append(out, Check{ID: "page.token." + p.name + ".there", Section: secPagination, Sentence: "a token of " + p.name + " is refused with invalid_page_token in the other environment",
			run: there("invalid_page_token", func(s *session) (request, string) {
				token, why := s.firstToken(p)
				return request{method: http.MethodGet, path: p.path, pairs: []pair{{"page_size", "1"}, {"page_token", token}}}, why
			})})
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
	nonce := newNonce()
	r := request{method: http.MethodGet, path: "/api/v1/account", resign: true, damage: func(d *draft) { d.nonce = nonce }}
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
			verb := "does not open"
			if e.scope == scope {
				verb = "opens"
			}
			out = append(out, Check{ID: "scope." + scope + "." + e.name, Section: secCredentials,
				Sentence: fmt.Sprintf("%s alone %s %s %s", scope, verb, e.method, e.name), run: func(s *session) finding { return tryScope(s, scope, e) }})
		}
	}
	return out
}

func tryScope(s *session, scope string, e endpoint) finding {
	key := s.keyOf(RoleScope, scope)
	if key == nil {
		return notRun("needs a key with the scope %s alone", scope)
	}
	r := e.harmless(s)
	r.as = key
	got := s.send(r)
	if e.scope != scope {
		return refused(got, "insufficient_scope")
	}
	if got.envelope == nil || got.code() == "insufficient_scope" {
		return differs("%s", got.seen())
	}
	return signatureAccepted(got)
}

// foreign asks for something of this account with another account's key.
func foreign(s *session, path, code string, why string) finding {
	key := s.keyOf(RoleOther, "")
	switch {
	case key == nil:
		return notRun("needs a key of another account")
	case why != "":
		return notRun("%s", why)
	}
	return refused(s.send(request{method: http.MethodGet, path: path, as: key}), code)
}
