package decide

import (
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

func TestTrap03Trap05AFrozenKeyIsNeverReplacedByAnother(t *testing.T) {
	for _, code := range []upstream.Code{upstream.CodeIdempotencyUnresolved, upstream.CodeIdempotencyKeyConflict} {
		for _, op := range []Operation{order(), ambiguous(renewalOf("a", "b", "c"))} {
			d := replied(op, answer(code, 409))
			if _, ok := d.Facts[0].(fact.OperationReview); !ok || len(d.Facts) != 1 || d.Send {
				t.Errorf("%s: %s", code, said(d))
			}
		}
	}
}

func TestTrap04TheSameKeyIsAskedAgainLater(t *testing.T) {
	for _, code := range []upstream.Code{upstream.CodeIdempotencyProcessing, upstream.CodeIdempotencyReplayFailed} {
		f, ok := replied(order(), answer(code, 409)).Facts[0].(fact.OperationWaiting)
		if !ok || !f.NextAt.After(noon) || !f.Ambiguous {
			t.Errorf("%s: %+v", code, f)
		}
	}
}

func TestTrap07AfterALostReplyARefusalProvesNothing(t *testing.T) {
	for _, code := range []upstream.Code{upstream.CodeValidationError, upstream.CodeProxyNotFound, upstream.CodeInsufficientWallet} {
		d := replied(ambiguous(renewalOf("a", "b")), answer(code, 422))
		f, ok := d.Facts[0].(fact.OperationReview)
		if !ok || len(d.Facts) != 1 || f.TraceID == "" || !strings.Contains(f.Reason, "proves nothing") {
			t.Errorf("%s: %s", code, said(d))
		}
	}
}

func TestTrap02NothingAmbiguousIsSentAgainAfterTwentyHours(t *testing.T) {
	const window = 20 * time.Hour // of the 24 for which the provider keeps a key
	lost := upstream.Reply{Sent: true, Failure: "reset"}
	m := Moment{Now: noon, Jitter: 0.5}
	for _, test := range []struct {
		name string
		op   Operation
		h    Happened
		want string
	}{
		{"a lost reply inside", order(), Replied{Moment: m, Reply: lost, Elapsed: window - time.Second}, again1},
		{"a lost reply at its end", order(), Replied{Moment: m, Reply: lost, Elapsed: window}, person},
		{"a crash inside", order(), CrashedMidSend{Moment: m, Elapsed: window - time.Second}, again1},
		{"a crash at its end", order(), CrashedMidSend{Moment: m, Elapsed: window}, person},
		{"due at its end", ambiguous(order()), Due{Moment: m, Elapsed: window, AppID: "sbx_app_demo"}, "operation.review"},
		{"due inside", ambiguous(order()), Due{Moment: m, Elapsed: window - 1, AppID: "sbx_app_demo"}, ""},
		{"due late, but never sent", order(), Due{Moment: m, Elapsed: 100 * window, AppID: "sbx_app_demo"}, ""},
	} {
		d := Decide(test.op, test.h)
		if got := said(d); got != test.want || d.Send != (test.want == "") {
			t.Errorf("%s: %s, send %t", test.name, got, d.Send)
		}
	}
}

func TestTrap44WhatIsAmbiguousIsNotSentUnderAnotherAppID(t *testing.T) {
	other := Due{Moment: Moment{Now: noon}, AppID: "sbx_app_new"}
	if got := said(Decide(ambiguous(order()), other)); got != "operation.review" {
		t.Errorf("ambiguous: %s", got)
	}
	if d := Decide(order(), other); !d.Send {
		t.Errorf("never sent: %s", said(d))
	}
}

func TestNotAfterHoldsForTheFirstSendOnly(t *testing.T) {
	past := noon.Add(-time.Second)
	due := Due{Moment: Moment{Now: noon}, AppID: "sbx_app_demo", NotAfter: &past}
	if got := said(Decide(order(), due)); got != "command.rejected" {
		t.Errorf("never sent: %s", got)
	}
	if d := Decide(ambiguous(order()), due); !d.Send {
		t.Errorf("ambiguous: %s", said(d))
	}
	due.NotAfter = &noon
	if d := Decide(order(), due); !d.Send {
		t.Errorf("at the moment itself: %s", said(d))
	}
}

func TestTrap06WhatIsNoAnswerMayHaveExecuted(t *testing.T) {
	for _, status := range []int{0, 200, 302, 403, 500, 502, 504} {
		if got := said(replied(renewalOf("a"), upstream.Reply{Sent: true, HTTPStatus: status, Failure: "no envelope"})); got != again1 {
			t.Errorf("HTTP %d: %s", status, got)
		}
	}
}

func TestTrap14WhatACrashCutOffMayHaveExecuted(t *testing.T) {
	if got := said(Decide(order(), CrashedMidSend{Moment: Moment{Now: noon}})); got != again1 {
		t.Fatal(got)
	}
}

func TestTrap06RetriesBackOffToFiveMinutesAtRandom(t *testing.T) {
	for attempts := range int64(80) {
		full := backoff(attempts, 1)
		if want := min(5*time.Minute, time.Second<<min(attempts, 20)); full != want {
			t.Errorf("after %d: at most %s, want %s", attempts, full, want)
		}
		if half := backoff(attempts, 0.5); half != full/2 {
			t.Errorf("after %d: half of it is %s", attempts, half)
		}
	}
}
