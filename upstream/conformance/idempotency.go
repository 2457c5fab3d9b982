// Checks of replay, conflict and concurrency under one idempotency key.

package conformance

import (
	"bytes"
	"cmp"
	"net/http"
	"reflect"
	"sync"
)

// idempotencyChecks are replay, conflict and concurrency under one key.
func idempotencyChecks() []Check {
	var out []Check
	for _, o := range []struct {
		id, name, what string
		only           environment
	}{{"order", "plain", "an order", ""}, {"legacy", "legacy", "a legacy order", ""}, {"unfinished", "delayed", "an order that was unfinished then", onlySandbox}, {"rejected", "rejected", "an order that was rejected since", onlySandbox}} {
		out = append(out, replayChecks(o.id, o.what, o.only, func(s *session) again { return s.orderAgain(o.name) })...)
	}
	for _, name := range []string{"one", "two"} {
		out = append(out, replayChecks("renewal_"+name, "a renewal of "+name, "", func(s *session) again { return s.renewalAgain(name) })...)
	}
	return append(append(out, conflictChecks()...), append(keyChoices(), concurrencyChecks()...)...)
}

// again is a request that was sent once more, with the wallet around it.
type again struct {
	why           string
	first, second reply
	around
	rest bool // what must not have happened twice did not
}

func (s *session) orderAgain(name string) again {
	return memo(s, "again order "+name, func() again {
		b := s.buy(name)
		if b.orderNo == "" {
			return again{why: b.why}
		}
		a := again{first: b.created}
		a.around = s.around(func() { a.second = s.send(b.request()) })
		a.rest = word(a.second.data(), "order_no") == b.orderNo
		return a
	})
}

func (s *session) renewalAgain(name string) again {
	return memo(s, "again renewal "+name, func() again {
		r := s.renew(name)
		if r.why != "" {
			return again{why: r.why}
		}
		a, before := again{first: r.reply}, s.expiries(r.ids)
		a.around = s.around(func() { a.second = s.send(r.request()) })
		a.rest = reflect.DeepEqual(before, s.expiries(r.ids))
		return a
	})
}

func replayChecks(id, what string, only environment, repeat func(*session) again) []Check {
	of := func(do func(again) finding) func(*session) finding {
		return given(func(s *session) (again, string) { a := repeat(s); return a, a.why }, func(_ *session, a again) finding { return do(a) })
	}
	g := group{"idempotency." + id, secIdempotency, "the same key and body of " + what, true, only}
	check := g.check
	return []Check{
		check("replayed", "get the first response's code and status", of(func(a again) finding {
			if a.second.status != a.first.status || a.second.code() != a.first.code() {
				return differs("first %s, then %s", a.first.seen(), a.second.seen())
			}
			return ok("%s", a.second.seen())
		})),
		check("snapshot", "get the first response's data, whatever happened since", of(func(a again) finding {
			if a.second.data() == nil || !reflect.DeepEqual(a.first.data(), a.second.data()) {
				return differs("data is not the same")
			}
			return ok("the same data")
		})),
		check("not_charged", "charge nothing", of(func(a again) finding { return a.unmoved() })),
		check("not_done_twice", "do nothing a second time", of(func(a again) finding {
			if !a.rest {
				return differs("another order, or another expiry, came of it")
			}
			return ok("nothing moved")
		})),
		g.open("same_frame", "has the first timestamp and trace_id", of(func(a again) finding {
			return ok("timestamp %t, trace_id %t", a.first.envelope["timestamp"] == a.second.envelope["timestamp"], a.first.envelope["trace_id"] == a.second.envelope["trace_id"])
		})),
	}
}

// conflictChecks send a key with another body.
func conflictChecks() []Check {
	order := func(s *session) (request, bool) {
		b := s.buy("plain")
		o, _ := s.chosenOffer()
		return keyed("/api/v1/orders", b.key, lines(o.code, 1, 1)), b.why == ""
	}
	renewal := func(s *session) (request, bool) {
		r := s.renew("one")
		return keyed("/api/v1/proxies/renew", r.key, string(renewBody(r.ids, 60))), r.why == ""
	}
	conflict := func(again func(*session) (request, bool)) func(*session) finding {
		return asks(func(s *session) (request, string) {
			if why := s.affordAgain(); why != "" {
				return request{}, why
			}
			r, used := again(s)
			if !used {
				return r, "there is no key that was used"
			}
			return r, ""
		}, refusing("idempotency_key_conflict"))
	}
	return []Check{
		{ID: "idempotency.conflict.order", Section: secIdempotency, Costs: true, Sentence: "an order's key with another body is refused with idempotency_key_conflict", run: conflict(order)},
		{ID: "idempotency.conflict.renewal", Section: secIdempotency, Costs: true, Sentence: "a renewal's key with another body is refused with idempotency_key_conflict", run: conflict(renewal)},
		{ID: "idempotency.conflict.charges_nothing", Section: secIdempotency, Costs: true, Sentence: "a conflict charges nothing", run: func(s *session) finding {
			s.renew("one")
			if why := s.affordAgain(); why != "" {
				return notRun("%s", why)
			}
			var replies [2]reply
			wallet := s.around(func() {
				for i, again := range []func(*session) (request, bool){order, renewal} {
					if r, used := again(s); used {
						replies[i] = s.send(r)
					}
				}
			})
			if f := wallet.unmoved(); f.verdict != OK {
				return f
			}
			return ok("%s, %s", replies[0].seen(), replies[1].seen())
		}},
	}
}

