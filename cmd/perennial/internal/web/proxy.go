// One proxy: its renewals, what they cost, which schedule renews it next, or why none does.

package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules"
)

// proxyView is one proxy.
type proxyView struct {
	ledger.Proxy

	Listed   bool // a listing has shown it
	Gone     bool // the last complete one did not
	Why      verdict
	Schedule string
	Order    string // the operation that bought it
	Renewals []ledger.ProxyRenewal
	Cost     ledger.ProxyCost
	PerDay   int64 // of Cost, for each day that was bought
	Currency string
	Coverage Made[*schedules.Coverage]
	Plan     Made[schedules.Plan] // of its schedule, where the answer is in it
}

// Pending reports whether the page has to be looked at again.
func (v proxyView) Pending() bool { return v.Coverage.Pending() || v.Why.planned && v.Plan.Pending() }

// endingsShown is how many renewals of a proxy its page shows.
const endingsShown = 100

func (s *Server) proxy(q accountRequest) {
	ctx, l, id := q.Context(), q.account.Ledger(), q.URL.Query().Get("id")
	var v proxyView
	var err error
	if v.Proxy, err = l.Proxy(ctx, id); err == nil {
		v.Listed = true
		_, err = l.Listed(ctx, id)
		v.Gone = errors.Is(err, ledger.ErrNotFound)
	}
	v.ProxyID = id
	if v.Renewals, err = l.RenewalsOf(ctx, id, endingsShown); err == nil {
		v.Order, err = l.DeliveredBy(ctx, id)
	}
	if err != nil {
		s.broken(q, err)
		return
	}
	if !v.Listed && len(v.Renewals) == 0 && v.Order == "" {
		s.fail(q.to, q.Request, q.session, http.StatusNotFound, "Neither a listing nor an operation has shown a proxy of this id.", nil)
		return
	}
	if v.Cost, err = l.CostOf(ctx, id); err != nil {
		s.broken(q, err)
		return
	}
	if v.Cost.Days > 0 {
		v.PerDay = (v.Cost.ChargedCents - v.Cost.RefundedCents) / v.Cost.Days
	}
	v.Currency, _ = l.Currency(ctx)
	v.Coverage = s.coverage(ctx, q.account)
	if v.Why, err = s.why(ctx, q.account, &v); err != nil {
		s.broken(q, err)
		return
	}
	s.show(q, "proxy", "Proxy "+id, v)
}

// verdict is whether a proxy is renewed, and why not, in one sentence.
type verdict struct {
	Good      bool
	Text      string
	Operation string     // that the sentence is about
	Schedule  string     // that it is about
	At        *time.Time // when it is renewed
	planned   bool       // the answer is in the plan of its schedule
}

// why says whether a proxy is renewed, and why not: the first reason that holds.
func (s *Server) why(ctx context.Context, a Account, v *proxyView) (verdict, error) {
	paused, err := pausedRenewals(ctx, a.Ledger())
	if err != nil {
		return verdict{}, err
	}
	if open := openRenewal(v.Renewals); open != nil && v.Listed {
		return whyOpen(open, paused), nil
	}
	switch {
	case !v.Listed:
		return verdict{Text: "No listing has shown it: a sweep renews only what the provider lists."}, nil
	case v.Gone:
		return verdict{Text: "It is not renewed: the provider does not list it any more."}, nil
	case v.Retired:
		return verdict{Text: "It is not renewed: it was retired, and no sweep renews it until it is reinstated."}, nil
	case v.ExpiresAt == nil:
		return verdict{Good: true, Text: "It is never due: the provider gives no expiry of it."}, nil
	case v.Coverage.Value == nil && v.Coverage.Err != "":
		return verdict{Text: "Which schedule renews it is not known: " + v.Coverage.Err}, nil
	case v.Coverage.Value == nil:
		return verdict{Text: "Which schedule renews it is being looked up."}, nil
	}
	of, covered := v.Coverage.Value.Of(v.Proxy)
	if !covered {
		if other, excepted := v.Coverage.Value.Excepting(v.Proxy); excepted {
			return verdict{Text: "It is not renewed: it is an exception of the only schedule that would renew it.", Schedule: other.Name}, nil
		}
		return verdict{Text: "It is not renewed: no schedule of this account matches it."}, nil
	}
	v.Schedule = of.Name
	out, err := s.whyOf(ctx, a, v, of)
	if paused != "" && out.Good {
		out = verdict{Text: "It is not renewed while nothing is sent: " + paused, Schedule: of.Name}
	}
	return out, err
}

// pausedRenewals says why renewals of an account are not sent, "" where they are.
func pausedRenewals(ctx context.Context, l *ledger.Ledger) (string, error) {
	pauses, err := l.Pauses(ctx)
	for _, p := range pauses {
		switch p.Scope {
		case decide.ScopeAccount:
			return "the account is paused: " + p.Detail, err
		case string(fact.KindRenewal):
			return "renewals are paused: " + p.Detail, err
		}
	}
	return "", err
}

// whyOpen is why for a proxy that a renewal has taken.
func whyOpen(open *ledger.ProxyRenewal, paused string) verdict {
	switch {
	case open.InReview:
		return verdict{Text: "It is not renewed: an earlier renewal is in review, and whether that was charged is not known. A person has to answer.", Operation: open.OperationID}
	case open.Operation == fact.StateHeld:
		return verdict{Text: "It is not renewed: its renewal is held, and is let go by a person or when its reason has passed: " + open.Reason + ".", Operation: open.OperationID}
	case paused != "":
		return verdict{Text: "Its renewal waits: " + paused, Operation: open.OperationID}
	}
	return verdict{Good: true, Text: "A renewal of it is under way.", Operation: open.OperationID}
}

