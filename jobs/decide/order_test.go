package decide

import (
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

func open() Operation {
	op := order()
	op.State, op.OrderNo = fact.StateOpen, "ord_1"
	progress := noon.Add(-time.Minute)
	op.ProgressAt, op.NextAt = &progress, &progress
	return op
}

func cents(n int64) *int64 { return new(n) }

// detail returns an order in progress that costs 900 cents.
func detail(change ...func(*upstream.Order)) upstream.Order {
	o := upstream.Order{OrderSummary: upstream.OrderSummary{OrderNo: "ord_1", Status: "procuring", Currency: "USD", TotalCents: cents(900)}, PollAfterSeconds: cents(7),
		Delivery: upstream.Delivery{ExpectedCount: 2, DeliveredCount: 1, Present: true}, Received: upstream.Received{TraceID: "tr_2"}}
	for _, c := range change {
		c(&o)
	}
	return o
}

func finished(o *upstream.Order) {
	o.Status, o.PollAfterSeconds = "whatever_it_is_called", nil
	o.Delivery = upstream.Delivery{ExpectedCount: 2, DeliveredCount: 2, Complete: true, Available: true, Present: true}
	o.Proxies = []upstream.Proxy{{ProxyID: "px_1"}, {ProxyID: "px_2"}}
}

func stopped(o *upstream.Order) { o.Status, o.PollAfterSeconds = "odd", nil }

func refund(amount int64, at *time.Time) func(*upstream.Order) {
	return func(o *upstream.Order) {
		o.Refund = &upstream.Refund{Status: "unheard_of", Destination: "wallet", AmountCents: &amount, Currency: "USD", RefundedAt: at}
	}
}

func read(op Operation, o upstream.Order) Decision {
	return Decide(op, OrderRead{Moment: Moment{Now: noon}, Order: o, PollFloor: time.Second})
}

func booked(op Operation, charged, refunded int64) Operation {
	op.ChargedCents, op.RefundedCents = charged, refunded
	return op
}

func TestTrap27AnOrderIsDecidedByDeliveryAndRefund(t *testing.T) {
	for name, test := range map[string]struct {
		op   Operation
		o    upstream.Order
		want string
	}{
		"in progress":                          {open(), detail(), "order.progressed"},
		"delivered under any name":             {open(), detail(finished), "order.delivered"},
		"delivered but called paid":            {open(), detail(finished, func(o *upstream.Order) { o.Status, o.PollAfterSeconds = "paid", cents(5) }), "order.delivered"},
		"complete and not available":           {open(), detail(finished, func(o *upstream.Order) { o.Delivery.Available = false }), "order.progressed, operation.review"},
		"available and not complete":           {open(), detail(finished, func(o *upstream.Order) { o.Delivery.Complete = false }), "order.progressed, operation.review"},
		"called completed, nothing delivered":  {open(), detail(stopped, func(o *upstream.Order) { o.Status = "completed" }), "order.progressed, operation.review"},
		"called refunded, no refund object":    {open(), detail(stopped, func(o *upstream.Order) { o.Status = "refunded" }), "order.progressed, operation.review"},
		"no delivery object":                   {open(), detail(stopped, func(o *upstream.Order) { o.Delivery = upstream.Delivery{} }), "order.progressed, operation.review"},
		"paid, and not to be polled":           {open(), detail(func(o *upstream.Order) { o.PollAfterSeconds = nil }), "order.progressed, operation.review"},
		"refunded":                             {open(), detail(stopped, refund(900, &noon)), "order.refunded"},
		"refunded after it was booked":         {booked(open(), 900, 0), detail(stopped, refund(900, &noon)), "order.refunded"},
		"delivered with a partial refund":      {open(), detail(finished, refund(450, &noon)), "order.delivered"},
		"delivered, its refund pending":        {open(), detail(finished, refund(450, nil)), "order.progressed"},
		"a refund without a date is pending":   {open(), detail(stopped, refund(900, nil)), "order.progressed"},
		"a refund of nothing is pending":       {open(), detail(stopped, refund(0, &noon)), "order.progressed"},
		"delivered without a total":            {open(), detail(finished, func(o *upstream.Order) { o.TotalCents = nil }), "operation.review"},
		"delivered for nothing":                {open(), detail(finished, func(o *upstream.Order) { o.TotalCents = cents(0) }), "operation.review"},
		"another order":                        {open(), detail(func(o *upstream.Order) { o.OrderNo = "ord_2" }), "operation.review"},
		"a booked refund that is gone":         {booked(open(), 900, 450), detail(stopped), "operation.review"},
		"a booked refund without its date":     {booked(open(), 900, 450), detail(stopped, refund(450, nil)), "operation.review"},
		"a total in another currency":          {open(), detail(finished, func(o *upstream.Order) { o.Currency = "EUR" }), "operation.review, ledger.discrepancy"},
		"a total that changed":                 {booked(open(), 800, 0), detail(finished), "order.delivered, ledger.discrepancy"},
		"a refund larger than the charge":      {open(), detail(stopped, refund(901, &noon)), "order.progressed, ledger.discrepancy"},
		"a refund smaller than what is booked": {booked(open(), 900, 500), detail(stopped, refund(400, &noon)), "order.refunded, ledger.discrepancy"},
	} {
		if got := said(read(test.op, test.o)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestTrap19ARefundInAnotherCurrencyIsNotBooked(t *testing.T) {
	d := read(open(), detail(stopped, refund(900, &noon), func(o *upstream.Order) { o.Refund.Currency = "EUR" }))
	f, ok := d.Facts[0].(fact.OrderProgressed)
	if !ok || f.ChargedCents != 900 || f.RefundedCents != 0 || said(d) != "order.progressed, operation.review, ledger.discrepancy" {
		t.Fatalf("%+v", d.Facts)
	}
	if x, ok := d.Facts[2].(fact.LedgerDiscrepancy); !ok || x.AmountCents != 0 || !strings.Contains(x.Explanation, "9.00") || x.OrderNo != "ord_1" {
		t.Fatalf("%+v", d.Facts[2])
	}
	for _, currency := range []string{"usd", ""} {
		d = read(open(), detail(finished, refund(300, &noon), func(o *upstream.Order) { o.Refund.Currency = currency }))
		if x, ok := d.Facts[len(d.Facts)-1].(fact.LedgerDiscrepancy); said(d) != "order.delivered, ledger.discrepancy" || !ok || x.Finding != FindingRefundCurrency {
			t.Errorf("%q, all delivered: %+v", currency, d.Facts)
		}
	}
	d = read(open(), detail(stopped, refund(900, nil)))
	if f, ok := d.Facts[0].(fact.OrderProgressed); !ok || f.RefundedCents != 0 {
		t.Fatalf("a refund without a date is pending, whatever its status: %+v", d.Facts)
	}
}

func TestTrap19ARefundOfTomorrowHasNotComeYet(t *testing.T) {
	for name, test := range map[string]struct {
		at, server time.Time
		want       string
	}{
		"within the skew":                {noon.Add(upstream.MaxSkew), time.Time{}, "order.refunded"},
		"ahead of both clocks":           {noon.Add(upstream.MaxSkew + time.Second), noon, "order.progressed"},
		"come by the provider's clock":   {noon.Add(time.Hour), noon.Add(time.Hour), "order.refunded"},
		"the provider's clock is behind": {noon, noon.Add(-time.Hour), "order.refunded"},
	} {
		o := detail(stopped, refund(900, &test.at), func(o *upstream.Order) { o.ServerTime = test.server })
		if got := said(read(open(), o)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	tomorrow := noon.Add(24 * time.Hour)
	f, _ := read(open(), detail(stopped, refund(900, &tomorrow))).Facts[0].(fact.OrderProgressed)
	if f.ChargedCents != 900 || f.RefundedCents != 0 || f.Reason != "the refund is pending" {
		t.Errorf("%+v", f)
	}
	if got := said(read(booked(open(), 900, 300), detail(stopped, refund(900, &tomorrow)))); got != "order.progressed" {
		t.Errorf("the rest comes tomorrow: %s", got)
	}
}

// aWeek returns an order that has shown no progress for seven days of reads.
func aWeek() Operation { return daysApart(settlingMost) }

func deliveredOf(n, expected int64) func(*upstream.Order) {
	return func(o *upstream.Order) { o.Delivery.DeliveredCount, o.Delivery.ExpectedCount = n, expected }
}

func TestTrap20APartOfTheMoneyDoesNotEndAnOrder(t *testing.T) {
	for name, test := range map[string]struct {
		op   Operation
		o    upstream.Order
		want string
	}{
		"nothing delivered, a third back":     {open(), detail(stopped, deliveredOf(0, 2), refund(300, &noon)), "order.progressed"},
		"nothing delivered, all back":         {open(), detail(stopped, deliveredOf(0, 2), refund(900, &noon)), "order.refunded"},
		"one of three delivered, two back":    {open(), detail(stopped, deliveredOf(1, 3), refund(600, &noon)), "order.refunded"},
		"one of three delivered, a cent less": {open(), detail(stopped, deliveredOf(1, 3), refund(599, &noon)), "order.progressed"},
		"a share is rounded up":               {open(), detail(stopped, deliveredOf(1, 7), refund(771, &noon)), "order.refunded"},
		"counts beyond all bounds":            {open(), detail(stopped, deliveredOf(1<<62, 1<<63-1), refund(1, &noon)), "order.progressed"},
		"it came in two parts":                {booked(open(), 900, 300), detail(stopped, deliveredOf(0, 2), refund(900, &noon)), "order.refunded"},
		"the rest did not come in a week":     {booked(aWeek(), 900, 300), detail(stopped, deliveredOf(1, 9), refund(300, &noon)), "operation.review"},
	} {
		if got := said(read(test.op, test.o)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	part, _ := read(open(), detail(stopped, deliveredOf(0, 2), refund(300, &noon))).Facts[0].(fact.OrderProgressed)
	if part.ChargedCents != 900 || part.RefundedCents != 300 || !part.NextAt.Equal(noon.Add(settling)) {
		t.Errorf("%+v", part)
	}
	d := read(booked(aWeek(), 900, 300), detail(stopped, deliveredOf(1, 9), refund(300, &noon)))
	if f, ok := d.Facts[0].(fact.OperationReview); !ok || !strings.Contains(f.Reason, "9.00 USD was charged, 3.00 USD came back, 1 of 9") {
		t.Errorf("%+v", d.Facts)
	}
}

func TestTrap19ARefundObjectThatSaysNoneHoldsNoDelivery(t *testing.T) {
	said0 := func(r upstream.Refund) func(*upstream.Order) { return func(o *upstream.Order) { o.Refund = &r } }
	announced := said0(upstream.Refund{Status: "requested", Destination: "wallet"})
	for name, test := range map[string]struct {
		op   Operation
		o    upstream.Order
		want string
	}{
		"an empty object":             {open(), detail(finished, said0(upstream.Refund{})), "order.delivered"},
		"an amount of 0":              {open(), detail(finished, said0(upstream.Refund{Status: "none", AmountCents: cents(0), Currency: "USD", RefundedAt: &noon})), "order.delivered"},
		"an amount of 0, a part":      {open(), detail(finished, deliveredOf(1, 2), said0(upstream.Refund{AmountCents: cents(0)})), "order.progressed"},
		"an amount of 0, undelivered": {open(), detail(stopped, said0(upstream.Refund{AmountCents: cents(0)})), "order.progressed"},
		"announced":                   {open(), detail(finished, announced), "order.progressed"},
		"announced for a week":        {aWeek(), detail(finished, deliveredOf(1, 1), announced), "order.delivered, ledger.discrepancy"},
		"announced, undelivered":      {aWeek(), detail(stopped, deliveredOf(1, 2), announced), "operation.review"},
	} {
		if got := said(read(test.op, test.o)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	d := read(aWeek(), detail(finished, deliveredOf(1, 1), announced))
	if f, ok := d.Facts[1].(fact.LedgerDiscrepancy); !ok || f.Finding != "order_refund" || f.OrderNo != "ord_1" {
		t.Errorf("%+v", d.Facts)
	}
}

func TestTheReasonSaysWhyNoTotalIsBooked(t *testing.T) {
	for want, change := range map[string]func(*upstream.Order){
		"gives no total":                 func(o *upstream.Order) { o.TotalCents = nil },
		"a total of 0.00 USD":            func(o *upstream.Order) { o.TotalCents = cents(0) },
		"no amount that can be booked":   func(o *upstream.Order) { o.TotalCents = cents(-5) },
		"gives no currency":              func(o *upstream.Order) { o.Currency = "" },
		`is in "usd" and the account in`: func(o *upstream.Order) { o.Currency = "usd" },
	} {
		d := read(open(), detail(finished, change))
		if f, ok := d.Facts[0].(fact.OperationReview); !ok || !strings.Contains(f.Reason, want) {
			t.Errorf("%s: %+v", want, d.Facts)
		}
	}
}

func TestTrap21TheChargeIsBookedOnceFromTheDetail(t *testing.T) {
	created := success(201)
	created.Order = &upstream.CreatedOrder{OrderNo: "ord_1"}
	if f, ok := replied(order(), created).Facts[0].(fact.OrderAccepted); !ok || f.OrderNo != "ord_1" || f.NextAt != noon {
		t.Fatalf("%+v", f)
	}
	first, _ := read(open(), detail()).Facts[0].(fact.OrderProgressed)
	second, _ := read(booked(open(), 900, 0), detail(finished)).Facts[0].(fact.OrderDelivered)
	if first.ChargedCents != 900 || second.ChargedCents != 0 {
		t.Fatalf("booked %d and then %d", first.ChargedCents, second.ChargedCents)
	}
}

func TestTrap20ARefundThatGrowsIsBookedByItsGrowth(t *testing.T) {
	f, ok := read(booked(open(), 900, 300), detail(stopped, refund(900, &noon))).Facts[0].(fact.OrderRefunded)
	if !ok || f.RefundedCents != 600 || f.RefundStatus != "unheard_of" || f.Destination != "wallet" {
		t.Fatalf("%+v", f)
	}
}

func TestAnOrderRefundedInPartNamesWhatWasDelivered(t *testing.T) {
	one := func(o *upstream.Order) { o.Proxies = []upstream.Proxy{{ProxyID: "px_1"}} }
	f, ok := read(booked(open(), 900, 0), detail(stopped, deliveredOf(1, 3), refund(600, &noon), one)).Facts[0].(fact.OrderRefunded)
	if !ok || !slices.Equal(f.ProxyIDs, []string{"px_1"}) || len(f.Proxies) != 1 {
		t.Errorf("%+v", f)
	}
}

func TestTrap26AnOrderIsNotReadBeforeItsTime(t *testing.T) {
	for _, test := range []struct {
		seconds int64
		floor   time.Duration
		want    time.Duration
	}{{7, time.Second, 7 * time.Second}, {0, time.Second, time.Second}, {-3, time.Second, time.Second}, {2, 5 * time.Second, 5 * time.Second}} {
		o := detail(func(o *upstream.Order) { o.PollAfterSeconds = &test.seconds })
		d := Decide(open(), OrderRead{Moment: Moment{Now: noon}, Order: o, PollFloor: test.floor})
		if f, ok := d.Facts[0].(fact.OrderProgressed); !ok || !f.NextAt.Equal(noon.Add(test.want)) {
			t.Errorf("%d seconds and a floor of %s: %+v", test.seconds, test.floor, d.Facts)
		}
	}
	created := success(201)
	created.Order = &upstream.CreatedOrder{OrderNo: "ord_1", PollAfterSeconds: cents(30)}
	if f, _ := replied(order(), created).Facts[0].(fact.OrderAccepted); !f.NextAt.Equal(noon.Add(30 * time.Second)) {
		t.Errorf("the first read is at %s", f.NextAt)
	}
	for _, status := range []string{"of_tomorrow", "completed", ""} {
		if got := said(read(open(), detail(func(o *upstream.Order) { o.Status = status }))); got != "order.progressed, operation.review" {
			t.Errorf("an order that is %q is not to be polled: %s", status, got)
		}
	}
}

// daysApart returns an order whose last read came this long after its last progress, and that
// is read again a day later.
func daysApart(read time.Duration) Operation {
	op := booked(open(), 900, 0)
	moved := noon.Add(-24*time.Hour - read)
	last := moved.Add(read)
	op.DeliveredCount, op.ProgressAt, op.ReadAt, op.UpdatedAt = 1, &moved, &last, last
	return op
}

func TestTrap50NoProgressIsWhatReadsShow(t *testing.T) {
	for name, test := range map[string]struct {
		op   Operation
		o    upstream.Order
		want string
	}{
		"read for a day without progress":      {daysApart(24 * time.Hour), detail(), "operation.review"},
		"nothing was read for a day":           {daysApart(time.Minute), detail(), "order.progressed"},
		"this very read shows progress":        {daysApart(24 * time.Hour), detail(func(o *upstream.Order) { o.Delivery.DeliveredCount = 2 }), "order.progressed"},
		"never read before":                    {func() Operation { op := daysApart(0); op.ReadAt = nil; return op }(), detail(), "order.progressed"},
		"a day without progress, and the rest": {daysApart(24 * time.Hour), detail(finished), "order.delivered"},
	} {
		if got := said(read(test.op, test.o)); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	pending, _ := read(open(), detail(stopped, refund(900, nil))).Facts[0].(fact.OrderProgressed)
	if !pending.NextAt.Equal(noon.Add(24 * time.Hour)) {
		t.Fatalf("a pending refund is read again at %s", pending.NextAt)
	}
}

func TestTrap28ACodeAnsweredForADayNeedsAPerson(t *testing.T) {
	for _, test := range []struct {
		code  upstream.Code
		since time.Duration // 0: the first failure
		want  string
	}{
		{"account_frozen", 0, "order.progressed"},
		{"account_frozen", 24*time.Hour - 1, "order.progressed"},
		{"account_frozen", 24 * time.Hour, "operation.review"},
		{upstream.CodeProxyEndpointUnavailable, 24 * time.Hour, "operation.review"},
		{"", 24 * time.Hour, "order.progressed"},
		{upstream.CodeRateLimited, 24 * time.Hour, "order.progressed, pause account"},
		{upstream.CodeAPIKeyRevoked, 24 * time.Hour, "order.progressed, pause account"},
	} {
		op := open()
		if test.since > 0 {
			since := noon.Add(-test.since)
			op.UnreadSince = &since
		}
		d := Decide(op, OrderReadFailed{Moment: Moment{Now: noon}, Code: test.code, TraceID: "tr_9", Reason: "words"})
		if got := said(d); got != test.want {
			t.Errorf("%q for %s: %s, want %s", test.code, test.since, got, test.want)
		}
		switch f := d.Facts[0].(type) {
		case fact.OperationReview:
			if f.TraceID != "tr_9" || f.Code != string(test.code) {
				t.Errorf("%+v", f)
			}
		case fact.OrderProgressed:
			if f.UnreadSince == nil || f.ReadAt != op.ReadAt {
				t.Errorf("%+v", f)
			}
		}
	}
}

// With many orders, or during long pauses, an order is read only every few hours. Only a long
// gap starts the count again.
func TestReadsThatAreHoursApartAreConsecutive(t *testing.T) {
	for apart, want := range map[time.Duration]string{2 * time.Hour: "operation.review", 7 * 24 * time.Hour: "order.progressed"} {
		op := open()
		op.UnreadSince, op.UpdatedAt = new(noon.Add(-8*24*time.Hour)), noon.Add(-apart)
		if got := said(Decide(op, OrderReadFailed{Moment: Moment{Now: noon}, Reason: "words"})); got != want {
			t.Errorf("%s apart: %s, want %s", apart, got, want)
		}
	}
}

func TestTrap29OnlyWhatIsAvailableIsHandedOver(t *testing.T) {
	f, ok := read(open(), detail(finished)).Facts[0].(fact.OrderDelivered)
	if !ok || len(f.ProxyIDs) != 2 || f.ProxyIDs[0] != "px_1" || f.ExpectedCount != 2 {
		t.Fatalf("%+v", f)
	}
	early := detail(finished, func(o *upstream.Order) { o.Delivery.Available = false })
	if got := said(read(open(), early)); strings.Contains(got, "order.delivered") {
		t.Errorf("complete and not available: %s", got)
	}
}

func TestAnOrderThatNoRequestCanNameIsReviewed(t *testing.T) {
	op := open()
	op.OrderNo = ".."
	d := Decide(op, OrderReadFailed{Moment: Moment{Now: noon}, Reason: "identifier is a path step", Unaskable: true})
	if f, ok := d.Facts[0].(fact.OperationReview); !ok || f.Ambiguous || !strings.Contains(f.Reason, `".."`) {
		t.Errorf("%+v", d)
	}
}

func TestAFailedReadComesBackLaterAndLater(t *testing.T) {
	fail := func(op Operation, h OrderReadFailed) (fact.OrderProgressed, Decision) {
		h.Moment, h.Reason = Moment{Now: noon, Jitter: 0.5}, "HTTP 500"
		d := Decide(op, h)
		f, _ := d.Facts[0].(fact.OrderProgressed)
		return f, d
	}
	op := open()
	wait := time.Duration(0)
	for range 12 {
		f, _ := fail(op, OrderReadFailed{})
		if next := f.NextAt.Sub(noon); next < wait || next > backoffMost+BackoffFirst {
			t.Fatalf("waits %s after %s", next, wait)
		} else {
			wait = next
		}
		op.Reason, op.UpdatedAt, op.NextAt = f.Reason, noon, &f.NextAt
	}
	if wait < backoffMost {
		t.Fatalf("after twelve failures it waits %s", wait)
	}
	if f, d := fail(open(), OrderReadFailed{Code: upstream.CodeRateLimited, RetryAfter: upstream.RetryAfter{Present: true, Valid: true, Delay: time.Hour}}); f.NextAt.After(noon.Add(backoffMost)) || d.Pause == nil || !d.Pause.Until.Equal(noon.Add(time.Hour)) {
		t.Fatalf("%+v", d)
	}
	if _, d := fail(open(), OrderReadFailed{Code: upstream.CodeAPIKeyRevoked}); d.Pause == nil || d.Pause.Until != nil {
		t.Fatalf("%+v", d)
	}
}

func TestAnOrderMayBeShownLaterThanItIsAccepted(t *testing.T) {
	for _, test := range []struct {
		age  time.Duration
		want string
	}{{0, "order.progressed"}, {10*time.Minute - 1, "order.progressed"}, {10 * time.Minute, "operation.review"}, {48 * time.Hour, "operation.review"}} {
		op := open()
		accepted := noon.Add(-test.age)
		op.ProgressAt, op.NextAt, op.UpdatedAt = &accepted, &accepted, accepted
		d := Decide(op, OrderReadFailed{Moment: Moment{Now: noon}, Code: upstream.CodeOrderNotFound, TraceID: "tr_3", Reason: "order_not_found"})
		if said(d) != test.want {
			t.Errorf("not shown %s after the acceptance: %s, want %s", test.age, said(d), test.want)
		}
		if f, ok := d.Facts[0].(fact.OrderProgressed); ok && (!f.NextAt.Equal(noon.Add(time.Second)) || f.ChargedCents != 0 || !strings.Contains(f.Reason, "does not show")) {
			t.Errorf("%+v", f)
		}
	}
	unknown := open()
	unknown.ProgressAt = nil
	if got := said(Decide(unknown, OrderReadFailed{Moment: Moment{Now: noon}, Code: upstream.CodeOrderNotFound})); got != "operation.review" {
		t.Errorf("when it was accepted is not known: %s", got)
	}
}
