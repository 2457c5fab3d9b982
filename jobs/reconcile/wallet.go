package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/report"
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
	Answers       []Answer `json:"answers,omitempty" doc:"If the wallet differs: the answers to reviews since it last agreed, one of which may be wrong."`
}

// Answer is an operator's answer to a review.
type Answer struct {
	OperationID string `json:"operation_id" doc:"The operation in review."`
	ProxyID     string `json:"proxy_id,omitempty" doc:"The proxy, if the answer is about one of several."`
	Text        string `json:"text" doc:"The answer, for people; the text may change."`
}

// AnswersText joins answers, and leaves out all but the first few.
func AnswersText(all []Answer) string {
	texts := make([]string, len(all))
	for i, x := range all {
		texts[i] = strings.TrimSpace(x.OperationID+" "+x.ProxyID) + " (" + x.Text + ")"
	}
	return strings.Join(FirstFew(texts), ", ")
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

// Compares the wallet with its range. If the balance is outside the range, it adds a finding with
// possible explanations, unless the provider may not show a booking yet.
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

// Reports whether the provider's wallet fits the range that the books would allow at an earlier
// balance.
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

const (
	// boundMargin is the bound as a percentage of the expected cost. It exceeds 100, because
	// prices rise and the known price may be old.
	boundMargin = 150
	// offerPages limits the pages of offers that are read for a list price. pricesKept is
	// how long list prices are cached.
	offerPages = 5
	pricesKept = time.Hour
)

// listPrices maps offers to the price of one proxy for a given number of days.
type listPrices struct {
	at      time.Time
	of      map[string]int64
	dearest int64
}

// Replaces each unknown charge in w with an upper bound, if one can be found. The bound is
// derived from the highest recent price, the list price or the command's limit. Without a bound,
// missing money would not be noticed.
func (p *Pass) bound(ctx context.Context, w *WalletReading) error {
	most := map[string]fact.Cents{}
	for _, open := range [][]tables.Exposure{w.Before.Open, w.After.Open} {
		for i := range open {
			e := &open[i]
			if e.Charge.Known() {
				continue
			}
			if _, asked := most[e.OperationID]; !asked {
				cents, err := p.mostOf(ctx, *e)
				if err != nil {
					return err
				}
				most[e.OperationID] = fact.Estimated(cents)
			}
			e.Charge = most[e.OperationID]
		}
	}
	return nil
}

// mostOf returns an upper bound on the cost of an operation in cents. It returns 0 if no bound
// can be found.
func (p *Pass) mostOf(ctx context.Context, e tables.Exposure) (int64, error) {
	accepted, err := p.Ledger.Operations.Acceptance(ctx, e.CommandID)
	if errors.Is(err, ledger.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	c, err := command.ReadContent(accepted.Content)
	if err != nil {
		return 0, err
	}
	cents, err := p.expected(ctx, e, c)
	if err != nil {
		return 0, err
	}
	if cents == 0 {
		cents = c.MaxTotalCents
	}
	return min(cents, decide.MaxLineCents) * boundMargin / 100, nil
}

// Returns the cost of an operation, calculated with the highest known price of each item or
// proxy. It returns 0 if no price is known.
func (p *Pass) expected(ctx context.Context, e tables.Exposure, c command.Command) (cents int64, err error) {
	if e.Kind.OfProxies() {
		paid, err := p.Ledger.Money.Dearest(ctx, c.DurationDays)
		if err == nil && paid == 0 {
			paid = p.offered(ctx, c.DurationDays).dearest
		}
		return paid * e.Unpriced, err
	}
	list := p.offered(ctx, c.DurationDays)
	for _, item := range c.Items {
		unit, known := list.of[item.OfferCode]
		if !known {
			unit = list.dearest
		}
		cents += unit * item.Quantity
	}
	return cents, nil
}

// Returns the list prices for a number of days. If a read fails, it adds a note and returns the
// prices read so far.
func (p *Pass) offered(ctx context.Context, days int64) listPrices {
	if kept, ok := p.prices[days]; ok && p.Clock().Sub(kept.at) < pricesKept {
		return kept
	}
	list := listPrices{at: p.Clock(), of: map[string]int64{}}
	pages := upstream.Pages[upstream.Offer]{PageRequest: upstream.PageRequest{Size: ListingPage}}
	for range offerPages {
		got, err := Fetch(ctx, p.Reconciler, func(ctx context.Context) (upstream.Page[upstream.Offer], error) {
			return p.Statements.OffersPage(ctx, upstream.OfferFilter{DurationDays: days}, pages.PageRequest)
		})
		if err != nil {
			p.notef("the list prices could not be read: %v", err)
			return list
		}
		for _, o := range got.Items {
			if cents, err := decide.QuotedCents(o, 1, days); err == nil {
				list.of[o.OfferCode], list.dearest = cents, max(list.dearest, cents)
			}
		}
		if more, _ := pages.Follow(got); !more {
			break
		}
	}
	p.prices[days] = list
	return list
}

// effect is how a finding would make the wallet differ from the books.
type effect struct {
	cents int64 // positive if the wallet has more than the books; 0 if the amount is unknown
	up    bool  // the wallet may have more
	down  bool  // the wallet may have less
}

func by(cents int64) effect { return effect{cents, cents > 0, cents < 0} }

// Effects of findings without an amount.
var (
	less   = effect{down: true}
	more   = effect{up: true}
	either = effect{up: true, down: true}
)

// onWallet returns a finding's effect on the wallet. The effect is empty if the finding is
// not about charges.
func (f Finding) onWallet() effect {
	switch f.Kind {
	case decide.FindingOutside, decide.FindingTotal, decide.FindingCharge, decide.FindingMissing, decide.FindingSums: // a positive amount is charged but not booked
		return by(-f.AmountCents)
	case decide.FindingRefund, decide.FindingNotMoved: // a positive amount was refunded but not booked, or booked but not charged
		return by(f.AmountCents)
	case decide.FindingRenewed: // AmountCents is minus the price, or 0 if the price is unknown
		if f.AmountCents == 0 {
			return less
		}
		return by(f.AmountCents)
	case decide.FindingOrderCurrency: // charged in another currency and not booked
		return less
	case decide.FindingRefundCurrency:
		return more
	case decide.FindingRefundAmount: // AmountCents is the total refund, not the difference
		return either
	}
	return effect{}
}

// Amount returns AmountCents as text, or "unknown" if the finding affects the wallet by an
// unknown amount.
func (f Finding) Amount(currency string) string {
	if e := f.onWallet(); f.AmountCents == 0 && (e.up || e.down) {
		return "unknown"
	}
	return fact.Amount(f.AmountCents, currency)
}

// CouldExplain returns text about the findings of this pass that could explain the wallet's
// difference or a part of it, and about operations in progress. A finding qualifies if it has the
// direction of the difference and is not too large. The limit is the distance to the far end of
// the wallet's range. A finding of unknown amount is never too large.
func (p *Pass) CouldExplain(difference int64) string {
	var found []string
	for _, f := range p.Findings {
		e := f.onWallet()
		if difference < 0 && (!e.down || e.cents < p.Wallet.ProviderCents-*p.Wallet.HighCents) ||
			difference > 0 && (!e.up || p.Wallet.LowCents != nil && e.cents > p.Wallet.ProviderCents-*p.Wallet.LowCents) {
			continue
		}
		amount := "amount not known"
		if e.cents != 0 {
			amount = p.Binding.Amount(e.cents)
		}
		found = append(found, fmt.Sprintf("%s (%s, %s)", f.About(), f.Kind, amount))
	}
	text := ""
	if len(found) > 0 {
		text = "; it could be explained by " + strings.Join(FirstFew(found), ", ")
	}
	if under := p.Wallet.UnderWay; len(under) > 0 {
		text += "; in progress: " + strings.Join(FirstFew(under), ", ")
	}
	return text
}

// suspectAnswers adds the answers to reviews to a finding about the wallet, or to a wallet that may be
// shown late, if they were given since the wallet last agreed. A wrong answer is a more likely cause
// than an unexplained movement.
func (p *Pass) suspectAnswers(ctx context.Context) error {
	i := slices.IndexFunc(p.Findings, func(f Finding) bool { return f.Kind == decide.FindingWallet && f.AmountCents != 0 })
	if i < 0 && !p.Wallet.Late {
		return nil
	}
	decisions, _, err := p.Ledger.Report().DecisionsBefore(ctx, 0, decisionsRead)
	corrected := map[int64]bool{}
	for _, d := range decisions { // the latest first
		corrected[d.CorrectsSeq] = true
		if d.Fact != (fact.OperationResolved{}).FactType() {
			continue
		}
		_, agreed, err := p.Ledger.Money.ReconciledAround(ctx, d.Seq)
		if err != nil {
			return err
		}
		if agreed != nil {
			break
		}
		if reviewed, err := p.reviewed(ctx, d); err != nil {
			return err
		} else if !reviewed {
			continue
		}
		answer := d.Outcome
		if d.Cents != nil {
			answer += " " + p.Binding.Amount(*d.Cents)
		}
		answer += ", by " + fact.Signed(d.By, d.User)
		if corrected[d.Seq] {
			answer += "; corrected since"
		}
		p.Wallet.Answers = append(p.Wallet.Answers, Answer{d.OperationID, d.ProxyID, answer})
	}
	if i >= 0 && len(p.Wallet.Answers) > 0 {
		p.Findings[i].Explanation = "reviews were answered since the wallet last agreed, and `perennial reviews correct ID` corrects a wrong answer: " + AnswersText(p.Wallet.Answers) + "; " + p.Findings[i].Explanation
	}
	return err
}

const refundsRead = 20

// suspectRefunds adds the refunds of orders since the last agreement to a finding that the wallet holds
// too little. The API does not list the statuses of a refund, so one may be shown that has not come.
func (p *Pass) suspectRefunds(ctx context.Context) error {
	i := slices.IndexFunc(p.Findings, func(f Finding) bool { return f.Kind == decide.FindingWallet && f.AmountCents < 0 && !f.Carried })
	if i < 0 {
		return nil
	}
	head, _, err := p.Ledger.Head(ctx)
	if err != nil {
		return err
	}
	agreed, _, err := p.Ledger.Money.ReconciledAround(ctx, head+1)
	if err != nil || agreed == nil {
		return err
	}
	refunds, err := p.Ledger.Money.OrderRefundsAfter(ctx, agreed.Seq, refundsRead)
	if err != nil || len(refunds) == 0 {
		return err
	}
	texts := make([]string, len(refunds))
	for k, x := range refunds {
		texts[k] = p.Binding.Amount(x.Cents) + " of order " + fact.Bounded(x.OrderNo)
	}
	p.Findings[i].Explanation += "; refunds were booked since the wallet last agreed, and one of them may not have come (`perennial orders get` shows them): " + strings.Join(FirstFew(texts), ", ")
	return nil
}

// reviewed reports whether the operation was in review before a decision. Otherwise the decision only
// sent a refused operation again.
func (p *Pass) reviewed(ctx context.Context, d report.Decision) (bool, error) {
	rows, err := p.Ledger.RowsOf(ctx, d.OperationID)
	if _, archived := errors.AsType[*ledger.ArchivedError](err); archived {
		return true, nil
	}
	return slices.ContainsFunc(rows, func(r chain.Row) bool { return r.Seq < d.Seq && r.Type == (fact.OperationReview{}).FactType() }), err
}

// decisionsRead limits how many of the latest operator decisions are searched for answers.
const decisionsRead = 200

// About returns the order, operation or proxy that the finding is about.
func (f Finding) About() string {
	switch {
	case f.OrderNo != "":
		return "order " + f.OrderNo
	case f.OperationID != "":
		return "operation " + f.OperationID
	}
	return "proxy " + f.ProxyID
}
