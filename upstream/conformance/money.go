// Checks of amounts, the wallet and times.

package conformance

import "time"

// moneyChecks observe that amounts agree with one another and with the wallet, times have
// zones, and the wallet belongs to the environment.
func moneyChecks() []Check { return append(walletChecks(), frameChecks()...) }

func walletChecks() []Check {
	return []Check{
		{ID: "wallet.environment.of_key", Section: secWallet, Sentence: "environment is that of the key", run: func(s *session) finding {
			r, _ := s.replyOf("wallet")
			if got := word(r.data(), "environment"); got != s.cfg.environment() {
				return differs("it is %q", brief(got))
			}
			return ok("%s", s.cfg.environment())
		}},
		{ID: "wallet.cash_value.sandbox", Section: secWallet, only: onlySandbox, Sentence: "cash_value is false in a sandbox", run: func(s *session) finding {
			r, _ := s.replyOf("wallet")
			if v, isBool := r.data()["cash_value"].(bool); !isBool || v {
				return differs("it is %s", typeName(r.data()["cash_value"]))
			}
			return ok("false")
		}},
		{ID: "wallet.cash_value.production", Section: secWallet, only: onlyProduction, Open: true, Sentence: "what cash_value is in production", run: func(s *session) finding {
			r, _ := s.replyOf("wallet")
			return ok("%s", typeName(r.data()["cash_value"]))
		}},
		{ID: "wallet.balance_agrees", Section: secConventions, Sentence: "balance is balance_cents as a decimal string", run: func(s *session) finding {
			r, _ := s.replyOf("wallet")
			return decimalsAgree([]map[string]any{r.data()}, "balance_cents", "balance")
		}},
		{ID: "wallet.reading_is_free", Section: secWallet, Sentence: "reading changes no balance", run: func(s *session) finding {
			before, _ := s.balance()
			for _, e := range endpoints {
				if e.method == "GET" {
					s.get(e.path)
				}
			}
			if after, _ := s.balance(); after != before {
				return differs("%d cents became %d", before, after)
			}
			return ok("the same before and after")
		}},
	}
}

func frameChecks() []Check {
	return []Check{
		{ID: "account.same_again", Section: secAccount, Sentence: "the account of a key is the same at every read", run: func(s *session) finding {
			first, _ := s.replyOf("account")
			again := s.get("/api/v1/account")
			if first.data()["account_id"] == nil || first.data()["account_id"] != again.data()["account_id"] {
				return differs("account_id is %s and %s", typeName(first.data()["account_id"]), typeName(again.data()["account_id"]))
			}
			return ok("the same account_id")
		}},
		{ID: "account.field_types", Section: secAccount, Open: true, Sentence: "the types of the account's fields", run: func(s *session) finding {
			r, _ := s.replyOf("account")
			return ok("account_id %s, email_verified %s, status %q", typeName(r.data()["account_id"]), typeName(r.data()["email_verified"]), brief(word(r.data(), "status")))
		}},
		{ID: "envelope.trace_id.differs", Section: secEnvelope, Sentence: "two requests have two trace ids", run: func(s *session) finding {
			a, b := s.get("/api/v1/account"), s.get("/api/v1/account")
			if word(a.envelope, "trace_id") == "" || word(a.envelope, "trace_id") == word(b.envelope, "trace_id") {
				return differs("both have the same, or none")
			}
			return ok("two")
		}},
		{ID: "envelope.timestamp.present", Section: secEnvelope, Sentence: "timestamp is the present, within the five minutes that requests have", run: func(s *session) finding {
			r := s.get("/api/v1/account")
			at, known := timeOf(r.envelope["timestamp"])
			if apart := at.Sub(s.now()); !known || apart.Abs() > 5*time.Minute {
				return differs("it is %s", typeName(r.envelope["timestamp"]))
			}
			return ok("%s", at.UTC().Format(time.RFC3339))
		}},
		{ID: "envelope.code.ok", Section: secEnvelope, Sentence: "code is ok and success is true on success", run: get("/api/v1/account").wants(succeeds)},
	}
}

// around is the wallet before and after something that may charge.
type around struct {
	before, after int64
	walletKnown   bool
}

// around runs do between two reads of the wallet.
func (s *session) around(do func()) around {
	before, knownBefore := s.balance()
	do()
	after, knownAfter := s.balance()
	return around{before, after, knownBefore && knownAfter}
}

// unmoved wants that nothing was charged.
func (a around) unmoved() finding {
	if a.before != a.after {
		return differs("the wallet went from %d to %d cents", a.before, a.after)
	}
	return ok("the same before and after")
}

// debited compares the wallet with an amount that a result names.
func (a around) debited(data map[string]any, name string) finding {
	amount, has := cents(data, name)
	return debited(a.before, a.after, a.walletKnown, amount, has)
}

// debited compares the wallet around a purchase with what the purchase says.
func debited(before, after int64, known bool, total int64, has bool) finding {
	switch {
	case !known:
		return notRun("the wallet could not be read")
	case !has:
		return differs("the amount is not an integer")
	case before-after != total:
		return differs("the wallet went from %d to %d cents, the amount is %d", before, after, total)
	}
	return ok("%d cents", total)
}
