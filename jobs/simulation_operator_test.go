package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/desk"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/tables"
	"perennial/upstream/sandbox"
)

// simConfig is the configuration that an operator may change between two lives.
type simConfig struct {
	limit int64
	zone  *time.Location
	field string // cidr_field
	rate  float64
}

// simZones have days of 23 and 25 hours, clock changes of half an hour, and midnights that do
// not exist.
var simZones = func() (out []*time.Location) {
	for _, name := range []string{"UTC", "America/Santiago", "Atlantic/Azores", "Asia/Kolkata", "Pacific/Kiritimati", "America/Havana"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			panic(err)
		}
		out = append(out, zone)
	}
	return out
}()

// simDays are times at which the simulation starts: an ordinary day, and hours before clock
// changes at midnight.
var simDays = []time.Time{
	time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), time.Date(2026, 9, 6, 2, 0, 0, 0, time.UTC), time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC),
	time.Date(2026, 4, 5, 1, 0, 0, 0, time.UTC),
}

func (s *simulation) configure() {
	s.config = simConfig{zone: pick(s, simZones...), field: pick(s, "cidrs", "cidrs", ""), rate: pick(s, 1e9, 1e9, 20_000), limit: pick(s, int64(0), 0, 0, 900, 2400)}
	s.sayf("configuration: limit %d in %s, cidr_field %q", s.config.limit, s.config.zone, s.config.field)
}

// reconfigure stops the runner and changes the configuration; a later step starts it again.
func (s *simulation) reconfigure(context.Context) {
	if s.chance(3) {
		s.configure()
		s.runner = nil
	}
}

// person does what operators may do at any moment. Impossible requests are refused, and a
// mistake costs no more than the mistake itself.
func (s *simulation) person(ctx context.Context) {
	r := s.runner
	if r == nil {
		return
	}
	id, o, found := s.anOperation(ctx)
	verb := s.random.IntN(10)
	if verb == 0 && !s.chance(4) {
		verb = 1 // most pauses are ended soon
	}
	if !found && verb > 3 {
		return
	}
	var err error
	switch verb {
	case 0:
		s.sayf("a person pauses the account")
		err = r.PauseByHand(ctx, "ann", "to look")
	case 1:
		s.sayf("a person resumes the account")
		if _, err = r.ResumeByHand(ctx, "ann", "looked", false); err == nil && len(r.pauses.list()) > 0 {
			s.failf("a person resumed the account, and it is paused: %+v", r.pauses.list())
		}
	case 2:
		s.topUp(ctx)
	case 3:
		s.retire(ctx)
	case 4, 5:
		s.sayf("a person releases %s", id)
		if _, err = r.Release(ctx, id, "ann", "it is wanted"); err == nil {
			s.let[id] = true
		}
	case 6:
		s.sayf("a person cancels %s", id)
		_, err = r.Cancel(ctx, id, "ann", "it is not wanted")
	case 7:
		s.sayf("a person retries %s", id)
		_, err = r.Retry(ctx, id, "ann", "once more")
	default:
		s.answerNow(ctx, o)
		return
	}
	var refused *command.RefusedError
	if err != nil && !errors.As(err, &refused) && !errors.Is(err, ledger.ErrStale) {
		s.must(err, "a person's verb")
	}
}

// anOperation chooses an operation and returns it with its own id or its command's.
func (s *simulation) anOperation(ctx context.Context) (id string, o fact.Operation, found bool) {
	if len(s.commands) == 0 {
		return "", o, false
	}
	all, err := s.ledger.Operations.OperationsOf(ctx, pick(s, s.commands...).id)
	s.must(err, "operations")
	if open, err := s.ledger.Operations.OperationsIn(ctx, fact.StateReview, 10); err == nil && len(open) > 0 && s.chance(2) {
		all = open
	}
	if len(all) == 0 {
		return "", o, false
	}
	o = pick(s, all...)
	return pick(s, o.ID, o.CommandID), o, true
}

// topUp puts money into the wallet and books it, both as an operator.
func (s *simulation) topUp(ctx context.Context) {
	if _, err := s.ledger.Binding(ctx); err != nil {
		return
	}
	s.sayf("a person tops up")
	s.control("POST", "/wallet", map[string]any{"account_id": sandbox.DemoAccountID, "environment": "sandbox", "add_cents": 5000})
	s.record(ctx, desk.Recording{Kind: "top-up", Cents: 5000, By: "ann", Reason: "an invoice"})
}

