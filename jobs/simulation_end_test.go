package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/queue/intake"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// peace ends all faults and lets everything finish.
func (s *simulation) peace(ctx context.Context) {
	s.sayf("PEACE")
	s.faulty, s.crashIn, s.skew = false, 0, 0
	s.allMelt(ctx)
	s.config, s.runner = simConfig{field: "cidrs", rate: 1e9}, nil // no limit: what is held by one continues
	s.control("DELETE", "/faults", nil)
	s.control("POST", "/keys", map[string]any{"app_id": sandbox.DemoSandboxAppID, "revoked": false})
	for len(s.late) > 0 {
		s.step(ctx, s.arriveLate)
	}
	s.added = 10_000_000
	s.control("POST", "/wallet", map[string]any{"account_id": sandbox.DemoAccountID, "environment": "sandbox", "add_cents": s.added})
	if _, err := s.ledger.Binding(ctx); errors.Is(err, ledger.ErrNotFound) {
		s.added = 0                          // no life has opened the book yet: it will begin with them
		s.time = s.time.Add(5 * time.Minute) // and no read lags behind them any more
	}
	for range 100 {
		if s.begin(ctx); s.runner != nil {
			break
		}
		s.time = s.time.Add(10 * time.Second)
	}
	_, err := s.runner.ResumeByHand(ctx, "ann", "it is over", false) // ends an operator's pause
	s.must(err, "resume")
	s.settle(ctx)
	for range 12 { // an answer lets the next one of its command go
		s.time = s.time.Add(5 * time.Minute) // the person looks when the provider has ended what it had in progress
		s.answer(ctx)
		s.settle(ctx)
	}
}

// settle works until nothing more happens automatically.
func (s *simulation) settle(ctx context.Context) {
	wait, rows, putBack := 100*time.Millisecond, s.rows, false
	for range s.patience() {
		if s.runner == nil {
			if s.begin(ctx); s.runner == nil { // told to wait, perhaps
				s.time = s.time.Add(10 * time.Second)
				continue
			}
		}
		s.step(ctx, s.deliver)
		if _, found := s.runner.ready.first(); !found || putBack {
			s.step(ctx, s.mind)
		}
		if _, found := s.runner.ready.first(); found {
			before := s.rows
			s.step(ctx, s.work)
			if putBack = s.rows == before; !putBack {
				continue // else its time has not come
			}
		}
		next, found := s.next(ctx)
		if !found {
			return
		}
		wait = min(2*wait, 10*time.Minute) // what is due may not start yet
		if s.rows > rows {
			wait, rows = 100*time.Millisecond, s.rows
		}
		s.time = s.time.Add(max(wait, next.Sub(s.time)))
	}
	due, _ := s.ledger.Operations.NextAfter(ctx, s.time)
	open, _ := s.ledger.Operations.Unfinished(ctx, 10)
	s.sayf("left: %d commands; next is due %v; paused %+v", s.stream.Left(), due, s.runner.pauses.list())
	for _, o := range open {
		s.sayf("left: %s %s %s %v", o.ID, o.State, o.Reason, o.NextAt)
	}
	s.failf("it does not come to an end")
}

// next returns the next time at which something is due.
func (s *simulation) next(ctx context.Context) (at time.Time, found bool) {
	at, found = s.stream.Next()
	earlier := func(x time.Time) {
		if !found || x.Before(at) {
			at, found = x, true
		}
	}
	due, err := s.ledger.Operations.NextAfter(ctx, s.time)
	s.must(err, "next")
	if due != nil {
		earlier(*due)
	}
	for _, x := range s.runner.pauses.list() {
		switch {
		case x.Until != nil:
			earlier(*x.Until)
		case x.Scope != decide.ScopeAccount && s.runner.ready.idle(lane(x.Scope)):
			// The next request of its kind would end the pause, but no request is left.
		default:
			earlier(s.time.Add(time.Second))
		}
	}
	accepted, err := s.ledger.Operations.OperationsIn(ctx, fact.StateAccepted, 1000)
	s.must(err, "accepted")
	for _, o := range accepted { // one of a careful command may wait for another, which may be held
		next, err := nextOf(ctx, s.ledger, o.CommandID)
		s.must(err, "the next of its command")
		if next == o.ID {
			earlier(s.time.Add(time.Second))
		}
	}
	return at, found
}

