// Which findings could explain a difference of the wallet.

package reconcile

import (
	"fmt"
	"strings"

	"perennial/jobs/decide"
)

// effect is how a finding would have moved the wallet away from the books.
type effect struct {
	cents int64 // positive: the wallet holds more; 0 where the amount is not known
	up    bool  // it may hold more
	down  bool  // it may hold less
}

func by(cents int64) effect { return effect{cents, cents > 0, cents < 0} }

// ofUnknown are effects whose amount the finding does not hold.
var (
	less   = effect{down: true}
	more   = effect{up: true}
	either = effect{up: true, down: true}
)

// onWallet is a finding's effect on the wallet; none where it does not concern what the
// provider charged.
func (f Finding) onWallet() effect {
	switch f.Kind {
	case decide.FindingOutside, decide.FindingTotal, decide.FindingCharge, decide.FindingMissing, decide.FindingSums: // what the provider charged beyond the books
		return by(-f.AmountCents)
	case decide.FindingRefund, decide.FindingNotMoved: // what came back, or was not charged
		return by(f.AmountCents)
	case decide.FindingRenewed: // its price, where it is known, is taken off
		if f.AmountCents == 0 {
			return less
		}
		return by(f.AmountCents)
	case decide.FindingOrderCurrency: // charged in another currency, and not booked
		return less
	case decide.FindingRefundCurrency:
		return more
	case decide.FindingRefundAmount: // what came back in all, and not by how much the books differ
		return either
	}
	return effect{}
}

// CouldExplain names what else this pass knows that could have moved the wallet by
// the difference, or by a part of it: in its direction, and, where the amount is
// known, by no more than the wallet is away from the far end of its interval.
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
		text += "; under way: " + strings.Join(FirstFew(under), ", ")
	}
	return text
}

// About is what a finding is of.
func (f Finding) About() string {
	switch {
	case f.OrderNo != "":
		return "order " + f.OrderNo
	case f.OperationID != "":
		return "operation " + f.OperationID
	}
	return "proxy " + f.ProxyID
}