func openRenewal(all []ledger.ProxyRenewal) *ledger.ProxyRenewal {
	for i := range all {
		if all[i].Open {
			return &all[i]
		}
	}
	return nil
}

// whyOf is why for a proxy that a schedule covers.
func (s *Server) whyOf(ctx context.Context, a Account, v *proxyView, of schedules.Schedule) (out verdict, err error) {
	now := s.Clock()
	out.Schedule = of.Name
	barred, err := v.Coverage.Value.Barred(ctx, v.Proxy, now)
	if err != nil {
		return out, err
	}
	due := later(v.ExpiresAt.Add(-of.RenewBefore), now)
	if slots, _, err := of.Slots(due.Add(-time.Second), 1); err == nil && len(slots) == 1 {
		out.At = &slots[0]
	}
	status, problem := s.statusOf(ctx, a, of.Name)
	switch {
	case barred == schedules.ReasonUnread || barred == schedules.ReasonNotShown:
		out.At = nil
		out.afterRenewal(v.Renewals)
	case barred == schedules.ReasonPerson || barred == schedules.ReasonBackoff:
		out.Text, out.At = "It is not renewed: "+barred+".", nil
		if last := lastEnding(v.Renewals); last != nil {
			out.Operation = last.OperationID
			out.Text += " The last one: " + reasonOf(last) + "."
		}
	case barred != "":
		out.Text, out.At = "It is left out of sweeps: "+barred+".", nil
	case status.Paused != nil:
		out.Text, out.At = "It is not renewed while its schedule is paused, by "+status.Paused.By+": "+status.Paused.Reason+".", status.Paused.Until
	case status.Problem != "":
		out.Text = "It is not renewed, because the sweep cannot be made: " + status.Problem + "."
	case due.After(now):
		out.Good, out.Text = true, "It is not due yet: the sweep that renews it is"
	default:
		s.whyDue(ctx, a, v, &out, status)
	}
	if problem != "" && out.Good {
		out.Text = "Whether its schedule runs is not known (" + problem + "); by its configuration the sweep that renews it is"
	}
	return out, nil
}

// afterRenewal is why for a proxy that was not read again since its last renewal ended.
func (out *verdict) afterRenewal(all []ledger.ProxyRenewal) {
	ended := slices.IndexFunc(all, func(r ledger.ProxyRenewal) bool { return !r.Open })
	if last := lastEnding(all); last != nil && ended >= 0 && all[ended].OperationID == last.OperationID {
		out.Text, out.Operation = "Its last renewal ended without renewing it: "+reasonOf(last)+". Sweeps go on with it when its expiry has been read again.", last.OperationID
		return
	}
	out.Good, out.Text = true, "It was renewed, and the new expiry has not been read yet."
}

func reasonOf(r *ledger.ProxyRenewal) string {
	if r.Reason != "" {
		return r.Reason
	}
	return string(r.State)
}

// lastEnding is the latest renewal that ended without renewing the proxy.
func lastEnding(all []ledger.ProxyRenewal) *ledger.ProxyRenewal {
	for i, r := range all {
		if r.State == fact.LineFailed || r.State == fact.LineNotCharged || r.State == fact.LineSkipped {
			return &all[i]
		}
	}
	return nil
}

// statusOf is where a schedule stands, or why that is not known.
func (s *Server) statusOf(ctx context.Context, a Account, name string) (status schedules.Status, problem string) {
	all, problem := s.sweeps(ctx, a)
	if problem != "" {
		return status, problem
	}
	for _, one := range all {
		if one.Schedule == name {
			return one, ""
		}
	}
	return status, "its runner does not have this schedule"
}

// whyDue is why for a proxy that is due, and that its schedule may renew: the plan as it
// would be now says it.
func (s *Server) whyDue(ctx context.Context, a Account, v *proxyView, out *verdict, status schedules.Status) {
	out.planned = true
	v.Plan = s.plan(ctx, a, status.Schedule)
	for _, left := range v.Plan.Value.LeftOut {
		if left.ProxyID == v.ProxyID {
			out.Text, out.At = "It is due and left out of the sweep: "+left.Reason+".", nil
			return
		}
	}
	switch {
	case status.State == schedules.StateHeld:
		out.Text, out.At = "It is due, and the plan of its sweep waits for a person's approval.", nil
	case v.Plan.Err != "":
		out.Text = "It is due; what its sweep would do is not known: " + v.Plan.Err + ". The next one is"
	case !v.Plan.Known():
		out.Text = "It is due; its sweep is being planned to say more. The next one is"
	default:
		out.Good, out.Text = true, "It is due: the sweep that renews it is"
	}
}

// planFresh is how old a plan on a page may be.
const planFresh = time.Minute

// plan is a schedule's sweep as it would be now, as the runner says that has the account.
func (s *Server) plan(ctx context.Context, a Account, schedule string) Made[schedules.Plan] {
	return lately(ctx, s.figures, "plan:"+a.AccountName()+":"+schedule, planFresh, func(ctx context.Context) (schedules.Plan, error) {
		return ask(ctx, a, verbs.Plan, verbs.SweepRequest{Schedule: schedule})
	})
}
