package ledger

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// commit appends facts like a program: ended commands are finished.
func (b *book) commit(facts ...fact.Fact) {
	b.t.Helper()
	check(b.t, b.Write(b.t.Context(), func(tx *Tx) error { return tx.Append(facts...) }))
}

// finishedOf returns the command.finished facts of a command.
func (b *book) finishedOf(id string) (all []fact.CommandFinished) {
	b.t.Helper()
	rows, err := b.RowsOf(b.t.Context(), id)
	check(b.t, err)
	for _, r := range rows {
		if r.Type == "command.finished" {
			var f fact.CommandFinished
			check(b.t, json.Unmarshal([]byte(r.Data), &f))
			all = append(all, f)
		}
	}
	return all
}

func (b *book) only(id string, revision int64) fact.CommandFinished {
	b.t.Helper()
	all := b.finishedOf(id)
	if int64(len(all)) != revision || all[len(all)-1].Revision != revision {
		b.t.Fatalf("%s finished %d times: %+v", id, len(all), all)
	}
	return all[len(all)-1]
}

// proves checks that a fold of the journal gives the same, also in a new file.
func (b *book) proves() {
	b.t.Helper()
	if _, err := b.Verify(b.t.Context()); err != nil {
		b.t.Error(err)
	}
	if _, err := b.Rebuild(b.t.Context(), filepath.Join(b.t.TempDir(), "rebuilt.db")); err != nil {
		b.t.Error(err)
	}
}

func TestARenewalFinishesWithItsLastLine(t *testing.T) {
	b := newBook(t)
	expiry := noon.Add(48 * time.Hour)
	send := sending("r1/0001", 1)
	send.Observed = map[string]time.Time{"px_1": expiry}
	b.commit(opened(1000), accepted(fact.KindRenewal, "r1/0001", "px_1", "px_2"), send,
		settled("r1/0001", "partial", line("px_1", "succeeded", 300, 0), line("px_2", "unresolved", 300, 0)))
	if all := b.finishedOf("r1"); len(all) > 0 {
		t.Fatalf("a line waits for a person, and it is over: %+v", all)
	}
	b.commit(resolved("r1/0001", "px_2", "not_charged", 0))
	f := b.only("r1", 1)
	if f.State != "partial" || f.Attempts != 1 || f.Reviews != 0 || f.LinesTotal != 2 || f.Labels["ticket"] != "OPS-7" {
		t.Errorf("%+v", f)
	}
	if want := (fact.Booked{ChargedCents: 600, RefundedCents: 300, Currency: "USD"}); f.Totals != want {
		t.Errorf("totals are %+v instead of %+v", f.Totals, want)
	}
	first := f.Lines[0]
	if first.State != "succeeded" || !first.PreviousExpiresAt.Equal(expiry) || !first.ExpiresAt.Equal(expiry.AddDate(0, 0, 30)) || *first.ChargedCents != 300 {
		t.Errorf("%+v", first)
	}
	if last := f.Lines[1]; last.State != "not_charged" || last.ExpiresAt != nil {
		t.Errorf("%+v", last)
	}
	b.proves()
}

