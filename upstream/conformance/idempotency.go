// Checks of repeated, conflicting and parallel requests with one idempotency key.

package conformance

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"
)

func idempotencyChecks() []Check {
	return slices.Concat(
		replayChecks("order", "an order", "", orderAgain("plain")),
		replayChecks("legacy", "a legacy order", "", orderAgain("legacy")),
		replayChecks("unfinished", "an order that was unfinished then", onlySandbox, orderAgain("delayed")),
		replayChecks("rejected", "an order that was rejected since", onlySandbox, orderAgain("rejected")),
		replayChecks("renewal_one", "a renewal of one", "", renewalAgain("one")),
		replayChecks("renewal_two", "a renewal of two", "", renewalAgain("two")),
		conflictChecks(), keyChoices(),
		concurrencyChecks("order", "order_no", func(s *session) (request, string) {
			r, _, why := s.orderOf("concurrent")
			return r, why
		}), concurrencyChecks("renewal", "", func(s *session) (request, string) {
			if _, why := s.chosenOffer(); why == "" && len(s.ownProxies()) == 0 {
				return request{}, noProxy
			}
			r, _, why := s.renewalOf("concurrent")
			return r, why
		}))
}

// repetition is a request that was sent twice, with the wallet before and after the second
// time.
type repetition struct {
	first, second reply
	around
	noEffect bool // the second request had no effect
}

func orderAgain(name string) step[repetition] {
	return func(s *session) (repetition, string) {
		return try(s, "again order "+name, func() (repetition, string) {
			b := s.buy(name)
			if b.why != "" {
				return repetition{}, b.why
			}
			p := s.pay(b.request)
			return repetition{b.reply, p.reply, p.around, word(p.reply.data(), "order_no") == b.orderNo}, ""
		})
	}
}

func renewalAgain(name string) step[repetition] {
	return func(s *session) (repetition, string) {
		return try(s, "again renewal "+name, func() (repetition, string) {
			r := s.renew(name)
			if r.why != "" {
				return repetition{}, r.why
			}
			before := s.expiries(r.ids)
			p := s.pay(r.request)
			return repetition{r.reply, p.reply, p.around, reflect.DeepEqual(before, s.expiries(r.ids))}, ""
		})
	}
}

func replayChecks(id, what string, only environment, repeat step[repetition]) []Check {
	g := group{"idempotency." + id, secIdempotency, "the same key and body of " + what, true, only}
	check := func(id, sentence string, do func(repetition) finding) Check {
		return g.rule(id, sentence, given(repeat, func(_ *session, a repetition) finding { return do(a) }))
	}
	return []Check{
		check("replayed", "get the first response's code and status", func(a repetition) finding {
			return when(a.second.status != a.first.status || a.second.code() != a.first.code(),
				differs("first %s, then %s", a.first.seen(), a.second.seen()), ok("%s", a.second.seen()))
		}),
		check("snapshot", "get the first response's data, whatever happened since", func(a repetition) finding {
			return when(a.second.data() == nil || !reflect.DeepEqual(a.first.data(), a.second.data()), differs("data is not the same"), ok("the same data"))
		}),
		check("not_charged", "charge nothing", func(a repetition) finding { return a.notCharged() }),
		check("not_done_twice", "do nothing a second time", func(a repetition) finding {
			return when(a.noEffect, ok("nothing moved"), differs("another order, or another expiry, came of it"))
		}),
		check("same_frame", "has the first timestamp and trace_id", func(a repetition) finding {
			return ok("timestamp %t, trace_id %t", a.first.envelope["timestamp"] == a.second.envelope["timestamp"], a.first.envelope["trace_id"] == a.second.envelope["trace_id"])
		}).open(),
	}
}

// conflictChecks send another body with a used key.
func conflictChecks() []Check {
	order := func(s *session) (request, string) {
		b := s.buy("plain")
		o, _ := s.chosenOffer()
		return keyed("/api/v1/orders", b.request.key, lines(o.code, 1, 1)), b.why
	}
	renewal := func(s *session) (request, string) {
		r := s.renew("one")
		return keyed("/api/v1/proxies/renew", r.request.key, renewBody(r.ids, 60)), r.why
	}
	conflict := func(again step[request]) judgement {
		return asks(func(s *session) (request, string) {
			if why := s.affordAgain(); why != "" {
				return request{}, why
			}
			r, why := again(s)
			if why != "" {
				why = "there is no key that was used"
			}
			return r, why
		}, refusing("idempotency_key_conflict"))
	}
	return []Check{
		rule("idempotency.conflict.order", secIdempotency, "an order's key with another body is refused with idempotency_key_conflict", conflict(order)).costs(),
		rule("idempotency.conflict.renewal", secIdempotency, "a renewal's key with another body is refused with idempotency_key_conflict", conflict(renewal)).costs(),
		rule("idempotency.conflict.charges_nothing", secIdempotency, "a conflict charges nothing", func(s *session) finding {
			s.renew("one")
			if why := s.affordAgain(); why != "" {
				return notRun("%s", why)
			}
			var replies [2]reply
			wallet := s.around(func() {
				for i, again := range []step[request]{order, renewal} {
					if r, why := again(s); why == "" {
						replies[i] = s.send(r)
					}
				}
			})
			f := wallet.notCharged()
			return when(f.verdict == OK, ok("%s, %s", replies[0].seen(), replies[1].seen()), f)
		}).costs(),
	}
}

