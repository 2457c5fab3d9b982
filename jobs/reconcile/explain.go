// Which findings could explain a difference of the wallet.

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"perennial/jobs/decide"
	"perennial/ledger/fact"
)

// effect is how a finding would move the wallet away from the books.
type effect struct {
	cents int64 // positive: the wallet holds more; 0: unknown amount
	up    bool  // it may hold more
	down  bool  // it may hold less
}

func by(cents int64) effect { return effect{cents, cents > 0, cents < 0} }

// Effects of findings without an amount.
var (
	less   = effect{down: true}
	more   = effect{up: true}
	either = effect{up: true, down: true}
)

// onWallet returns a finding's effect on the wallet, none if it is not about charges.
func (f Finding) onWallet() effect {
	switch f.Kind {
	case decide.FindingOutside, decide.FindingTotal, decide.FindingCharge, decide.FindingMissing, decide.FindingSums: // the provider charged more than the books hold
		return by(-f.AmountCents)
	case decide.FindingRefund, decide.FindingNotMoved: // refunded, or not charged
		return by(f.AmountCents)
	case decide.FindingRenewed: // its price, if known, is subtracted
		if f.AmountCents == 0 {
			return less
		}
		return by(f.AmountCents)
	case decide.FindingOrderCurrency: // charged in another currency and not booked
		return less
	case decide.FindingRefundCurrency:
		return more
	case decide.FindingRefundAmount: // the total refund, not the difference to the books
		return either
	}
	return effect{}
}

// Amount returns AmountCents as text, "unknown" if it moved the wallet by an amount that is
// not known.
func (f Finding) Amount(currency string) string {
	if e := f.onWallet(); f.AmountCents == 0 && (e.up || e.down) {
		return "unknown"
	}
	return fact.Amount(f.AmountCents, currency)
}

// CouldExplain names other findings of this pass that could have moved the wallet by the
// difference, or by a part of it. They match in direction and, if the amount is known,
// do not exceed the distance to the far end of the wallet's range.
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

// suspectAnswers adds the answers to reviews since the wallet last agreed to a finding
// of the wallet. A wrong answer is likelier than an unexplained movement.
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

// decisionsRead bounds how many of the latest operator decisions are searched for
// answers.
const decisionsRead = 200

// About returns what a finding is about.
func (f Finding) About() string {
	switch {
	case f.OrderNo != "":
		return "order " + f.OrderNo
	case f.OperationID != "":
		return "operation " + f.OperationID
	}
	return "proxy " + f.ProxyID
}
