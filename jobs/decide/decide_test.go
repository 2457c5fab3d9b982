package decide

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var binding = fact.Binding{AccountID: "acc_1", Environment: "sandbox", BaseURL: "http://127.0.0.1:1", Currency: "USD", Epoch: "e1"}

func order() Operation {
	return Operation{
		Operation: fact.Operation{ID: "c/1", CommandID: "c", Kind: fact.KindOrder, Chunk: "1", Generation: 1, Key: "k",
			State: fact.StateSending, Version: 2, Attempts: 1, AppID: "sbx_app_demo", UpdatedAt: noon},
		DurationDays: 30, Binding: binding,
	}
}

func renewalOf(ids ...string) Operation {
	op := order()
	op.ID, op.Chunk, op.Kind, op.ProxyIDs = "c/0001", "0001", fact.KindRenewal, ids
	return op
}

// ambiguous is the operation after an attempt that may have executed.
func ambiguous(op Operation) Operation {
	first := noon.Add(-time.Hour)
	op.Ambiguous, op.Attempts, op.FirstAmbiguousAt, op.BodySeq = 1, 2, &first, 7
	return op
}

// answer is an envelope of failure with a code.
func answer(code upstream.Code, status int) upstream.Reply {
	return upstream.Reply{Sent: true, Envelope: true, HTTPStatus: status, Code: code, Message: "words", TraceID: "tr_1"}
}

func success(status int) upstream.Reply {
	r := answer(upstream.CodeOK, status)
	r.Success = true
	return r
}

func replied(op Operation, r upstream.Reply) Decision {
	return Decide(op, Replied{Moment: Moment{Now: noon, Jitter: 0.5}, Reply: r})
}

// said is what a decision comes to, in a few words.
func said(d Decision) string {
	words := make([]string, 0, len(d.Facts)+1)
	for _, f := range d.Facts {
		word := f.FactType()
		switch f := f.(type) {
		case fact.OperationWaiting:
			if f.Ambiguous {
				word += " ambiguous"
			}
		case fact.OperationReview:
			if f.Ambiguous {
				word += " ambiguous"
			}
		case fact.CommandRejected:
			if len(f.SplitInto) > 0 {
				word += " split"
			}
		}
		words = append(words, word)
	}
	if d.Pause != nil {
		words = append(words, "pause "+d.Pause.Scope)
	}
	return strings.Join(words, ", ")
}

const (
	again1   = "operation.waiting ambiguous"
	asBefore = "operation.waiting"
	person   = "operation.review ambiguous"
	proves0  = "operation.review" // a refusal after an attempt that may have executed
)

