package schedules

import (
	"encoding/json"
	"slices"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules/listing"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// work is one operation of the simulated runner.
type work struct {
	id  string
	cmd command.Command
	ids []string
}

// carryOut accepts the published commands and executes them one after the other, as
// decide.Decide says. While the provider is down, everything waits.
func (y *year) carryOut() {
	y.t.Helper()
	if y.down > 0 {
		return
	}
	for len(y.inbox) > 0 {
		raw := y.inbox[0]
		y.inbox = y.inbox[1:]
		for _, w := range y.takeIn(raw) {
			y.disturb()
			y.carry(w)
		}
	}
}

// disturb sets faults for some of the next requests.
func (y *year) disturb() {
	renewals := `"method":"POST","path":"/api/v1/proxies/renew"`
	switch n := y.random.IntN(100); {
	case n < 6:
		y.control("/faults", `{`+renewals+`,"fault":"renewal","failed":1}`)
		y.refusals++
	case n < 12:
		y.control("/faults", `{`+renewals+`,"fault":"drop_after"}`)
	case n < 16:
		y.control("/faults", `{`+renewals+`,"fault":"error_before","times":2}`)
	}
}

func (y *year) takeIn(raw json.RawMessage) (all []work) {
	y.t.Helper()
	cmd, err := command.Parse(fact.KindRenewal, raw, command.Rules{Environment: upstream.Sandbox})
	check(y.t, err)
	content, hash, err := cmd.Content()
	check(y.t, err)
	check(y.t, y.ledger.Write(y.t.Context(), func(tx *ledger.Tx) error {
		all = nil
		known, err := tx.Known(cmd.ID)
		if err != nil || known.AcceptedHash == hash {
			return err
		}
		var free []string
		for _, id := range cmd.ProxyIDs {
			holder, err := tx.Claimant(id)
			if err != nil {
				return err
			}
			if holder == "" {
				free = append(free, id)
			}
		}
		planned := cmd.Operations(y.binding, free, false)
		for _, p := range planned {
			all = append(all, work{p.OperationID, cmd, p.ProxyIDs})
		}
		return tx.Append(fact.CommandAccepted{
			Ref: fact.Ref{CommandID: cmd.ID, Labels: cmd.Labels}, Kind: cmd.Kind, ContentHash: hash, Content: content, DurationDays: cmd.DurationDays, Operations: planned,
		})
	}))
	return all
}

// carry prechecks and sends an operation, and retries with the same key while the outcome is
// unknown.
func (y *year) carry(w work) {
	y.t.Helper()
	ref := fact.Ref{CommandID: w.cmd.ID, OperationID: w.id, Labels: w.cmd.Labels}
	ids, observed, skipped := y.precheck(w, ref)
	if len(ids) == 0 {
		y.append(append(skipped, fact.CommandRejected{Ref: ref, Code: "nothing_due", Reason: "none of its proxies is due any more"})...)
		return
	}
	body, err := json.Marshal(map[string]any{"proxy_ids": ids, "duration_days": w.cmd.DurationDays})
	check(y.t, err)
	y.append(skipped...)
	for range 10 {
		op := y.operation(w.id)
		y.append(fact.OperationSending{
			Ref: ref, Attempt: op.Attempts + 1, Key: op.Key, Body: string(body), SentAt: y.watch.Now(), AppID: y.client.AppID(), Observed: observed,
		})
		reply := y.client.Post(y.t.Context(), upstream.Write{Kind: upstream.WriteRenewal, Key: op.Key, Body: body, Timestamp: y.watch.Now()})
		op = y.operation(w.id)
		d := decide.Decide(decide.Operation{Operation: op, Labels: w.cmd.Labels, ProxyIDs: ids, DurationDays: w.cmd.DurationDays, Binding: y.binding},
			decide.Replied{Moment: decide.Moment{Now: y.watch.Now()}, Reply: reply})
		if !y.record(op, d, observed) {
			for _, half := range split(d) {
				if !y.operation(half.OperationID).State.Ended() {
					y.carry(work{half.OperationID, w.cmd, half.ProxyIDs})
				}
			}
			return
		}
		y.ambiguous++
	}
	y.t.Fatalf("operation %s does not end", w.id)
}

// split returns the operations that replace a refused one.
func split(d decide.Decision) []fact.Planned {
	for _, f := range d.Facts {
		if refused, ok := f.(fact.CommandRejected); ok {
			return refused.SplitInto
		}
	}
	return nil
}

// record appends a decision, and reports whether the operation is retried.
func (y *year) record(op fact.Operation, d decide.Decision, observed map[string]time.Time) (again bool) {
	y.t.Helper()
	check(y.t, y.ledger.Write(y.t.Context(), func(tx *ledger.Tx) error {
		if _, err := tx.AppendTo(op.ID, op.Version, d.Facts...); err != nil {
			return err
		}
		for _, f := range d.Facts {
			if settled, ok := f.(fact.RenewalSettled); ok {
				for _, l := range settled.Items {
					if err := tx.Stale(l.ProxyID); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}))
	for _, f := range d.Facts {
		switch f := f.(type) {
		case fact.OperationWaiting:
			return true
		case fact.CommandRejected:
			if f.ShortOfMoney { // the money was spent between the plan and the payment
				for id, expires := range observed {
					y.say(id, expires, plans.ReasonWallet)
				}
			}
		case fact.RenewalSettled:
			y.renewed += len(slices.DeleteFunc(slices.Clone(f.Items), func(l fact.Line) bool { return l.State != "succeeded" }))
		}
	}
	return false
}

func (y *year) operation(id string) fact.Operation {
	y.t.Helper()
	op, err := y.ledger.Operations.Operation(y.t.Context(), id)
	check(y.t, err)
	return op
}

// precheck reads every proxy again, and skips those that an operator has renewed in the
// meantime.
func (y *year) precheck(w work, ref fact.Ref) (ids []string, observed map[string]time.Time, skipped []fact.Fact) {
	y.t.Helper()
	observed = map[string]time.Time{}
	for _, id := range w.ids {
		p, err := y.client.Proxy(y.t.Context(), id)
		check(y.t, err)
		check(y.t, y.ledger.Write(y.t.Context(), func(tx *ledger.Tx) error { return tx.Observe(0, listing.Seen(p, y.watch.Now())) }))
		if p.ExpiresAt == nil || !fact.SameExpiry(*p.ExpiresAt, w.cmd.ExpectExpiresAt[id]) {
			skipped = append(skipped, fact.ProxySkipped{Ref: ref, ProxyID: id, Reason: "its expiry has moved since it was planned", ExpiresAt: p.ExpiresAt})
			continue
		}
		ids = append(ids, id)
		observed[id] = *p.ExpiresAt
	}
	return ids, observed, skipped
}

// answer plays the operator who once a day resolves the reviews, with the charges from the
// provider.
func (y *year) answer() {
	y.t.Helper()
	waiting, err := y.ledger.Operations.OperationsIn(y.t.Context(), fact.StateReview, 100)
	check(y.t, err)
	if len(waiting) == 0 {
		return
	}
	charges, err := y.server.Charges()
	check(y.t, err)
	for _, op := range waiting {
		var cents int64
		for _, c := range charges {
			switch {
			case c.IdempotencyKey != op.Key:
			case c.Kind == "refund":
				cents -= c.AmountCents
			default:
				cents += c.AmountCents
			}
		}
		outcome := "not_charged"
		if cents > 0 {
			outcome = "charged"
		}
		y.reviews++
		y.append(fact.OperationResolved{
			Ref: fact.Ref{CommandID: op.CommandID, OperationID: op.ID}, By: "ada", Reason: "the wallet's history", Outcome: outcome, ChargedCents: cents,
		})
	}
}