func TestAnOrderFinishesWithWhatItDelivered(t *testing.T) {
	b := newBook(t)
	cents, expires := int64(300), noon.AddDate(0, 0, 30)
	b.commit(opened(1000), accepted(fact.KindOrder, "o1/1"), sending("o1/1", 1), fact.OrderAccepted{Ref: ref("o1/1"), Attempt: 1, OrderNo: "no of o1/1", NextAt: noon})
	b.commit(fact.OrderProgressed{OrderState: orderState("o1/1", "procuring", 300, 0), NextAt: noon})
	b.commit(fact.OrderDelivered{OrderState: orderState("o1/1", "completed", 0, 0), ProxyIDs: []string{"px_1"}, Proxies: []fact.DeliveredProxy{
		{ProxyID: "px_1", OfferCode: "off_1", CountryCode: "US", ExpiresAt: &expires, ChargedCents: &cents},
	}})
	f := b.only("o1", 1)
	if f.State != "delivered" || f.Totals.ChargedCents != 300 || len(f.Operations) != 1 || f.Operations[0].OrderNo != "no of o1/1" {
		t.Errorf("%+v", f)
	}
	if len(f.Lines) != 1 || f.Lines[0].State != "delivered" || f.Lines[0].OfferCode != "off_1" || *f.Lines[0].ChargedCents != 300 || !f.Lines[0].ExpiresAt.Equal(expires) {
		t.Errorf("%+v", f.Lines)
	}
	// A renewal of it knows the offer.
	b.commit(accepted(fact.KindRenewal, "r1/0001", "px_1"), sending("r1/0001", 1), settled("r1/0001", "completed", line("px_1", "succeeded", 300, 0)))
	if f := b.only("r1", 1); f.State != "completed" || f.Lines[0].OfferCode != "off_1" {
		t.Errorf("%+v", f)
	}
	b.proves()
}

func TestACommandThatGoesOnFinishesAgain(t *testing.T) {
	b := newBook(t)
	b.commit(opened(1000), accepted(fact.KindRenewal, "r1/0001", "px_1"), sending("r1/0001", 1),
		fact.CommandRejected{Ref: ref("r1/0001"), Code: "insufficient_wallet_balance", Reason: "no money", Attempt: 1})
	if text, err := json.Marshal(b.only("r1", 1)); err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s %v", text, err)
	}
	if f := b.only("r1", 1); f.State != "rejected" || f.Code != "insufficient_wallet_balance" || f.Reason != "no money" || f.Lines[0].State != "not_charged" {
		t.Errorf("%+v", f)
	}
	b.commit(resolved("r1/0001", "", "not_charged", 0, planned("r1/0001~2", 2, "px_1")))
	b.only("r1", 1)
	b.commit(sending("r1/0001~2", 1), settled("r1/0001~2", "completed", line("px_1", "succeeded", 300, 0)))
	f := b.only("r1", 2)
	if f.State != "completed" || f.LinesTotal != 1 || f.Lines[0].State != "succeeded" || f.Attempts != 2 || f.Totals.ChargedCents != 300 {
		t.Errorf("%+v", f)
	}
	b.proves()
}

func TestASplitCommandFinishesOnce(t *testing.T) {
	b := newBook(t)
	b.commit(opened(1000), accepted(fact.KindRenewal, "r1/0001", "px_1", "px_2"), sending("r1/0001", 1))
	b.commit(fact.CommandRejected{Ref: ref("r1/0001"), Code: "proxy_not_found", Reason: "unknown", Attempt: 1, DurationDays: 30,
		SplitInto: []fact.Planned{planned("r1/0001a", 1, "px_1"), planned("r1/0001b", 1, "px_2")}})
	b.commit(sending("r1/0001a", 1), settled("r1/0001a", "completed", line("px_1", "succeeded", 300, 0)))
	if all := b.finishedOf("r1"); len(all) > 0 {
		t.Fatalf("half of it is in progress: %+v", all)
	}
	b.commit(sending("r1/0001b", 1), fact.CommandRejected{Ref: ref("r1/0001b"), Code: "proxy_not_found", Reason: "it is unknown", Attempt: 1})
	f := b.only("r1", 1)
	if f.State != "partial" || f.LinesTotal != 2 || f.Code != "proxy_not_found" {
		t.Errorf("%+v", f)
	}
	b.proves()
}

func TestARefundedOrderFinishesWithoutLines(t *testing.T) {
	b := newBook(t)
	b.commit(opened(1000), accepted(fact.KindOrder, "o1/1"), sending("o1/1", 1), fact.OrderAccepted{Ref: ref("o1/1"), Attempt: 1, OrderNo: "no of o1/1", NextAt: noon},
		fact.OrderRefunded{OrderState: orderState("o1/1", "refunded", 300, 300), RefundStatus: "completed", Destination: "wallet", RefundedAt: noon})
	f := b.only("o1", 1)
	if want := (fact.Booked{ChargedCents: 300, RefundedCents: 300, Currency: "USD"}); f.State != "refunded" || f.Totals != want || f.Lines == nil || len(f.Lines) > 0 {
		t.Errorf("%+v", f)
	}
	page, err := b.Operations.FinishedLines(t.Context(), "o1", 0, 10)
	if check(t, err); page.Lines == nil {
		t.Error("its lines are null")
	}
	b.proves()
}