// TestTheReplyTable is the table of design §5, a row a line: what a first
// attempt comes to, and what one after an ambiguous attempt does.
func TestTheReplyTable(t *testing.T) {
	created := success(201)
	created.Order = &upstream.CreatedOrder{OrderNo: "ord_1"}
	noNumber := success(201)
	noNumber.Malformed = "order_no is missing"
	contradicts := answer(upstream.CodeOK, 200)
	succeedsWithCode := success(200)
	succeedsWithCode.Code = upstream.CodeValidationError
	succeedsWith500 := success(500)
	succeedsWith500.Order = created.Order
	redirected := success(302)
	redirected.Order = created.Order
	noEnvelope := func(status int) upstream.Reply {
		return upstream.Reply{Sent: true, HTTPStatus: status, Failure: "not JSON"}
	}
	for _, row := range []struct {
		name         string
		reply        upstream.Reply
		first, later string
	}{
		{"an order with a number", created, "order.accepted", "order.accepted"},
		{"an order without a number", noNumber, again1, again1},
		{"success false and code ok", contradicts, person, person},
		{"success true and another code", succeedsWithCode, person, person},
		{"success with HTTP 500", succeedsWith500, person, person},
		{"success with HTTP 302", redirected, person, person},
		{"validation_error", answer(upstream.CodeValidationError, 422), "command.rejected", proves0},
		{"validation_error with HTTP 200", answer(upstream.CodeValidationError, 200), person, person},
		{"offer_not_found", answer(upstream.CodeOfferNotFound, 404), "command.rejected", proves0},
		{"proxy_not_found", answer(upstream.CodeProxyNotFound, 404), "command.rejected", proves0},
		{"unsupported_operation", answer(upstream.CodeUnsupportedOperation, 400), "command.rejected", proves0},
		{"insufficient_wallet_balance", answer(upstream.CodeInsufficientWallet, 402), "command.rejected", proves0},
		{"idempotency_key_required", answer(upstream.CodeIdempotencyKeyRequired, 400), "command.rejected, pause account", proves0 + ", pause account"},
		{"operation_failed without lines", answer(upstream.CodeOperationFailed, 422), person, person},
		{"proxy_endpoint_unavailable", answer(upstream.CodeProxyEndpointUnavailable, 503), person, person},
		{"idempotency_processing", answer(upstream.CodeIdempotencyProcessing, 409), again1, again1},
		{"idempotency_replay_failed", answer(upstream.CodeIdempotencyReplayFailed, 409), again1, again1},
		{"idempotency_unresolved", answer(upstream.CodeIdempotencyUnresolved, 409), person, person},
		{"idempotency_key_conflict", answer(upstream.CodeIdempotencyKeyConflict, 409), person, person},
		{"rate_limited", answer(upstream.CodeRateLimited, 429), asBefore + ", pause account", asBefore + ", pause account"},
		{"HTTP 429 without an envelope", noEnvelope(429), asBefore + ", pause account", asBefore + ", pause account"},
		{"HTTP 429 with an unknown code", answer("slow_down", 429), asBefore + ", pause account", asBefore + ", pause account"},
		{"insufficient_scope", answer(upstream.CodeInsufficientScope, 403), asBefore + ", pause order", asBefore + ", pause order"},
		{"invalid_signature", answer(upstream.CodeInvalidSignature, 401), asBefore + ", pause account", asBefore + ", pause account"},
		{"stale_timestamp", answer(upstream.CodeStaleTimestamp, 401), asBefore + ", pause account", asBefore + ", pause account"},
		{"api_key_revoked", answer(upstream.CodeAPIKeyRevoked, 403), asBefore + ", pause account", asBefore + ", pause account"},
		{"replayed_nonce", answer(upstream.CodeReplayedNonce, 401), again1, again1},
		{"no request byte written", upstream.Reply{Failure: "dial"}, "operation.unsent", "operation.unsent"},
		{"a time-out", upstream.Reply{Sent: true, Failure: "timeout"}, again1, again1},
		{"a redirect", noEnvelope(302), again1, again1},
		{"HTTP 500", noEnvelope(500), again1, again1},
		{"a firewall's page", noEnvelope(403), again1, again1},
		{"HTTP 200 that is no envelope", noEnvelope(200), again1, again1},
		{"a code of tomorrow", answer("account_frozen", 409), person, person},
		{"order_not_found to a POST", answer(upstream.CodeOrderNotFound, 404), person, person},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := said(replied(order(), row.reply)); got != row.first {
				t.Errorf("a first attempt: %s, want %s", got, row.first)
			}
			if got := said(replied(ambiguous(order()), row.reply)); got != row.later {
				t.Errorf("after an ambiguous attempt: %s, want %s", got, row.later)
			}
		})
	}
}

// What a code says of the account holds, and what it says of the operation does
// not: under 2xx and 5xx it may have executed.
func TestTrap47ARefusalUnderAContradictingStatusIsUnknown(t *testing.T) {
	allFailed := answer(upstream.CodeOperationFailed, 422)
	allFailed.Renewal = result("failed", item("a", "failed", 0, 300))
	for _, status := range []int{200, 201, 204, 500, 502, 503} {
		for code, want := range map[upstream.Code]string{
			upstream.CodeValidationError: person, upstream.CodeOfferNotFound: person, upstream.CodeProxyNotFound: person,
			upstream.CodeUnsupportedOperation: person, upstream.CodeInsufficientWallet: person,
			upstream.CodeIdempotencyKeyRequired: person, upstream.CodeOperationFailed: person,
			upstream.CodeRateLimited: again1 + ", pause account", upstream.CodeInsufficientScope: again1 + ", pause renewal",
			upstream.CodeInvalidSignature: again1 + ", pause account", upstream.CodeStaleTimestamp: again1 + ", pause account",
			upstream.CodeAPIKeyRevoked: again1 + ", pause account",
		} {
			if got := said(replied(renewalOf("a"), answer(code, status))); got != want {
				t.Errorf("%s under HTTP %d: %s, want %s", code, status, got, want)
			}
		}
		if allFailed.HTTPStatus = status; said(replied(renewalOf("a"), allFailed)) != person {
			t.Errorf("an all-failed renewal under HTTP %d is booked", status)
		}
	}
}