// affordAgain returns the reason if the run could not pay for a request that the server
// should refuse but executes. It returns "" if the run could pay.
func (s *session) affordAgain() string {
	o, why := s.chosenOffer()
	return cmp.Or(why, s.afford(2*o.cents))
}

// keyChoices record how the server treats keys when the API document gives no rule.
func keyChoices() []Check {
	choice := func(id, sentence string, made step[request]) Check {
		return rule("idempotency."+id, secIdempotency, sentence, asks(made, recorded)).costs().open()
	}
	return []Check{
		choice("conflict.whitespace", "whether white space makes another body", func(s *session) (request, string) {
			b := s.buy("plain")
			return keyed("/api/v1/orders", b.request.key, " "+string(b.request.body)), cmp.Or(b.why, s.affordAgain())
		}),
		choice("conflict.other_endpoint", "what an order's key gets at the renewal", func(s *session) (request, string) {
			b := s.buy("plain")
			return keyed("/api/v1/proxies/renew", b.request.key, renewBody([]string{unknown}, 30)), b.why
		}),
		choice("other_scenario", "what an order's key and body get under another scenario", func(s *session) (request, string) {
			b := s.buy("success")
			r := b.request
			r.scenario = "partial"
			return r, cmp.Or(b.why, s.affordAgain())
		}).in(onlySandbox),
		choice("after_refusal", "whether a refusal leaves its key free for another body", func(s *session) (request, string) {
			good, _, why := s.orderOf("after_refusal")
			if why == "" {
				s.send(keyed(good.path, good.key, strings.Replace(string(good.body), `"duration_days":30`, `"duration_days":45`, 1)))
			}
			return good, why
		}),
		choice("second_key", "whether a key is shared by the API keys of an account", func(s *session) (request, string) {
			second, b := s.keyOf(RoleSame, ""), s.buy("plain")
			if second == nil || b.why != "" {
				return request{}, "needs a second key of the account, and an order"
			}
			r := keyed("/api/v1/orders", b.request.key, "{}") // with another body: a shared key is a conflict, and otherwise the body is invalid
			r.otherKey = second
			return r, ""
		}),
	}
}

// race is one request that was sent several times in parallel.
type race struct {
	replies []reply
	around
}

const racers = 8

// race sends a prepared request several times in parallel. It does so once in each run.
func (s *session) race(name string, prepare step[request]) (race, string) {
	return try(s, "race "+name, func() (race, string) {
		r, why := prepare(s)
		if why != "" {
			return race{}, why
		}
		out := race{replies: make([]reply, racers)}
		out.around = s.around(func() {
			var all sync.WaitGroup
			for i := range racers {
				all.Go(func() { out.replies[i] = s.send(r) })
			}
			all.Wait()
		})
		return out, ""
	})
}

func concurrencyChecks(name, identity string, prepare step[request]) []Check {
	made := func(s *session) (race, string) { return s.race(name, prepare) }
	return []Check{
		rule("idempotency.concurrent."+name+".answers", secIdempotency, "eight at once under one key are done, replayed or idempotency_processing: "+name, given(made, raceAnswers)).costs(),
		rule("idempotency.concurrent."+name+".once", secIdempotency, "eight at once under one key are charged once: "+name, given(made, func(s *session, r race) finding {
			return r.chargedOnce(s, identity)
		})).costs(),
	}
}

func raceAnswers(_ *session, r race) finding {
	done := 0
	for _, got := range r.replies {
		switch {
		case got.succeeded():
			done++
		case got.code() != "idempotency_processing":
			return differs("%s", got.seen())
		}
	}
	return when(done == 0, differs("none was done"), ok("%d of %d answered with the result", done, racers))
}

// chargedOnce compares the change of the wallet with the amount of the single order or renewal.
func (r race) chargedOnce(s *session, identity string) finding {
	var data map[string]any
	numbers := map[string]bool{}
	for _, got := range r.replies {
		if got.succeeded() {
			data = got.data()
			numbers[word(data, identity)] = true
		}
	}
	if len(numbers) > 1 {
		return differs("%d orders came of it", len(numbers))
	}
	if identity != "" && data != nil {
		detail := s.get("/api/v1/orders/" + rfc3986(word(data, identity)))
		data = detail.data()
	}
	return r.debited(data, "total_cents")
}
