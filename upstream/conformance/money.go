// Checks of amounts, the wallet and times.

package conformance

import (
	"net/http"
	"time"
)

func moneyChecks() []Check {
	return []Check{
		rule("wallet.environment.of_key", secWallet, "environment is that of the key", reading("wallet", func(s *session, data map[string]any) finding {
			got := word(data, "environment")
			return when(got == s.cfg.environment(), ok("%s", got), differs("it is %q", brief(got)))
		})),
		rule("wallet.cash_value.sandbox", secWallet, "cash_value is false in a sandbox", reading("wallet", func(_ *session, data map[string]any) finding {
			return when(data["cash_value"] == false, ok("false"), differs("it is %s", typeName(data["cash_value"])))
		})).in(onlySandbox),
		rule("wallet.cash_value.production", secWallet, "what cash_value is in production", reading("wallet", func(_ *session, data map[string]any) finding {
			return ok("%s", typeName(data["cash_value"]))
		})).in(onlyProduction).open(),
		rule("wallet.balance_agrees", secConventions, "balance is balance_cents as a decimal string", reading("wallet", func(_ *session, data map[string]any) finding {
			return decimalsAgree([]map[string]any{data}, "balance_cents", "balance")
		})),
		rule("wallet.reading_is_free", secWallet, "reading changes no balance", func(s *session) finding {
			wallet := s.around(func() {
				for _, e := range endpoints {
					if e.method == http.MethodGet {
						s.get(e.path)
					}
				}
			})
			return wallet.notCharged()
		}),
		rule("account.same_again", secAccount, "the account of a key is the same at every read", reading("account", func(s *session, first map[string]any) finding {
			again := s.get("/api/v1/account")
			a, b := first["account_id"], again.data()["account_id"]
			return when(a == nil || a != b, differs("account_id is %s and %s", typeName(a), typeName(b)), ok("the same account_id"))
		})),
		rule("account.field_types", secAccount, "the types of the account's fields", reading("account", func(_ *session, data map[string]any) finding {
			return ok("account_id %s, email_verified %s, status %q", typeName(data["account_id"]), typeName(data["email_verified"]), brief(word(data, "status")))
		})).open(),
		rule("envelope.trace_id.differs", secEnvelope, "two requests have two trace ids", func(s *session) finding {
			a, b := s.get("/api/v1/account"), s.get("/api/v1/account")
			one, two := word(a.envelope, "trace_id"), word(b.envelope, "trace_id")
			return when(one == "" || one == two, differs("both have the same, or none"), ok("two"))
		}),
		rule("envelope.timestamp.present", secEnvelope, "timestamp is the present, within the five minutes that requests have", func(s *session) finding {
			r := s.get("/api/v1/account")
			at, known := timeOf(r.envelope["timestamp"])
			return when(!known || at.Sub(s.now()).Abs() > 5*time.Minute, differs("it is %s", typeName(r.envelope["timestamp"])), ok("%s", at.UTC().Format(time.RFC3339)))
		}),
		rule("envelope.code.ok", secEnvelope, "code is ok and success is true on success", get("/api/v1/account").wants(succeeds)),
	}
}

// decimalsAgree requires that an amount in cents and a decimal string are equal in every
// object.
func decimalsAgree(objects []map[string]any, centsName, decimalName string) finding {
	if len(objects) == 0 {
		return notRun("there is nothing to compare")
	}
	for _, o := range objects {
		n, known := cents(o, centsName)
		if text := word(o, decimalName); !known || !agrees(text, n) {
			return differs("%s %s, %s %q", centsName, typeName(o[centsName]), decimalName, brief(text))
		}
	}
	return ok("%d compared", len(objects))
}

// around is the wallet in cents before and after a request that may charge.
type around struct {
	before, after int64
	known         bool
}

// around reads the wallet, calls do, and reads the wallet again.
func (s *session) around(do func()) around {
	before, knownBefore := s.balance()
	do()
	after, knownAfter := s.balance()
	return around{before, after, knownBefore && knownAfter}
}

// notCharged requires an unchanged wallet.
func (a around) notCharged() finding {
	if !a.known {
		return notRun("the wallet could not be read")
	}
	return when(a.before != a.after, differs("the wallet went from %d to %d cents", a.before, a.after), ok("the same before and after"))
}

// debited requires that the wallet decreased by an amount in a result.
func (a around) debited(data map[string]any, name string) finding {
	amount, has := cents(data, name)
	switch {
	case !a.known:
		return notRun("the wallet could not be read")
	case !has:
		return differs("the amount is not an integer")
	case a.before-a.after != amount:
		return differs("the wallet went from %d to %d cents, the amount is %d", a.before, a.after, amount)
	}
	return ok("%d cents", amount)
}