// TestTrap01AReplayedNonceIsUnknown: it is no refusal of ours, for what was seen
// before may have been this very request, resent on the way.
func TestTrap01AReplayedNonceIsUnknown(t *testing.T) {
	if got := said(replied(order(), answer(upstream.CodeReplayedNonce, 401))); got != again1 {
		t.Fatal(got)
	}
}

func TestTrap28WhatIsUnknownKeepsItsTraceAndGoesToAPerson(t *testing.T) {
	f, ok := replied(order(), answer("account_frozen", 409)).Facts[0].(fact.OperationReview)
	if !ok || f.TraceID != "tr_1" || f.Code != "account_frozen" || f.HTTPStatus != 409 || f.Attempt != 1 || !strings.Contains(f.Reason, "account_frozen") {
		t.Fatalf("%+v", f)
	}
	for what, r := range map[string]*upstream.Renewal{
		"status": result("almost", item("a", "succeeded", 300, 0)),
		"line":   {Status: "completed", TotalCents: 300, ChargedCents: 300, Successful: []string{"a"}, LineItems: []upstream.RenewalLine{item("a", "parked", 300, 0)}},
	} {
		d := replied(renewalOf("a"), renewed(r))
		if f, ok := d.Facts[0].(fact.OperationReview); !ok || f.TraceID != "tr_1" || len(d.Facts) != 1 {
			t.Errorf("an unknown %s: %s", what, said(d))
		}
	}
}

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
		{"a crash inside", order(), CrashedMidSend{m, window - time.Second}, again1},
		{"a crash at its end", order(), CrashedMidSend{m, window}, person},
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

func TestTrap44WhatIsAmbiguousUnderOneAppIDIsNotSentUnderAnother(t *testing.T) {
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

func TestTrap38EverySenderWaitsAsLongAsRetryAfterSays(t *testing.T) {
	for _, test := range []struct {
		name   string
		header upstream.RetryAfter
		before int
		want   time.Duration
	}{
		{"seconds", upstream.ParseRetryAfter("17", noon), 0, 17 * time.Second},
		{"a date", upstream.ParseRetryAfter("Sat, 21 Nov 2026 12:02:00 GMT", noon), 0, 2 * time.Minute},
		{"nothing", upstream.RetryAfter{}, 0, 5 * time.Second},
		{"nothing, again", upstream.RetryAfter{}, 1, 10 * time.Second},
		{"nothing, for long", upstream.RetryAfter{}, 200, time.Hour},
		{"nonsense", upstream.ParseRetryAfter("soon", noon), 2, 20 * time.Second},
		{"a negative number", upstream.ParseRetryAfter("-5", noon), 0, 5 * time.Second},
		{"more than an hour", upstream.ParseRetryAfter("86400", noon), 0, 24 * time.Hour},
		{"more than time holds", upstream.ParseRetryAfter("99999999999999999999", noon), 0, 366 * 24 * time.Hour},
	} {
		reply := answer(upstream.CodeRateLimited, 429)
		reply.RetryAfter = test.header
		d := Decide(order(), Replied{Moment: Moment{Now: noon}, Reply: reply, Throttled: test.before})
		f, ok := d.Facts[0].(fact.OperationWaiting)
		if !ok || f.NextAt.After(noon) || d.Pause == nil || !d.Pause.Until.Equal(noon.Add(test.want)) {
			t.Errorf("%s: %+v", test.name, d)
		}
	}
	if got := said(replied(order(), upstream.Reply{Sent: true, HTTPStatus: 429, Failure: "not JSON"})); got != asBefore+", pause account" {
		t.Errorf("without an envelope: %s", got)
	}
}

func TestASignatureThatReadsAcceptPausesOnlyWrites(t *testing.T) {
	d := Decide(renewalOf("a"), Replied{Moment: Moment{Now: noon}, Reply: answer(upstream.CodeInvalidSignature, 401), ReadsWork: true})
	if got := said(d); got != asBefore+", pause renewal" {
		t.Fatal(got)
	}
}

func TestAFirewallIsNoticed(t *testing.T) {
	for status, want := range map[int]bool{401: true, 403: true, 500: false, 0: false} {
		if d := replied(order(), upstream.Reply{Sent: true, HTTPStatus: status, Failure: "html"}); d.Firewall != want {
			t.Errorf("HTTP %d: %t", status, d.Firewall)
		}
	}
}

func TestWantOfMoneyIsSaid(t *testing.T) {
	f, _ := replied(order(), answer(upstream.CodeInsufficientWallet, 402)).Facts[0].(fact.CommandRejected)
	if !f.ShortOfMoney {
		t.Fatalf("%+v", f)
	}
}

// TestOneBadIDIsFoundByHalves drives Decide as the runner would: a chunk with
// the bad id is refused, one without it is renewed.
func TestOneBadIDAmongElevenIsFoundByHalves(t *testing.T) {
	var all []string
	for i := range 11 {
		all = append(all, fmt.Sprintf("px_%02d", i))
	}
	const bad = "px_07"
	var renewed, refused []string
	keys := map[string]bool{}
	queue := []Operation{renewalOf(all...)}
	for n := 0; len(queue) > 0; n++ {
		op := queue[0]
		queue = queue[1:]
		if n > 30 || keys[op.Key] {
			t.Fatalf("operation %s: too many steps, or a key used twice", op.ID)
		}
		keys[op.Key] = true
		if !slices.Contains(op.ProxyIDs, bad) {
			renewed = append(renewed, op.ProxyIDs...)
			continue
		}
		f, ok := replied(op, answer(upstream.CodeProxyNotFound, 404)).Facts[0].(fact.CommandRejected)
		if !ok {
			t.Fatal("not refused")
		}
		if len(f.SplitInto) == 0 {
			refused = append(refused, op.ProxyIDs...)
		}
		for _, p := range f.SplitInto {
			next := renewalOf(p.ProxyIDs...)
			next.ID, next.Chunk, next.Key = p.OperationID, p.Chunk, p.Key
			queue = append(queue, next)
		}
	}
	slices.Sort(renewed)
	if want := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == bad }); !slices.Equal(renewed, want) || !slices.Equal(refused, []string{bad}) {
		t.Fatalf("renewed %v, refused %v", renewed, refused)
	}
}

