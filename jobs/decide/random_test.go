package decide

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"perennial/ledger/fact"
	"perennial/upstream"
)

var anyCode = []upstream.Code{
	"", upstream.CodeOK, upstream.CodeInvalidSignature, upstream.CodeStaleTimestamp, upstream.CodeReplayedNonce, upstream.CodeIdempotencyKeyRequired,
	upstream.CodeIdempotencyKeyConflict, upstream.CodeIdempotencyProcessing, upstream.CodeIdempotencyReplayFailed, upstream.CodeIdempotencyUnresolved,
	upstream.CodeInsufficientScope, upstream.CodeAPIKeyRevoked, upstream.CodeValidationError, upstream.CodeOfferNotFound, upstream.CodeOrderNotFound,
	upstream.CodeProxyNotFound, upstream.CodeInsufficientWallet, upstream.CodeInvalidPageToken, upstream.CodeRateLimited, upstream.CodeUnsupportedOperation,
	upstream.CodeProxyEndpointUnavailable, upstream.CodeOperationFailed, "of_tomorrow",
}

func anyReply(t *rapid.T) upstream.Reply {
	text := rapid.StringN(0, 20, -1)
	r := upstream.Reply{
		Sent: rapid.Bool().Draw(t, "sent"), Envelope: rapid.Bool().Draw(t, "envelope"), Success: rapid.Bool().Draw(t, "success"),
		HTTPStatus: rapid.SampledFrom([]int{0, 200, 201, 302, 400, 401, 403, 409, 422, 429, 500, 503}).Draw(t, "status"),
		Code:       rapid.SampledFrom(anyCode).Draw(t, "code"), Message: text.Draw(t, "message"), Malformed: rapid.SampledFrom([]string{"", "", "bad"}).Draw(t, "malformed"),
		RetryAfter: upstream.RetryAfter{Present: rapid.Bool().Draw(t, "present"), Valid: rapid.Bool().Draw(t, "valid"), Delay: time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "delay"))},
	}
	if rapid.Bool().Draw(t, "order") {
		r.Order = &upstream.CreatedOrder{OrderNo: "ord", PollAfterSeconds: anyCents(t, "poll")}
	}
	if rapid.Bool().Draw(t, "renewal") {
		r.Renewal = anyRenewal(t)
	}
	return r
}

func anyCents(t *rapid.T, name string) *int64 {
	if rapid.Bool().Draw(t, name+" there") {
		return nil
	}
	n := rapid.Int64().Draw(t, name)
	return &n
}

func anyRenewal(t *rapid.T) *upstream.Renewal {
	ids := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "z"}), 0, 4)
	money := rapid.SampledFrom([]int64{0, 300, -1, 1 << 62})
	r := &upstream.Renewal{
		Status:     rapid.SampledFrom([]string{"completed", "partial", "manual_review", "failed", "odd"}).Draw(t, "status"),
		TotalCents: money.Draw(t, "total"), ChargedCents: money.Draw(t, "charged"), RefundedCents: money.Draw(t, "refunded"),
		Successful: ids.Draw(t, "successful"), Failed: ids.Draw(t, "failed"), Unresolved: ids.Draw(t, "unresolved"),
		Missing: rapid.SliceOfN(rapid.SampledFrom([]string{"total_cents", "line_items", "charged_cents"}), 0, 1).Draw(t, "missing"),
	}
	for range rapid.IntRange(0, 4).Draw(t, "lines") {
		r.LineItems = append(r.LineItems, upstream.RenewalLine{
			ProxyID: rapid.SampledFrom([]string{"a", "b", "c", "z"}).Draw(t, "id"), Status: rapid.SampledFrom([]string{"succeeded", "failed", "unresolved", "odd"}).Draw(t, "line"),
			AmountCents: money.Draw(t, "amount"), ChargedCents: money.Draw(t, "kept"), RefundedCents: money.Draw(t, "returned"),
		})
	}
	return r
}