// retire retires a proxy, so that guarded commands skip it.
func (s *simulation) retire(ctx context.Context) {
	id := fmt.Sprintf("px_%d", 1+s.random.IntN(8))
	retired, err := s.ledger.Fleet.Retired(ctx, id)
	s.must(err, "retired")
	if retired {
		return
	}
	s.sayf("a person retires %s", id)
	s.must(s.ledger.Write(ctx, func(tx *ledger.Tx) error {
		return tx.Append(fact.ProxyRetired{ProxyID: id, By: "ann", Reason: "not needed"})
	}), "retire")
}

// answerNow answers a review: by the provider's books if they are final, or wrongly.
func (s *simulation) answerNow(ctx context.Context, o fact.Operation) {
	x := desk.Resolution{ID: o.ID, By: "ann", Reason: "it looked so"}
	lines, err := s.ledger.Operations.Lines(ctx, o.ID)
	s.must(err, "lines")
	if len(lines) > 0 && s.chance(2) {
		x.ProxyID = pick(s, lines...).ProxyID
	}
	cents, honest := s.waiting(o, lines, x.ProxyID), s.final(o)
	if s.chance(4) {
		cents, honest = pick(s, int64(0), 1, 300, 900), false
	}
	charged := cents > 0
	x.Charged, x.ChargedCents, x.ConfirmCents, x.AgainstEvidence = &charged, cents, &cents, !charged
	if o.OrderNo != "" && s.chance(2) { // "it never came"
		cents, charged, honest = 0, false, false
		x.ChargedCents = 0
	}
	x.SendAgain = !charged && s.chance(2)
	if charged && o.Kind == fact.KindOrder && s.chance(2) {
		x.OrderNo = s.orderOf(o.Key)
		if x.OrderNo == "" || !honest && s.chance(2) {
			x.OrderNo = pick(s, "ord_nowhere", x.OrderNo)
		}
	}
	s.sayf("a person answers for %s %s: %d, honest %t, again %t, order %t", o.ID, x.ProxyID, cents, honest, x.SendAgain, x.OrderNo != "")
	err = s.runner.Resolve(ctx, x)
	var refused *command.RefusedError
	if errors.As(err, &refused) || errors.Is(err, ledger.ErrStale) {
		return
	}
	s.counts.reviews++ // also if not known whether the answer is on the stream
	if !honest {
		s.mistaken[o.Key], s.mistakes[o.CommandID] = true, true
	}
	s.must(err, "resolve "+o.ID)
	if x.SendAgain && o.OrderNo != "" && s.truth(o.Key, "") > 0 {
		s.failf("%s has an order that was paid for, and was sent again", o.ID)
	}
}

// waiting returns the provider's net charge for the unanswered part of an operation. Parts
// that an answer or the provider has settled are booked already.
func (s *simulation) waiting(o fact.Operation, lines []tables.RenewalLine, proxy string) (cents int64) {
	if len(lines) == 0 || proxy != "" {
		return s.truth(o.Key, proxy)
	}
	for _, l := range lines {
		if l.State == "pending" || l.State == "unresolved" {
			cents += s.truth(o.Key, l.ProxyID)
		}
	}
	return cents
}

// final reports whether nothing in progress can still change the charge under the operation's
// key.
func (s *simulation) final(o fact.Operation) bool {
	s.control("GET", "/state", nil)
	s.list = nil
	for _, late := range s.late {
		if late.Header.Get("Idempotency-Key") == o.Key {
			return false
		}
	}
	for _, c := range s.charged() {
		at, err := time.Parse(time.RFC3339Nano, c.Time)
		s.must(err, "time of a charge")
		if c.IdempotencyKey == o.Key && s.time.Sub(at) < time.Minute {
			return false
		}
	}
	return o.State == fact.StateReview || o.State.Ended()
}

func (s *simulation) orderOf(key string) string {
	for _, c := range s.charged() {
		if c.IdempotencyKey == key {
			return c.OrderNo
		}
	}
	return ""
}