// answer is an operator who answers every review by the provider's own books, and cancels
// operations on hold.
func (s *simulation) answer(ctx context.Context) {
	s.control("GET", "/state", nil) // what came due meanwhile is in the provider's books now
	s.list = nil
	open, err := s.ledger.Operations.Unfinished(ctx, 1000)
	s.must(err, "unfinished")
	for _, o := range open {
		switch o.State {
		case fact.StateHeld:
			_, err := s.runner.Cancel(ctx, o.ID, "ada", "not wanted any more")
			s.must(err, "cancel "+o.ID)
		case fact.StateReview:
			lines, err := s.ledger.Operations.Lines(ctx, o.ID)
			s.must(err, "lines")
			s.answerWhole(ctx, o, lines)
		case fact.StateAccepted:
			all, err := s.ledger.Operations.OperationsOf(ctx, o.CommandID)
			s.must(err, "its command")
			if !slices.ContainsFunc(all, func(x fact.Operation) bool { return x.State == fact.StateHeld || x.State == fact.StateRejected }) {
				s.failf("%s has not started, and no other of its command is held", o.ID)
			}
		default:
			s.failf("%s is %s in the end: %s", o.ID, o.State, o.Reason)
		}
	}
	reviews, err := s.ledger.Operations.Reviews(ctx)
	s.must(err, "reviews")
	for _, x := range reviews {
		o, err := s.ledger.Operations.Operation(ctx, x.OperationID)
		s.must(err, "operation")
		s.resolve(ctx, o, x.ProxyID, s.truth(o.Key, x.ProxyID))
	}
}

// answerWhole answers for a whole operation. If some lines of a renewal are answered or
// unresolved, it answers line by line.
func (s *simulation) answerWhole(ctx context.Context, o fact.Operation, lines []tables.RenewalLine) {
	whole := true
	for _, l := range lines {
		whole = whole && l.State != "unresolved" && l.ChargedCents == 0
	}
	if whole {
		s.resolve(ctx, o, "", s.truth(o.Key, ""))
		return
	}
	for _, l := range lines {
		if l.State == "pending" {
			s.resolve(ctx, o, l.ProxyID, s.truth(o.Key, l.ProxyID))
			o, _ = s.ledger.Operations.Operation(ctx, o.ID)
		}
	}
}

func (s *simulation) resolve(ctx context.Context, o fact.Operation, proxy string, cents int64) {
	charged := cents > 0
	s.counts.reviews++
	s.sayf("a person resolves %s %s: %d", o.ID, proxy, cents)
	err := s.runner.Resolve(ctx, desk.Resolution{ID: o.ID, ProxyID: proxy, Charged: &charged, ChargedCents: cents, ConfirmCents: &cents, AgainstEvidence: !charged, By: "ada", Reason: "the provider's books"})
	var refused *command.RefusedError
	if err != nil && !errors.As(err, &refused) {
		s.must(err, "resolve "+o.ID)
	}
}

// truth returns the net amount that the provider charged under a key, for one proxy or for
// all.
func (s *simulation) truth(key, proxy string) (cents int64) {
	for _, c := range s.charged() {
		if c.IdempotencyKey != key || (proxy != "" && c.ProxyID != proxy) {
			continue
		}
		cents += signed(c)
	}
	return cents
}

// signed returns the amount of a referee's entry; negative if it was refunded.
func signed(c sandbox.Charge) int64 {
	if c.Kind == "refund" {
		return -c.AmountCents
	}
	return c.AmountCents
}

// acked checks that an acknowledged message is in the ledger.
func (s *simulation) acked(ctx context.Context, m intake.Message) {
	var c struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(m.Data, &c) != nil {
		return // a dead letter
	}
	_, err := s.ledger.Operations.Command(ctx, c.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		_, err = s.ledger.Operations.Rejection(ctx, c.ID)
	}
	if err != nil {
		s.failf("%s was acknowledged and is not in the ledger: %v", c.ID, err)
	}
}