func anyOrder(t *rapid.T) upstream.Order {
	o := upstream.Order{
		OrderSummary: upstream.OrderSummary{OrderNo: rapid.SampledFrom([]string{"ord_1", "ord_1", "ord_1", ""}).Draw(t, "order_no"), Status: rapid.SampledFrom([]string{"paid", "procuring", "done"}).Draw(t, "status"),
			Currency: rapid.SampledFrom([]string{"USD", "USD", "EUR", ""}).Draw(t, "currency"), TotalCents: anyCents(t, "total")}, PollAfterSeconds: anyCents(t, "poll"),
		Delivery: upstream.Delivery{ExpectedCount: rapid.Int64().Draw(t, "expected"), Complete: rapid.Bool().Draw(t, "complete"), Available: rapid.Bool().Draw(t, "available"), Present: rapid.Bool().Draw(t, "present")},
	}
	if rapid.Bool().Draw(t, "refund") {
		o.Refund = &upstream.Refund{AmountCents: anyCents(t, "amount"), Currency: "USD"}
		if rapid.Bool().Draw(t, "dated") {
			o.Refund.RefundedAt = &noon
		}
	}
	return o
}

func anyOperation(t *rapid.T) Operation {
	op := order()
	if rapid.Bool().Draw(t, "is a renewal") {
		op = renewalOf("a", "b", "c")
	}
	if rapid.Bool().Draw(t, "ambiguous") {
		op = ambiguous(op)
	}
	return op
}

// concluded reports whether the decision refuses or cancels the operation.
func concluded(d Decision) bool {
	for _, f := range d.Facts {
		switch f.(type) {
		case fact.CommandRejected, fact.CommandCancelled:
			return true
		}
	}
	return false
}

func TestTrap07AnyReplyIsDecidedAndNoneIsGuessed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		op := anyOperation(t)
		m := Moment{Now: noon, Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter")}
		elapsed := time.Duration(rapid.Int64Range(0, int64(30*time.Hour)).Draw(t, "elapsed"))
		for _, h := range []Happened{
			Replied{Moment: m, Reply: anyReply(t), Elapsed: elapsed, Throttled: rapid.IntRange(0, 100).Draw(t, "throttled"), ReadsWork: rapid.Bool().Draw(t, "reads")},
			CrashedMidSend{Moment: m, Elapsed: elapsed},
			Due{Moment: m, Elapsed: elapsed, AppID: rapid.SampledFrom([]string{"sbx_app_demo", "sbx_app_new"}).Draw(t, "app"), NotAfter: rapid.SampledFrom([]*time.Time{nil, &noon}).Draw(t, "not after")},
		} {
			d := Decide(op, h)
			if len(d.Facts) == 0 && !d.Send {
				t.Fatalf("%T left the operation nowhere", h)
			}
			if op.Ambiguous > 0 && concluded(d) {
				t.Fatalf("%T after an ambiguous attempt was taken for not charged: %s", h, said(d))
			}
			for _, f := range d.Facts {
				if w, ok := f.(fact.OperationWaiting); ok && w.NextAt.Before(noon) {
					t.Fatalf("waits until %s", w.NextAt)
				}
			}
		}
	})
}

func TestTrap19NoMoreIsBookedThanAnOrderSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		op := open()
		op.ChargedCents = rapid.SampledFrom([]int64{0, 900}).Draw(t, "charged before")
		op.RefundedCents = rapid.Int64Range(0, op.ChargedCents).Draw(t, "refunded before")
		d := Decide(op, OrderRead{Moment: Moment{Now: noon}, Order: anyOrder(t), PollFloor: time.Second})
		if len(d.Facts) == 0 {
			t.Fatal("nothing was decided")
		}
		charged, refunded := op.ChargedCents, op.RefundedCents
		for _, f := range d.Facts {
			var s fact.OrderState
			switch f := f.(type) {
			case fact.OrderProgressed:
				s = f.OrderState
			case fact.OrderDelivered:
				s = f.OrderState
			case fact.OrderRefunded:
				s = f.OrderState
			}
			if s.ChargedCents < 0 || s.RefundedCents < 0 {
				t.Fatalf("%+v", s)
			}
			charged, refunded = charged+s.ChargedCents, refunded+s.RefundedCents
		}
		if op.ChargedCents > 0 && charged != op.ChargedCents || refunded > charged {
			t.Fatalf("%d charged and %d refunded: %s", charged, refunded, said(d))
		}
	})
}
