// Checks that need further keys or the other environment.

package conformance

func keyChecks() []Check {
	out := each(endpoints, func(e endpoint) []Check {
		return []Check{
			rule("auth.revoked."+e.name, secCredentials, "a disabled key is refused on "+e.method+" "+e.name,
				asks(as(RoleRevoked, "", "a key of the role revoked", e.harmless()), refusing("api_key_revoked"))),
			rule("auth.outside."+e.name, secCredentials, "a source outside the allowed range is refused on "+e.method+" "+e.name,
				asks(as(RoleOutside, "", "a key of the role outside", e.harmless()), refusing("insufficient_scope"))),
		}
	})
	return append(append(out, thereChecks()...),
		rule("auth.environments_not_mixed", secCredentials, "the key is refused in the other environment", func(s *session) finding {
			r, why := s.elsewhere(get("/api/v1/account"))
			return when(why != "", notRun("%s", why), refusedAnyhow(r))
		}),
		rule("auth.nonce.per_key", secHeaders, "a nonce is refused under the same key, not under another", noncePerKey),
		rule("auth.secret_never_comes_back", secCredentials, "no reply of the run holds the API Secret", func(s *session) finding {
			return when(s.leaked > 0, differs("%d replies hold it", s.leaked), ok("%d replies looked at", s.requests.Load()))
		}).atEnd())
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

// thereChecks observe that the same account's other environment knows nothing of this one.
func thereChecks() []Check {
	there := func(code string, ask step[request]) judgement {
		return given(func(s *session) (reply, string) {
			r, why := ask(s)
			if r.as = s.keyOf(RoleThere, ""); r.as == nil {
				why = "needs a key of the role there"
			}
			if why != "" {
				return reply{}, why
			}
			return s.elsewhere(r)
		}, func(_ *session, r reply) finding { return refused(r, code) })
	}
	return append([]Check{
		rule("errors.order_not_found.there", secDetail, "an order is order_not_found in the other environment", there("order_not_found", orderAt("orders"))),
		rule("errors.proxy_not_found.there", secProxies, "a proxy is proxy_not_found in the other environment", there("proxy_not_found", proxyAt("proxies"))),
	}, each(pagedLists, func(p paged) []Check {
		return []Check{rule("page.token."+p.name+".there", secPagination, "a token of "+p.name+" is refused with invalid_page_token in the other environment", there("invalid_page_token", p.second))}
	})...)
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
	return each(scopes, func(scope string) []Check {
		return each(endpoints, func(e endpoint) []Check {
			verb, want := "does not open", refusing("insufficient_scope")
			if e.scope == scope {
				verb, want = "opens", func(r reply) finding {
					return accepted(r, "insufficient_scope", "invalid_signature", "stale_timestamp", "replayed_nonce")
				}
			}
			return []Check{rule("scope."+scope+"."+e.name, secCredentials, scope+" alone "+verb+" "+e.method+" "+e.name,
				asks(as(RoleScope, scope, "a key with the scope "+scope+" alone", e.harmless()), want))}
		})
	})
}

// as sends the request with a further key, and says what key that needs.
func as(role Role, scope, what string, r request) step[request] {
	return func(s *session) (request, string) {
		r.as = s.keyOf(role, scope)
		return r, says(r.as == nil, "needs %s", what)
	}
}

// foreign makes a request for something of this account with another account's key.
func foreign(made step[request]) step[request] {
	return func(s *session) (request, string) {
		r, why := made(s)
		if r.as = s.keyOf(RoleOther, ""); r.as == nil {
			why = "needs a key of another account"
		}
		return r, why
	}
}