func TestARefusedCommandFinishes(t *testing.T) {
	b := newBook(t)
	b.commit(opened(1000))
	refusal := fact.CommandRejected{Ref: fact.Ref{CommandID: "x1", Labels: map[string]string{"ticket": "OPS-7"}}, ContentHash: "h", Code: "invalid", Reason: "quantity is 0"}
	b.commit(refusal)
	f := b.only("x1", 1)
	if f.State != "rejected" || f.Code != "invalid" || f.Reason != "quantity is 0" || f.Labels["ticket"] != "OPS-7" || len(f.Lines) != 0 {
		t.Errorf("%+v", f)
	}
	b.proves()
}

func TestALargeCommandFinishesWithSomeOfItsLines(t *testing.T) {
	b := newBook(t)
	ids := make([]string, fact.MaxFinishedLines+50)
	items := make([]fact.Line, len(ids))
	for i := range ids {
		ids[i] = "px_" + itoa(int64(1000+i))
		items[i] = line(ids[i], "succeeded", 300, 0)
	}
	b.commit(opened(100_000), accepted(fact.KindRenewal, "r1/0001", ids...), sending("r1/0001", 1), settled("r1/0001", "completed", items...))
	f := b.only("r1", 1)
	if len(f.Lines) != fact.MaxFinishedLines || f.LinesTotal != len(ids) {
		t.Fatalf("%d lines of %d", len(f.Lines), f.LinesTotal)
	}
	var all []fact.FinishedLine
	for after := 0; after < f.LinesTotal; {
		page, err := b.Operations.FinishedLines(t.Context(), "r1", after, 100)
		check(t, err)
		all = append(all, page.Lines...)
		if after = len(all); page.LinesTotal != len(ids) {
			t.Fatalf("%d lines", page.LinesTotal)
		}
	}
	got := make([]string, 0, len(all))
	for _, x := range all {
		got = append(got, x.ProxyID)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("%d lines, the first %s", len(got), got[0])
	}
}

// The sums that events report as booked equal the account's balance.
func TestBookedSumsToTheBalance(t *testing.T) {
	b := newBook(t)
	b.add(append(history(), over()...)...)
	var sum fact.Booked
	rows, err := b.Rows(t.Context(), 0, 10_000)
	check(t, err)
	for _, r := range rows {
		var data struct {
			Booked *fact.Booked `json:"booked"`
		}
		check(t, json.Unmarshal([]byte(r.Data), &data))
		if data.Booked != nil {
			if data.Booked.Currency != "USD" {
				t.Errorf("row %d, %s: %+v", r.Seq, r.Type, data.Booked)
			}
			sum = sum.Plus(*data.Booked)
		}
	}
	if balance := b.balance(); sum.ChargedCents != balance.ChargedCents || sum.RefundedCents != balance.RefundedCents || sum.ChargedCents == 0 || sum.RefundedCents == 0 {
		t.Errorf("the events sum to %+v, and the balance is %+v", sum, balance)
	}
}