// charged returns the referee's list. It reads the list again only if something may have been
// charged since.
func (s *simulation) charged() []sandbox.Charge {
	if served := s.counts.served; served != s.asOf || s.list == nil {
		var err error
		s.list, err = s.server.Charges()
		s.must(err, "referee")
		s.asOf = served
	}
	return s.list
}

// referee fails the simulation if anything was paid for twice.
func (s *simulation) referee() {
	charges := s.charged()
	for _, c := range charges[s.charges:] {
		what := c.Kind + " " + c.IdempotencyKey + " " + c.ProxyID
		if s.paid[what] {
			s.failf("paid twice: %s", what)
		}
		s.paid[what] = true
	}
	s.charges = len(charges)
}

// accounts compares the ledger with the referee, key by key, and with the wallet.
func (s *simulation) accounts(ctx context.Context) {
	if s.stream.Left() > 0 {
		s.failf("%d commands were never acknowledged", s.stream.Left())
	}
	charges := s.charged()
	type sums struct{ charged, refunded int64 }
	provider := map[string]sums{}
	for _, c := range charges {
		x := provider[c.IdempotencyKey]
		if c.Kind == "refund" {
			x.refunded += c.AmountCents
		} else {
			x.charged += c.AmountCents
		}
		provider[c.IdempotencyKey] = x
	}
	once, commandOf := map[string]string{}, map[string]string{} // what was paid for, for a command; commands by key
	for _, c := range s.commands {
		operations, err := s.ledger.Operations.OperationsOf(ctx, c.id)
		s.must(err, "operations")
		if len(operations) == 0 {
			if _, err := s.ledger.Operations.Rejection(ctx, c.id); err != nil {
				s.failf("%s is neither accepted nor refused: %v", c.id, err)
			}
		}
		for _, o := range operations {
			have := provider[o.Key]
			commandOf[o.Key] = c.id
			delete(provider, o.Key)
			if s.mistaken[o.Key] {
				o = s.correct(ctx, o)
			}
			if have.charged-have.refunded != o.ChargedCents-o.RefundedCents || (o.State != fact.StateResolved && have.charged != o.ChargedCents && o.State != fact.StateCompleted && o.State != fact.StatePartial) {
				s.failf("%s (%s): the ledger has %d charged and %d refunded, the provider %d and %d", o.ID, o.State, o.ChargedCents, o.RefundedCents, have.charged, have.refunded)
			}
			if !o.State.Ended() {
				s.failf("%s is %s in the end", o.ID, o.State)
			}
		}
	}
	for key := range provider {
		if strings.HasPrefix(key, outsideKey) {
			continue
		}
		s.failf("no operation explains what was charged under %s", key)
	}
	for _, c := range charges {
		if c.Kind == "charge" && c.ProxyID != "" && s.truth(c.IdempotencyKey, c.ProxyID) > 0 {
			command := cmp.Or(commandOf[c.IdempotencyKey], c.IdempotencyKey)
			if other := once[command+" "+c.ProxyID]; other != "" && other != c.IdempotencyKey && !s.mistakes[command] {
				s.failf("%s was renewed twice for %s: under %s and %s", c.ProxyID, command, other, c.IdempotencyKey)
			}
			once[command+" "+c.ProxyID] = c.IdempotencyKey
		}
	}
	s.onceForAnExpiry(ctx)
	s.completedIsRenewed(ctx)
	s.added -= s.spentOutside()
	s.control("DELETE", "/moods", nil)
	s.wallet(ctx)
	s.reconciled(ctx)
}

// correct makes an operator correct a wrong answer for an operation: all of it, line by line,
// or in two entries. Afterwards the operation has the amount that the provider charged.
func (s *simulation) correct(ctx context.Context, o fact.Operation) fact.Operation {
	lines, err := s.ledger.Operations.Lines(ctx, o.ID)
	s.must(err, "lines")
	if len(lines) == 0 {
		s.book(ctx, o, "", s.truth(o.Key, "")-o.ChargedCents+o.RefundedCents)
	}
	for _, l := range lines {
		s.book(ctx, o, l.ProxyID, s.truth(o.Key, l.ProxyID)-l.ChargedCents+l.RefundedCents)
	}
	o, err = s.ledger.Operations.Operation(ctx, o.ID)
	s.must(err, "operation")
	return o
}

