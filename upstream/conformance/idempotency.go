package conformance

import (
	"reflect"
	"strings"
	"sync"
)

func idempotencyChecks(c *suite) {
	replayChecks(c, "order", "an order", "", orderAgain("plain"))
	replayChecks(c, "legacy", "a legacy order", "", orderAgain("legacy"))
	replayChecks(c, "unfinished", "an order that was unfinished then", onlySandbox, orderAgain("delayed"))
	replayChecks(c, "rejected", "an order that was rejected since", onlySandbox, orderAgain("rejected"))
	replayChecks(c, "renewal_one", "a renewal of one", "", renewalAgain("one"))
	replayChecks(c, "renewal_two", "a renewal of two", "", renewalAgain("two"))
	conflictChecks(c)
	keyChoices(c)
	concurrencyChecks(c, "order", "order_no", func(s *session) request {
		r, _ := s.orderOf("concurrent")
		return r
	})
	concurrencyChecks(c, "renewal", "", func(s *session) request {
		s.chosenOffer()
		s.needProxies()
		r, _ := s.renewalOf("concurrent")
		return r
	})
}

// repetition is a request that was sent twice, with the wallet before and after the second time.
type repetition struct {
	first, second reply
	around
	noEffect bool // the second request had no effect
}

func orderAgain(name string) func(*session) repetition {
	return func(s *session) repetition {
		return memo(s, "again order "+name, func() repetition {
			b := s.ordered(name)
			p := s.pay(b.request)
			return repetition{b.reply, p.reply, p.around, word(p.reply.data(), "order_no") == b.orderNo}
		})
	}
}

func renewalAgain(name string) func(*session) repetition {
	return func(s *session) repetition {
		return memo(s, "again renewal "+name, func() repetition {
			r := s.renewed(name)
			before := s.expiries(r.ids)
			p := s.pay(r.request)
			return repetition{r.reply, p.reply, p.around, reflect.DeepEqual(before, s.expiries(r.ids))}
		})
	}
}

func replayChecks(c *suite, id, what string, only environment, repeat func(*session) repetition) {
	g := group{c, "idempotency." + id, secIdempotency, "the same key and body of " + what, true, only}
	g.rule("replayed", "get the first response's code and status", of(repeat, func(a repetition) finding {
		return when(a.second.status != a.first.status || a.second.code() != a.first.code(),
			differs("first %s, then %s", a.first.seen(), a.second.seen()), ok("%s", a.second.seen()))
	}))
	g.rule("snapshot", "get the first response's data, whatever happened since", of(repeat, func(a repetition) finding {
		return when(a.second.data() == nil || !reflect.DeepEqual(a.first.data(), a.second.data()), differs("data is not the same"), ok("the same data"))
	}))
	g.rule("not_charged", "charge nothing", of(repeat, func(a repetition) finding { return a.notCharged() }))
	g.rule("not_done_twice", "do nothing a second time", of(repeat, func(a repetition) finding {
		return when(a.noEffect, ok("nothing moved"), differs("another order, or another expiry, came of it"))
	}))
	g.rule("same_frame", "has the first timestamp and trace_id", of(repeat, func(a repetition) finding {
		return ok("timestamp %t, trace_id %t", a.first.envelope["timestamp"] == a.second.envelope["timestamp"], a.first.envelope["trace_id"] == a.second.envelope["trace_id"])
	})).open()
}