// twoSchedules publishes two guarded commands for the same proxies, as two schedules with
// overlapping filters do.
func (s *simulation) twoSchedules(context.Context) {
	ids := []string{"px_1", "px_2", "px_3", "px_4", "px_5", "px_6", "px_7", "px_8"}[s.random.IntN(4):]
	ids = ids[:1+s.random.IntN(len(ids))]
	due := s.time.Add(20 * 24 * time.Hour)
	for range 2 {
		s.publishOne(map[string]any{"proxy_ids": ids, "due_before": due, "duration_days": 30})
	}
}

// quiet is a period without faults, in which guarded and unguarded renewals of a few proxies
// follow each other within the time that a read may lag.
func (s *simulation) quiet(ctx context.Context) {
	if s.runner == nil {
		return
	}
	faulty := s.faulty
	s.faulty = false
	defer func() { s.faulty = faulty }()
	first := 7 + s.random.IntN(8) // most of them of its own: others are often held
	for range 2 + s.random.IntN(4) {
		body := map[string]any{"proxy_ids": []string{fmt.Sprintf("px_%d", first)}, "duration_days": 30}
		if s.chance(2) {
			body["due_before"] = s.time.Add(time.Duration(pick(s, 20, 20, 60)) * 24 * time.Hour)
		}
		s.publishOne(body)
		s.deliver(ctx)
		for range 3 {
			s.work(ctx)
		}
		s.time = s.time.Add(pick(s, time.Second, 20*time.Second, time.Minute))
	}
}

// meanwhile is what happens during a request: another job sends its request, or an operator or
// the queue acts.
func (s *simulation) meanwhile() {
	if !s.faulty || s.nested || s.runner == nil || !s.chance(4) {
		return
	}
	s.nested = true
	defer func() { s.nested = false }()
	s.sayf("meanwhile:")
	ctx := failpoint.With(context.Background(), s.reached)
	[...]func(context.Context){s.deliver, s.person, s.mind}[max(0, s.random.IntN(4)-1)](ctx)
	s.work(ctx)
	s.sayf("so much for that")
}

// simLook is the last read of an operation's proxies before its request was sent.
type simLook struct {
	seq              int64
	key, id, command string
	shown            map[string]string // expiry by proxy
	guarded          bool
}

// looks reads the journal's intents: for each key, the last intent after a precheck, and the
// proxies retired by then.
func (s *simulation) looks(ctx context.Context) (out []simLook) {
	retired, last := map[string]bool{}, map[string]simLook{}
	for after := int64(0); ; {
		rows, err := s.ledger.Rows(ctx, after, 1000)
		s.must(err, "rows")
		if len(rows) == 0 {
			return slices.SortedFunc(maps.Values(last), func(a, b simLook) int { return cmp.Compare(a.seq, b.seq) })
		}
		for _, row := range rows {
			if after = row.Seq; row.Type != "operation.sending" && row.Type != "proxy.retired" {
				continue
			}
			f, err := fact.Decode(row.Type, []byte(row.Data))
			s.must(err, "fact")
			switch f := f.(type) {
			case fact.ProxyRetired:
				retired[f.ProxyID] = true
			case fact.OperationSending:
				look := simLook{seq: row.Seq, key: f.Key, id: f.OperationID, command: f.CommandID, shown: s.shownTo[f.Key], guarded: s.guarded[f.CommandID]}
				if _, before := last[f.Key]; before && len(f.Observed) == 0 {
					continue // the same request again: nothing was looked at
				}
				if look.guarded {
					look.shown = map[string]string{}
				}
				for id, expiry := range f.Observed {
					if look.guarded {
						look.shown[id] = expiry.UTC().Format(time.RFC3339)
					}
					if look.guarded && retired[id] {
						s.failf("%s was retired, and %s renews it", id, f.OperationID)
					}
				}
				last[f.Key] = look
			}
		}
	}
}

// onceForAnExpiry checks that no guarded command pays for an expiry that was paid for before.
func (s *simulation) onceForAnExpiry(ctx context.Context) {
	paid := map[string]string{} // key by proxy and expiry
	for _, look := range s.looks(ctx) {
		for _, id := range slices.Sorted(maps.Keys(look.shown)) {
			if s.mistakes[look.command] || s.truth(look.key, id) <= 0 {
				continue
			}
			what := id + " at its expiry of " + look.shown[id]
			if before := paid[what]; before != "" && look.guarded {
				s.failf("%s was paid for under %s, and again by the guarded %s", what, before, look.id)
			}
			paid[what] = look.key
		}
	}
}
