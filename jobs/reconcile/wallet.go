// This file compares the provider's wallet with the range that the ledger balance allows.

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"perennial/jobs/decide"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// WalletCheck is the provider's wallet and the range that the books allow. low_cents is
// null if the cost of an open operation has no upper bound. The wallet's frozen_cents is
// not used, because the API document does not say whether it is part of the balance.
type WalletCheck struct {
	ProviderCents int64    `json:"provider_cents" doc:"The balance of the provider's wallet."`
	BookCents     int64    `json:"book_cents" doc:"The balance of the wallet by the books."`
	LowCents      *int64   `json:"low_cents" doc:"The least that the wallet may hold, given the operations in progress; null if unknown."`
	HighCents     *int64   `json:"high_cents" doc:"The most that the wallet may hold, given the operations in progress."`
	UnderWay      []string `json:"under_way,omitempty" doc:"'under_way' lists the operations in progress that widen the range."`
	Unknown       []string `json:"unknown,omitempty" doc:"'unknown' lists operations in progress whose cost is unknown and has no limit."`
	Late          bool     `json:"late,omitempty" doc:"'late' says that the provider shows what the books held within the last ten minutes, so nothing can be concluded yet."`
}

// WalletReading is a read of the wallet between two reads of the books.
type WalletReading struct {
	ProviderCents int64
	Balance       string // the same amount as a decimal string
	Currency      string
	Before, After tables.Position
	Moved         bool    // something was sent or booked between the two reads of the books
	Earlier       []int64 // balance before each booking that the provider may not show yet
}

// ReadWallet reads the wallet between two reads of the books.
func (c *Reconciler) ReadWallet(ctx context.Context) (w WalletReading, err error) {
	if err := c.Pass(ctx); err != nil {
		return w, err
	}
	if w.Before, err = c.Ledger.Money.Position(ctx, c.Account); err != nil {
		return w, err
	}
	wallet, err := c.Statements.Wallet(ctx)
	c.Heard(ctx, wallet.ServerTime, err)
	if err != nil {
		return w, err
	}
	w.ProviderCents, w.Balance, w.Currency = wallet.BalanceCents, wallet.Balance, wallet.Currency
	if w.After, err = c.Ledger.Money.Position(ctx, c.Account); err != nil {
		return w, err
	}
	if w.Moved, err = c.Ledger.Money.MoneyMoved(ctx, w.Before.Head.Seq, w.After.Head.Seq); err != nil {
		return w, err
	}
	w.Earlier, err = c.Ledger.Money.WalletsSince(ctx, c.Clock().Add(-MovesWithin))
	return w, err
}

// exact reports whether nothing was in progress during the whole reading.
func (w WalletReading) exact() bool {
	return !w.Moved && len(w.Before.Open) == 0 && len(w.After.Open) == 0
}

// Check returns the range of balances that the books allow. Each unbooked charge or refund
// that may have moved the wallet widens the range. Bookings between the two reads of the
// books also widen it, because they may have happened before or after the wallet was read.
func (w WalletReading) Check() WalletCheck {
	x := WalletCheck{ProviderCents: w.ProviderCents, BookCents: w.After.WalletCents}
	low, high := w.Before.WalletCents, w.Before.WalletCents
	looks := [][]tables.Exposure{w.Before.Open}
	if w.Moved {
		looks = append(looks, w.After.Open)
		a, b := w.Before.Balance, w.After.Balance
		low -= b.ChargedCents - a.ChargedCents + b.ExternalCents - a.ExternalCents
		high += b.RefundedCents - a.RefundedCents + b.FundingCents - a.FundingCents
	}
	unbounded := false
	seen := map[string]bool{}
	for _, open := range looks {
		for _, e := range open {
			low, high, unbounded = low-e.Charge.Or(0), high+e.ReturnCents, unbounded || !e.Charge.Known()
			if !seen[e.OperationID] {
				seen[e.OperationID] = true
				x.UnderWay = append(x.UnderWay, e.OperationID)
			}
		}
	}
	x.HighCents = &high
	if x.Unknown = unknownPrices(w); !unbounded {
		x.LowCents = &low
	}
	return x
}

// wallet compares the wallet with its range. If the balance is outside the range, it adds a
// finding with possible explanations, unless a booking may not be visible at the provider yet.
func (p *Pass) wallet(w WalletReading) {
	p.Wallet, p.Quiet = w.Check(), w.exact()
	x := p.Wallet
	if w.Currency != p.Binding.Currency {
		p.find(Finding{Kind: decide.FindingWallet, Explanation: fmt.Sprintf("the wallet is in %q and the ledger in %q", fact.Bounded(w.Currency), p.Binding.Currency)})
		return
	}
	if !upstream.AmountAgrees(w.Balance, w.ProviderCents) {
		p.find(Finding{Kind: decide.FindingDecimal, Explanation: fmt.Sprintf("the wallet's balance is %q and its balance_cents %d: balance_cents is compared", fact.Bounded(w.Balance), w.ProviderCents)})
	}
	var d int64
	var text string
	switch {
	case x.LowCents != nil && w.ProviderCents < *x.LowCents:
		d = w.ProviderCents - *x.LowCents
		text = fmt.Sprintf("the wallet holds %s, %s less than the books allow; money spent at the provider's own site is recorded with `perennial ledger record --kind external`, when the next listing of the proxies has shown what was renewed there", p.Binding.Amount(w.ProviderCents), p.Binding.Amount(-d))
	case w.ProviderCents > *x.HighCents:
		d = w.ProviderCents - *x.HighCents
		text = fmt.Sprintf("the wallet holds %s, %s more than the books allow; a top-up is recorded with `perennial ledger record --kind top-up`", p.Binding.Amount(w.ProviderCents), p.Binding.Amount(d))
	}
	if x.LowCents == nil {
		p.notef("the wallet has no lower bound: %s may have cost an amount that is not known", strings.Join(FirstFew(x.Unknown), ", "))
		if d == 0 {
			p.carryMissing()
		}
	}
	if p.Wallet.Late = slices.ContainsFunc(w.Earlier, x.showed); d != 0 && p.Wallet.Late {
		p.notef("the wallet holds %s, which is what the books held before something that was booked in the last %d minutes: the provider may show it late", p.Binding.Amount(w.ProviderCents), int(MovesWithin.Minutes()))
		p.carryMissing()
		return
	}
	if p.Wallet.Late = false; d == 0 {
		if x.LowCents != nil {
			p.Reconciler.missing = nil
		}
		return
	}
	f := Finding{Kind: decide.FindingWallet, AmountCents: d, Explanation: text + p.CouldExplain(d)}
	if p.Reconciler.missing = nil; d < 0 {
		p.Reconciler.missing = &f
	}
	p.find(f)
}

// carryMissing repeats the shortfall of the last pass that could compare the wallet,
// because nothing has explained it since.
func (p *Pass) carryMissing() {
	if p.Reconciler.missing != nil {
		f := *p.Reconciler.missing
		f.Carried = true
		p.find(f)
	}
}

// showed reports whether the provider's wallet fits the range around an earlier balance of
// the books.
func (x WalletCheck) showed(earlier int64) bool {
	by := earlier - x.BookCents
	return x.ProviderCents <= *x.HighCents+by && (x.LowCents == nil || x.ProviderCents >= *x.LowCents+by)
}

func unknownPrices(w WalletReading) (ids []string) {
	for _, e := range append(append([]tables.Exposure{}, w.Before.Open...), w.After.Open...) {
		if !e.Charge.Known() && !slices.Contains(ids, e.OperationID) {
			ids = append(ids, e.OperationID)
		}
	}
	return ids
}