func conflictChecks(c *suite) {
	order := func(s *session) request {
		return keyed("/api/v1/orders", s.ordered("plain").request.key, lines(s.chosenOffer().code, 1, 1))
	}
	renewal := func(s *session) request {
		r := s.renewed("one")
		return keyed("/api/v1/proxies/renew", r.request.key, renewBody(r.ids, 60))
	}
	conflict := func(again prepared) judgement {
		return asks(func(s *session) request {
			s.affordAgain()
			r, why := attempt(func() request { return again(s) })
			if why != "" {
				s.skipf("there is no key that was used")
			}
			return r
		}, refusing("idempotency_key_conflict"))
	}
	c.rule("idempotency.conflict.order", secIdempotency, "an order's key with another body is refused with idempotency_key_conflict", conflict(order)).costs()
	c.rule("idempotency.conflict.renewal", secIdempotency, "a renewal's key with another body is refused with idempotency_key_conflict", conflict(renewal)).costs()
	c.rule("idempotency.conflict.charges_nothing", secIdempotency, "a conflict charges nothing", func(s *session) finding {
		_, _ = attempt(func() *renewed { return s.renewed("one") }) // before the wallet is read
		s.affordAgain()
		var replies [2]reply
		f := s.around(func() {
			for i, again := range []prepared{order, renewal} {
				replies[i], _ = attempt(func() reply { return s.send(again(s)) })
			}
		}).notCharged()
		return when(f.verdict == OK, ok("%s, %s", replies[0].seen(), replies[1].seen()), f)
	}).costs()
}

// affordAgain calls afford for a request that the server should refuse but may execute.
func (s *session) affordAgain() { s.afford(2 * s.chosenOffer().cents) }

func keyChoices(c *suite) {
	choice := func(id, sentence string, made prepared) *Check {
		return c.rule("idempotency."+id, secIdempotency, sentence, asks(made, recorded)).costs().open()
	}
	choice("conflict.whitespace", "whether white space makes another body", func(s *session) request {
		b := s.ordered("plain")
		s.affordAgain()
		return keyed("/api/v1/orders", b.request.key, " "+string(b.request.body))
	})
	choice("conflict.other_endpoint", "what an order's key gets at the renewal", func(s *session) request {
		return keyed("/api/v1/proxies/renew", s.ordered("plain").request.key, renewBody([]string{unknown}, 30))
	})
	choice("other_scenario", "what an order's key and body get under another scenario", func(s *session) request {
		r := s.ordered("success").request
		s.affordAgain()
		r.scenario = "partial"
		return r
	}).in(onlySandbox)
	choice("after_refusal", "whether a refusal leaves its key free for another body", func(s *session) request {
		good, _ := s.orderOf("after_refusal")
		s.send(keyed(good.path, good.key, strings.Replace(string(good.body), `"duration_days":30`, `"duration_days":45`, 1)))
		return good
	})
	choice("second_key", "whether a key is shared by the API keys of an account", func(s *session) request {
		second := s.keyOf(RoleSame, "")
		b, why := attempt(s.orderedPlain)
		if why != "" || second == nil {
			s.skipf("needs a second key of the account, and an order")
		}
		r := keyed("/api/v1/orders", b.request.key, "{}") // with another body: a shared key is a conflict, and otherwise the body is invalid
		r.otherKey = second
		return r
	})
}

type race struct {
	replies []reply
	around
}

const racers = 8

func runRace(s *session, name string, made prepared) race {
	return memo(s, "race "+name, func() race {
		r := made(s)
		out := race{replies: make([]reply, racers)}
		out.around = s.around(func() {
			var all sync.WaitGroup
			for i := range racers {
				all.Go(func() { out.replies[i] = s.send(r) })
			}
			all.Wait()
		})
		return out
	})
}

func concurrencyChecks(c *suite, name, identity string, made prepared) {
	c.rule("idempotency.concurrent."+name+".answers", secIdempotency, "eight at once under one key are done, replayed or idempotency_processing: "+name, func(s *session) finding {
		return runRace(s, name, made).answers()
	}).costs()
	c.rule("idempotency.concurrent."+name+".once", secIdempotency, "eight at once under one key are charged once: "+name, func(s *session) finding {
		return runRace(s, name, made).chargedOnce(s, identity)
	}).costs()
}

func (r race) answers() finding {
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

func (r race) chargedOnce(s *session, identity string) finding {
	var data dict
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
		data = s.order(word(data, identity)).data()
	}
	return r.debited(data, "total_cents")
}
