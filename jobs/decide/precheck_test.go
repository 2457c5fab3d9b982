package decide

import (
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

func TestTheTableOfTheLookBeforePaying(t *testing.T) {
	soon, late := noon.Add(24*time.Hour), noon.Add(100*24*time.Hour)
	due := func(id string) Seen { return Seen{ProxyID: id, ExpiresAt: &soon} }
	unread := func(id string, code upstream.Code) Seen {
		return Seen{ProxyID: id, Unread: &PrecheckFailed{Moment: Moment{Now: noon}, Code: code, HTTPStatus: 503, Reason: id}}
	}
	gone := upstream.CodeProxyEndpointUnavailable
	limit := noon.Add(48 * time.Hour)
	waited := func(op Operation) Operation {
		next := noon.Add(4 * time.Minute)
		op.UpdatedAt, op.NextAt, op.Reason = noon, &next, "it could not be read"
		return op
	}
	presumed := func(op Operation) Operation { op.Ambiguous = 1; return op }
	two := func() Operation { return renewalOf("a", "b") }
	for _, row := range []struct {
		name string
		op   Operation
		seen []Seen
		ids  string
		want string
	}{
		{"all are due", two(), []Seen{due("a"), due("b")}, "a b", ""},
		{"one is not known", two(), []Seen{due("a"), {ProxyID: "b", NotFound: true}}, "a", "proxy.skipped"},
		{"one never expires", two(), []Seen{due("a"), {ProxyID: "b"}}, "a", "proxy.skipped"},
		{"one has moved", two(), []Seen{due("a"), {ProxyID: "b", ExpiresAt: &limit}}, "a", "proxy.skipped"},
		{"one is due later", two(), []Seen{{ProxyID: "a", ExpiresAt: &late}, due("b")}, "b", "proxy.skipped"},
		{"one was paid for", two(), []Seen{{ProxyID: "a", ExpiresAt: &soon, Paid: true}, due("b")}, "b", "proxy.skipped"},
		{"one was paid for a moment ago", two(), []Seen{{ProxyID: "a", ExpiresAt: &soon, Paid: true, Behind: &fact.Renewal{}}, due("b")}, "b", "proxy.skipped"},
		{"one is retired", two(), []Seen{due("a"), {ProxyID: "b", ExpiresAt: &soon, Retired: true}}, "a", "proxy.skipped"},
		{"none is due", two(), []Seen{{ProxyID: "a"}, {ProxyID: "b"}}, "", "proxy.skipped, command.rejected"},
		{"one cannot be read, at first", two(), []Seen{due("a"), unread("b", gone)}, "", "operation.waiting"},
		{"one cannot be read for minutes", waited(two()), []Seen{due("a"), unread("b", gone)}, "a", "proxy.skipped"},
		{"none can be read for minutes", waited(two()), []Seen{unread("a", gone), unread("b", gone)}, "", "proxy.skipped, command.rejected"},
		{"none can be read, it may be the account", waited(two()), []Seen{unread("a", "maintenance"), unread("b", "maintenance")}, "", "operation.waiting"},
		{"all are due behind a restore", presumed(two()), []Seen{due("a"), due("b")}, "a b", ""},
		{"one has moved behind a restore", presumed(two()), []Seen{due("a"), {ProxyID: "b", ExpiresAt: &limit}}, "", "operation.review"},
		{"none is due behind a restore", presumed(two()), []Seen{{ProxyID: "a"}, {ProxyID: "b"}}, "", "operation.review"},
	} {
		d := Decide(row.op, Prechecked{
			Moment: Moment{Now: noon}, Guarded: true, Seen: row.seen, DueBefore: &limit, ExpectExpiresAt: map[string]time.Time{"b": soon},
		})
		if got := said(d); got != row.want || strings.Join(d.ProxyIDs, " ") != row.ids || d.Send != (row.ids != "") || d.Postponed != (row.want == "operation.waiting") {
			t.Errorf("%s: %q, to renew %q: %+v", row.name, got, d.ProxyIDs, d)
		}
	}
}

func TestAnUnguardedCommandIsSentAsItIs(t *testing.T) {
	d := Decide(renewalOf("b", "a"), Prechecked{})
	if !d.Send || len(d.Facts) > 0 || !slices.Equal(d.ProxyIDs, []string{"b", "a"}) {
		t.Errorf("%+v", d)
	}
}

func TestTrap33CIDRsWithoutAFieldAreHeld(t *testing.T) {
	for field, want := range map[string]string{"": "command.held", "cidrs": ""} {
		if d := Decide(order(), Prechecked{NamesCIDRs: true, CIDRField: field}); said(d) != want || d.Send != (want == "") {
			t.Errorf("field %q: %s", field, said(d))
		}
	}
}

func TestARequestLeavesOnlyInItsTurn(t *testing.T) {
	for _, row := range []struct {
		name string
		h    TurnCame
		sent bool
	}{
		{"at once", TurnCame{}, true},
		{"at the end of its time", TurnCame{SignedAt: noon.Add(-intentAge)}, true},
		{"too late", TurnCame{SignedAt: noon.Add(-intentAge - 1)}, false},
		{"paused", TurnCame{Paused: true}, false},
		{"at the end of the run", TurnCame{Stopping: true}, false},
	} {
		if row.h.Now = noon; row.h.SignedAt.IsZero() {
			row.h.SignedAt = noon
		}
		d := Decide(order(), row.h)
		if d.Send != row.sent || !row.sent && said(d) != "operation.unsent" {
			t.Errorf("%s: %+v", row.name, d)
		}
	}
}

// A wrong clock pauses the account before a retry of an operation that may have executed. An
// operation that was never sent needs no clock.
func TestTrap02AWrongClockSendsNothingAgain(t *testing.T) {
	for _, row := range []struct {
		op   Operation
		want string
	}{{order(), ""}, {ambiguous(order()), "pause account"}} {
		d := Decide(row.op, Due{Moment: Moment{Now: noon}, AppID: "sbx_app_demo", WrongClock: "an hour behind"})
		if said(d) != row.want || d.Send != (row.want == "") {
			t.Errorf("%+v: %+v", row.op, d)
		}
	}
}

// The third consecutive reply from a firewall pauses the account.
func TestThreeAnswersOfAFirewallPauseTheAccount(t *testing.T) {
	for before, want := range []string{again1, again1, again1 + ", pause account", again1 + ", pause account"} {
		d := Decide(order(), Replied{Moment: Moment{Now: noon}, Firewalls: before, Reply: upstream.Reply{Sent: true, HTTPStatus: 403, Failure: "not JSON"}})
		if said(d) != want || !d.Firewall {
			t.Errorf("after %d: %s", before, said(d))
		}
	}
}

func TestALookThatFailsIsTriedAgainLaterAndLater(t *testing.T) {
	op := renewalOf("px_1")
	op.State, op.Attempts = fact.StateAccepted, 0
	wait := time.Duration(0)
	for range 12 {
		f, ok := Decide(op, PrecheckFailed{Moment: Moment{Now: noon}, Code: upstream.CodeInsufficientScope, TraceID: "tr_1", Reason: "no"}).Facts[0].(fact.OperationWaiting)
		next := f.NextAt.Sub(noon)
		if !ok || f.Ambiguous || f.Code != "insufficient_scope" || f.TraceID != "tr_1" || next < max(wait, time.Second) || next > 2*backoffMost {
			t.Fatalf("after %s: %+v", wait, f)
		}
		wait = next
		op.State, op.Reason, op.UpdatedAt, op.NextAt = fact.StateWaiting, f.Reason, noon, &f.NextAt
	}
	if wait < backoffMost {
		t.Errorf("after twelve failures it waits %s", wait)
	}
}

// The time that a hanging read takes counts towards the wait.
func TestAReadThatHangsIsWaitedForInMinutesToo(t *testing.T) {
	op := renewalOf("px_1")
	op.State, op.Attempts = fact.StateAccepted, 0
	now := noon
	for op.AwaitsUnread() {
		now = now.Add(time.Minute)
		f, ok := Decide(op, PrecheckFailed{Moment: Moment{Now: now}, Took: time.Minute, Reason: "no answer"}).Facts[0].(fact.OperationWaiting)
		if !ok {
			t.Fatal("it does not wait")
		}
		op.State, op.Reason, op.UpdatedAt, op.NextAt = fact.StateWaiting, f.Reason, now, &f.NextAt
		now = f.NextAt
	}
	if waited := now.Sub(noon); waited < 2*time.Minute || waited > 5*time.Minute {
		t.Errorf("it is waited for for %s", waited)
	}
}
