package cli

import (
	"testing"
	"time"

	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// A charge of an unknown amount still books something.
func TestAnAnswerOfAnUnknownAmountDoesNotBookNothing(t *testing.T) {
	for say, want := range map[string]string{"--charged AMOUNT --confirm-amount AMOUNT": "books the amount that was charged", "--charged AMOUNT --confirm-amount AMOUNT --order ord_1": "books the amount that was charged", "--not-charged": "books nothing"} {
		if got := answerText(inspect.Answer{Say: say}, "USD"); got != want {
			t.Errorf("%s %s, want %s", say, got, want)
		}
	}
}

// An unknown wallet is not shown as an amount.
func TestTheNewestWalletHasItsAge(t *testing.T) {
	now := time.Date(2026, 11, 27, 2, 0, 0, 0, time.UTC)
	e := inspect.Evidence{WalletNow: &inspect.WalletRead{ProviderCents: 496880, LedgerCents: 497480, At: now.Add(-3 * time.Second)}}
	e.Currency = "USD"
	if text := walletsText(e, now); text != "now 4,968.80 USD at the provider and 4,974.80 USD in the ledger: 6.00 USD less at the provider, read 3 seconds ago" {
		t.Errorf("%q", text)
	}
	if text := walletsText(inspect.Evidence{}, now); text != "not known" {
		t.Errorf("%q", text)
	}
}

// A resolved order was charged, but its number of proxies is unknown.
func TestACountThatIsNotKnownIsNotZero(t *testing.T) {
	for want, x := range map[string]tables.BookTotal{
		"not known": {SubjectTotal: tables.SubjectTotal{ChargedCents: 360}},
		"2":         {SubjectTotal: tables.SubjectTotal{ChargedCents: 360, Count: 2}},
		"0":         {SubjectTotal: tables.SubjectTotal{}},
	} {
		if got := countText("order", x); got != want {
			t.Errorf("%+v: %q, want %q", x, got, want)
		}
	}
}

// An accepted order will be charged when it ends. An attempt whose reply was read has a known
// outcome.
func TestWhatIsNotBookedYetIsNotZero(t *testing.T) {
	for want, o := range map[string]inspect.OperationStatus{
		"when it ends": {State: fact.StateOpen},
		"unknown":      {State: fact.StateReview, Lines: []tables.RenewalLine{{State: fact.LinePending}}},
		"0.00 USD":     {State: fact.StateAccepted, Lines: []tables.RenewalLine{{State: fact.LinePending}}},
		"3.60 USD":     {State: fact.StateReview, ChargedCents: 360, Lines: []tables.RenewalLine{{State: fact.LineCharged, ChargedCents: 360}}},
	} {
		if o.Currency = "USD"; o.ChargedText() != want || o.NetOrCharged() != want {
			t.Errorf("%s: charged %q, net %q, want %q", o.State, o.ChargedText(), o.NetOrCharged(), want)
		}
		for _, l := range o.Lines {
			if text := o.LineText(l); text != want {
				t.Errorf("%s, line %s: %q, want %q", o.State, l.State, text, want)
			}
		}
	}
	if text := (inspect.OperationStatus{State: fact.StateWaiting, Ambiguous: 1}).ChargedText(); text != "unknown" {
		t.Errorf("an attempt without a reply has charged %q", text)
	}
	if text := unknownOutcomes(1, 0) + unknownOutcomes(1, 1) + unknownOutcomes(0, 1); text != ", of which 1 had an unknown outcome; another one may have been made before the ledger was restored" {
		t.Errorf("%q", text)
	}
}
