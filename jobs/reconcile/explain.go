// This file decides which findings could explain a difference between wallet and books.

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"perennial/jobs/decide"
	"perennial/ledger/fact"
)

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
// difference or a part of it, and about operations in progress. A finding qualifies if it
// has the difference's direction and its amount, if known, does not exceed the distance to
// the far end of the wallet's range.
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

// suspectAnswers adds the answers to reviews since the wallet last agreed to a finding about
// the wallet. A wrong answer is a more likely cause than an unexplained movement.
func (p *Pass) suspectAnswers(ctx context.Context) error {
	i := slices.IndexFunc(p.Findings, func(f Finding) bool { return f.Kind == decide.FindingWallet && f.AmountCents != 0 })
	if i < 0 {
		return nil
	}
	decisions, _, err := p.Ledger.Report().DecisionsBefore(ctx, 0, decisionsRead)
	var answers []string
	for _, d := range decisions {
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
		answer := d.Outcome
		if d.Cents != nil {
			answer += " " + p.Binding.Amount(*d.Cents)
		}
		answers = append(answers, fmt.Sprintf("%s (%s, by %s)", d.About, answer, fact.Signed(d.By, d.User)))
	}
	if len(answers) > 0 {
		p.Findings[i].Explanation += "; answered since the wallet last agreed: " + strings.Join(FirstFew(answers), ", ") + ": `perennial reviews correct ID` corrects a wrong answer"
	}
	return err
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