// book records a difference for an operation, or for one of its lines.
func (s *simulation) book(ctx context.Context, o fact.Operation, proxy string, cents int64) {
	for rest := cents; rest != 0; {
		part := rest
		if s.chance(3) {
			part = rest / 2
		}
		if part == 0 {
			part = rest
		}
		x := desk.Recording{Kind: fact.MovementCharge, Cents: part, OperationID: o.ID, ProxyID: proxy, By: "ada", Reason: "the answer was wrong"}
		if part < 0 {
			x.Kind, x.Cents = fact.MovementRefund, -part
		}
		s.counts.corrections++
		x.ID = fmt.Sprintf("correction-%d", s.counts.corrections)
		if seq := s.answerRow(ctx, o, proxy); seq > 0 && s.chance(2) {
			x.CorrectsSeq, x.ConfirmCents = seq, &x.Cents
		}
		s.sayf("a person corrects %s %s: %s of %d, row %d", o.ID, proxy, x.Kind, x.Cents, x.CorrectsSeq)
		err := s.recordAtLast(ctx, x)
		if refused, is := errors.AsType[*command.RefusedError](err); is && x.CorrectsSeq > 0 {
			s.sayf("refused: %v", refused)
			x.CorrectsSeq, x.ConfirmCents = 0, nil
			err = s.recordAtLast(ctx, x)
		}
		s.must(err, "correct "+o.ID)
		rest -= part
	}
}

// answerRow returns the journal row of the last answer for an operation, or for one of its
// lines.
func (s *simulation) answerRow(ctx context.Context, o fact.Operation, proxy string) (seq int64) {
	rows, err := s.ledger.RowsOf(ctx, o.ID)
	s.must(err, "rows")
	for _, row := range rows {
		f, err := fact.Decode(row.Type, []byte(row.Data))
		s.must(err, "fact")
		if answer, ok := f.(fact.OperationResolved); ok && (answer.ProxyID == "" || answer.ProxyID == proxy) {
			seq = row.Seq
		}
	}
	return seq
}

// completedIsRenewed checks that a completed renewal has renewed each of its proxies, except
// the skipped ones.
func (s *simulation) completedIsRenewed(ctx context.Context) {
	for _, c := range s.commands {
		status, err := inspect.Status(ctx, s.ledger, c.id)
		if err != nil || c.kind != queue.KindProxyRenew || status.State != string(fact.StateCompleted) {
			continue
		}
		var body struct {
			IDs []string `json:"proxy_ids"`
		}
		s.must(json.Unmarshal(c.body, &body), "a command")
		done := map[string]bool{}
		for _, o := range status.Operations {
			lines, err := s.ledger.Operations.Lines(ctx, o.OperationID)
			s.must(err, "lines")
			for _, l := range lines {
				done[l.ProxyID] = done[l.ProxyID] || l.State == fact.LineSucceeded || l.State == fact.LineCharged
			}
		}
		for _, id := range body.IDs {
			if !done[id] && !s.leftOut[c.id+" "+id] && !s.mistakes[c.id] {
				s.failf("%s is completed, and %s was neither renewed nor left out", c.id, id)
			}
		}
	}
}

func (s *simulation) wallet(ctx context.Context) {
	book, err := s.ledger.Money.Balance(ctx, "main")
	s.must(err, "balance")
	wallet, err := s.runner.Provider.Wallet(ctx)
	s.must(err, "wallet")
	if book.WalletCents+s.added != wallet.BalanceCents || book.SuspenseCents != 0 {
		s.failf("the book has %d and %d of it were added, the wallet holds %d; %d are in suspense", book.WalletCents, s.added, wallet.BalanceCents, book.SuspenseCents)
	}
	if s.seed%4 > 0 {
		return // what Verify finds does not depend on how the facts came about
	}
	if _, err := s.ledger.Verify(ctx); err != nil {
		s.failf("verify: %v", err)
	}
}

var _ Provider = (*upstream.Client)(nil)