// Contents of one id that arrive together are each answered: the accepted one is not
// reported as refused.
func TestEachRefusalFinishesByItself(t *testing.T) {
	b := newBook(t)
	refused := func(reason, inbox string) fact.CommandRejected {
		return fact.CommandRejected{Ref: fact.Ref{CommandID: "x"}, ContentHash: reason, Code: "invalid", Reason: reason, ReplyTo: inbox}
	}
	good := accepted(fact.KindOrder, "x/1")
	good.ReplyTo = "_INBOX.good"
	b.commit(opened(1000), refused("quantity is 0", "_INBOX.a"), refused("quantity is 3000", "_INBOX.b"), good)
	all := b.finishedOf("x")
	if len(all) != 2 || all[0].ReplyTo != "_INBOX.a" || all[0].Reason != "quantity is 0" || all[1].ReplyTo != "_INBOX.b" || all[1].Revision != 2 {
		t.Fatalf("%+v", all)
	}
	b.commit(sending("x/1", 1), fact.CommandRejected{Ref: ref("x/1"), Code: "offer_not_found", Reason: "none", Attempt: 1})
	if f := b.only("x", 3); f.ReplyTo != "_INBOX.good" || f.Code != "offer_not_found" {
		t.Errorf("%+v", f)
	}
	b.proves()
}

// An operator's answer for a whole renewal is divided among its lines.
func TestLinesSumToTheTotalsOfAnAnswer(t *testing.T) {
	for _, cents := range []int64{0, 500, 903, 1000} {
		b := newBook(t)
		review := fact.OperationReview{Ref: ref("r1/0001"), Attempt: 1, Code: "ok", Reason: "pending", Ambiguous: true}
		settlement := lines(line("px_1", "unresolved", 301, 0), line("px_2", "unresolved", 301, 0), line("px_3", "unresolved", 301, 0))
		review.Settlement = &settlement
		b.commit(opened(5000), accepted(fact.KindRenewal, "r1/0001", "px_1", "px_2", "px_3"), sending("r1/0001", 1), review, resolved("r1/0001", "", "charged", cents))
		f := b.only("r1", 1)
		var sum fact.Booked
		for _, x := range f.Lines {
			sum.ChargedCents, sum.RefundedCents = sum.ChargedCents+*x.ChargedCents, sum.RefundedCents+x.RefundedCents
		}
		if sum.Currency = "USD"; sum != f.Totals || sum.ChargedCents-sum.RefundedCents != cents || f.Code != "" || f.Reviews != 1 {
			t.Errorf("%d: the lines sum to %+v of %+v", cents, sum, f)
		}
		b.proves()
	}
}

func TestWhatWasLeftOutIsALine(t *testing.T) {
	b := newBook(t)
	left := fact.ProxySkipped{Ref: fact.Ref{CommandID: "r2"}, ProxyID: "px_1", Reason: "operation r1/0001 holds it"}
	b.commit(opened(1000), accepted(fact.KindRenewal, "r1/0001", "px_1"), accepted(fact.KindRenewal, "r2/0001", "px_2"), left, sending("r2/0001", 1),
		settled("r2/0001", "completed", line("px_2", "succeeded", 300, 0)))
	f := b.only("r2", 1)
	if f.State != "completed" || f.Code != "left_out" || f.LinesTotal != 2 || f.Lines[0].State != "skipped" || *f.Lines[0].ChargedCents != 0 {
		t.Errorf("%+v", f)
	}
}

// The provider's texts about its proxies cannot keep an outcome from being recorded.
func TestACommandFinishesWhateverItsProxiesAreCalled(t *testing.T) {
	b := newBook(t)
	place := strings.Repeat("x", MaxFactBytes)
	check(t, b.Write(t.Context(), func(tx *Tx) error {
		return tx.Observe(0, tables.Proxy{ProxyID: "px_1", Region: place, SeenAt: noon})
	}))
	b.commit(opened(1000), accepted(fact.KindRenewal, "r1/0001", "px_1"), sending("r1/0001", 1), settled("r1/0001", "completed", line("px_1", "succeeded", 300, 0)))
	if f := b.only("r1", 1); f.State != "completed" || f.LinesTotal != 1 || len(f.Lines) > 0 || f.Totals.ChargedCents != 300 {
		t.Errorf("%d lines of %d, %s, %+v", len(f.Lines), f.LinesTotal, f.State, f.Totals)
	}
	b.proves()
}

