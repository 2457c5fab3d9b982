package decide

import (
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

// ambiguous returns the operation after an attempt that may have executed.
func ambiguous(op Operation) Operation {
	first := noon.Add(-time.Hour)
	op.Ambiguous, op.Attempts, op.FirstAmbiguousAt, op.BodySeq = 1, 2, &first, 7
	return op
}

// answer returns a reply with a failure code.
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

// said summarises a decision in a few words.
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

// Each row gives the decision on a reply to a first attempt, and to an attempt after one that
// may have executed.
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

// The code's effect on the account applies. Its meaning for the operation does not: with a 2xx
// or 5xx status the request may have executed.
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

// The nonce that the provider has seen before may belong to this very request, resent on the
// way. The code therefore does not prove a refusal.
func TestTrap01AReplayedNonceIsUnknown(t *testing.T) {
	if got := said(replied(order(), answer(upstream.CodeReplayedNonce, 401))); got != again1 {
		t.Fatal(got)
	}
}

func TestTrap28TheUnknownKeepsItsTraceAndNeedsAPerson(t *testing.T) {
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

func TestTrap60ARefusalNamesTheFieldThatWasWrong(t *testing.T) {
	r := answer(upstream.CodeValidationError, 422)
	r.Fields = "items.0.quantity: must be at most 500"
	f, ok := replied(order(), r).Facts[0].(fact.CommandRejected)
	if !ok || !strings.Contains(f.Reason, r.Fields) {
		t.Errorf("%+v", f)
	}
}