// TestAChunkIsSplitByWhatWasRead: the provider has named its unknown proxies before.
func TestAChunkIsSplitByWhatWasRead(t *testing.T) {
	op := renewalOf("a", "b", "c", "d")
	for _, c := range []struct {
		code    upstream.Code
		unknown []string
		want    [][]string
	}{
		{upstream.CodeProxyNotFound, nil, [][]string{{"a", "b"}, {"c", "d"}}},
		{upstream.CodeProxyNotFound, []string{"b", "d"}, [][]string{{"a", "c"}, {"b", "d"}}},
		{upstream.CodeProxyNotFound, []string{"a", "b", "c", "d"}, nil},
		{upstream.CodeValidationError, []string{"b", "d"}, [][]string{{"a", "b"}, {"c", "d"}}},
		{upstream.CodeValidationError, []string{"a", "b", "c", "d"}, [][]string{{"a", "b"}, {"c", "d"}}},
	} {
		d := Decide(op, Replied{Moment: Moment{Now: noon}, Reply: answer(c.code, 404), Unknown: c.unknown})
		f, _ := d.Facts[0].(fact.CommandRejected)
		var got [][]string
		for _, p := range f.SplitInto {
			got = append(got, p.ProxyIDs)
		}
		if !reflect.DeepEqual(got, c.want) || (f.DurationDays == 0) != (c.want == nil) {
			t.Errorf("%s, unknown %v: %v", c.code, c.unknown, got)
		}
	}
}

func TestWantOfMoneyDoesNotSplitAChunk(t *testing.T) {
	if got := said(replied(renewalOf("a", "b"), answer(upstream.CodeInsufficientWallet, 402))); got != "command.rejected" {
		t.Fatal(got)
	}
}

func TestTrap60ARefusalNamesTheFieldThatWasWrong(t *testing.T) {
	r := answer(upstream.CodeValidationError, 422)
	r.Fields = "items.0.quantity: must be at most 500"
	f, ok := replied(order(), r).Facts[0].(fact.CommandRejected)
	if !ok || !strings.Contains(f.Reason, r.Fields) {
		t.Errorf("%+v", f)
	}
}