// A proxy skipped just before the send is a line with the expiry that was read, next to the
// renewed ones.
func TestWhatIsNotDueIsALineWithItsExpiry(t *testing.T) {
	b := newBook(t)
	skipped := fact.Skipped(ref("r1/0001"), []fact.SkippedProxy{
		{ProxyID: "px_2", Code: fact.SkipNotDue, Reason: "not due", ExpiresAt: at(time.Hour)}, {ProxyID: "px_3", Code: fact.SkipNotFound, Reason: "unknown"},
	}, "others")
	b.commit(opened(1000), accepted(fact.KindRenewal, "r1/0001", "px_1", "px_2", "px_3"))
	b.commit(append(skipped, sending("r1/0001", 1), settled("r1/0001", "completed", line("px_1", "succeeded", 300, 0)))...)
	f := b.only("r1", 1)
	if f.State != "completed" || f.Code != "left_out" || !strings.Contains(f.Reason, "2 of 3") || f.LinesTotal != 3 {
		t.Errorf("%+v", f)
	}
	if x := f.Lines[1]; x.State != "skipped" || x.ExpiresAt == nil || !x.ExpiresAt.Equal(*at(time.Hour)) || x.PreviousExpiresAt == nil {
		t.Errorf("%+v", x)
	}
	if x := f.Lines[2]; x.State != "skipped" || x.ExpiresAt != nil {
		t.Errorf("%+v", x)
	}
	b.proves()
}

// An operator knows the cost of a renewal, but not the new expiry.
func TestAnAnswerSaysNoExpiry(t *testing.T) {
	b := newBook(t)
	sent := sending("r1/0001", 1)
	sent.Observed = map[string]time.Time{"px_1": *at(time.Hour)}
	b.commit(opened(1000), accepted(fact.KindRenewal, "r1/0001", "px_1"), sent,
		fact.OperationReview{Ref: ref("r1/0001"), Attempt: 1, Code: "operation_failed", Reason: "failed", Ambiguous: true}, resolved("r1/0001", "", "charged", 300))
	f := b.only("r1", 1)
	if x := f.Lines[0]; f.Code != "" || x.State != "charged" || x.ExpiresAt != nil || x.PreviousExpiresAt == nil {
		t.Errorf("%+v %+v", f, x)
	}
	b.proves()
}

// The proxies of an order that an operator found belong to the command.
func TestAnOrderThatWasFoundHasItsProxies(t *testing.T) {
	b := newBook(t)
	answer := resolved("o1/1", "", "charged", 600)
	answer.OrderNo, answer.Labels = "ord_7", map[string]string{"ticket": "7"}
	answer.ProxyIDs = []string{"px_1", "px_2"}
	answer.Proxies = []fact.DeliveredProxy{{ProxyID: "px_1", OfferCode: "off", ExpiresAt: at(time.Hour)}, {ProxyID: "px_2", OfferCode: "off", ExpiresAt: at(time.Hour)}}
	b.commit(opened(1000), accepted(fact.KindOrder, "o1/1"), sending("o1/1", 1),
		fact.OperationReview{Ref: ref("o1/1"), Attempt: 1, Code: "idempotency_unresolved", Reason: "frozen", Ambiguous: true}, answer)
	f := b.only("o1", 1)
	if f.State != "resolved" || f.Code != "" || f.LinesTotal != 2 || f.Lines[0].State != "delivered" || f.Lines[1].ProxyID != "px_2" || f.Lines[1].ExpiresAt == nil {
		t.Errorf("%+v", f)
	}
	b.proves()
}

// The API does not say that a wallet holds at least nothing.
func TestAnOverdrawnAccountOpensItsLedger(t *testing.T) {
	b := newBook(t)
	b.add(opened(-500), accepted(fact.KindRenewal, "r1/0001", "px_1"), sending("r1/0001", 1), settled("r1/0001", "completed", line("px_1", "succeeded", 300, 0)))
	balance, err := b.Money.Balance(t.Context(), "main")
	if check(t, err); balance.WalletCents != -800 || balance.FundingCents != -500 || balance.ChargedCents != 300 {
		t.Errorf("%+v", balance)
	}
	_, err = b.Verify(t.Context())
	check(t, err)
}