// affordAgain says why what should be refused or replayed could not be paid if the
// server carried it out all the same.
func (s *session) affordAgain() string {
	o, why := s.chosenOffer()
	return cmp.Or(why, s.afford(2*o.cents))
}

// keyChoices record what the document leaves open about keys.
func keyChoices() []Check {
	return []Check{
		{ID: "idempotency.conflict.whitespace", Section: secIdempotency, Costs: true, Open: true, Sentence: "whether white space makes another body", run: asks(func(s *session) (request, string) {
			b := s.buy("plain")
			return keyed("/api/v1/orders", b.key, " "+string(b.body)), cmp.Or(b.why, s.affordAgain())
		}, recorded)},
		{ID: "idempotency.conflict.other_endpoint", Section: secIdempotency, Costs: true, Open: true, Sentence: "what an order's key gets at the renewal", run: asks(func(s *session) (request, string) {
			b := s.buy("plain")
			return keyed("/api/v1/proxies/renew", b.key, string(renewBody([]string{unknown}, 30))), b.why
		}, recorded)},
		{ID: "idempotency.other_scenario", Section: secIdempotency, Costs: true, only: onlySandbox, Open: true, Sentence: "what an order's key and body get under another scenario", run: asks(func(s *session) (request, string) {
			b := s.buy("success")
			r := b.request()
			r.scenario = "partial"
			return r, cmp.Or(b.why, s.affordAgain())
		}, recorded)},
		{ID: "idempotency.after_refusal", Section: secIdempotency, Costs: true, Open: true, Sentence: "whether a refusal leaves its key free for another body", run: afterRefusal},
		{ID: "idempotency.second_key", Section: secIdempotency, Costs: true, Open: true, Sentence: "whether a key is shared by the API keys of an account", run: func(s *session) finding {
			second, b := s.keyOf(RoleSame, ""), s.buy("plain")
			if second == nil || b.why != "" {
				return notRun("needs a second key of the account, and an order")
			}
			r := b.request()
			r.as, r.body = second, []byte(`{}`) // another body: a shared key is a conflict, a free one is not valid
			return recorded(s.send(r))
		}},
	}
}

// afterRefusal sends an invalid order and then a good one under one key.
func afterRefusal(s *session) finding {
	good, _, why := s.orderOf("after_refusal")
	if why != "" {
		return notRun("%s", why)
	}
	invalid := good
	invalid.body = bytes.Replace(good.body, []byte(`"duration_days":30`), []byte(`"duration_days":45`), 1)
	s.send(invalid)
	return recorded(s.send(good))
}

// race sends one request many times at once.
type race struct {
	why     string
	replies []reply
	around
}

const racers = 8

func (s *session) race(name string, prepare func() (request, string)) race {
	return memo(s, "race "+name, func() race {
		r, why := prepare()
		if why != "" {
			return race{why: why}
		}
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

func (s *session) orderRace() race {
	return s.race("order", func() (request, string) {
		r, _, why := s.orderOf("concurrent")
		return r, why
	})
}

func (s *session) renewRace() race {
	return s.race("renewal", func() (request, string) {
		o, why := s.chosenOffer()
		ids := s.ownProxies()
		switch {
		case why != "":
		case len(ids) == 0:
			why = "the run has no proxy of its own"
		default:
			why = s.afford(o.estimate(findPurchase(renewals, "concurrent")))
		}
		if why != "" {
			return request{}, why
		}
		return request{method: http.MethodPost, path: "/api/v1/proxies/renew", key: s.newKey("race"), body: renewBody(ids[:1], 30)}, ""
	})
}

func concurrencyChecks() []Check {
	out := make([]Check, 0, 4)
	for _, k := range []struct {
		name, amount, identity string
		race                   func(*session) race
	}{{"order", "total_cents", "order_no", (*session).orderRace}, {"renewal", "total_cents", "", (*session).renewRace}} {
		out = append(out,
			Check{ID: "idempotency.concurrent." + k.name + ".answers", Section: secIdempotency, Costs: true,
				Sentence: "eight at once under one key are done, replayed or idempotency_processing: " + k.name, run: func(s *session) finding { return raceAnswers(k.race(s)) }},
			Check{ID: "idempotency.concurrent." + k.name + ".once", Section: secIdempotency, Costs: true,
				Sentence: "eight at once under one key are charged once: " + k.name, run: func(s *session) finding { return raceCharged(s, k.race(s), k.identity) }})
	}
	return out
}

func raceAnswers(r race) finding {
	if r.why != "" {
		return notRun("%s", r.why)
	}
	done := 0
	for i := range r.replies {
		got := &r.replies[i]
		switch {
		case got.succeeded():
			done++
		case got.code() != "idempotency_processing":
			return differs("%s", got.seen())
		}
	}
	if done == 0 {
		return differs("none was done")
	}
	return ok("%d of %d answered with the result", done, racers)
}

// raceCharged compares the wallet with the one amount that all answers name.
func raceCharged(s *session, r race, identity string) finding {
	if r.why != "" {
		return notRun("%s", r.why)
	}
	var total int64
	known, numbers := false, map[string]bool{}
	for i := range r.replies {
		if data := r.replies[i].data(); r.replies[i].succeeded() {
			numbers[word(data, identity)] = true
			total, known = cents(data, "total_cents")
		}
	}
	if len(numbers) > 1 {
		return differs("%d orders came of it", len(numbers))
	}
	if identity != "" {
		for number := range numbers {
			detail := s.get("/api/v1/orders/" + rfc3986(number))
			total, known = cents(detail.data(), "total_cents")
		}
	}
	const walletKnown = true
	return debited(r.before, r.after, walletKnown, total, known)
}
