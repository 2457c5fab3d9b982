// This file derives a verdict from the evidence for a review.

package inspect

import (
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/ledger/fact"
)

// Outcomes of a verdict. The verdict does not answer the review; an operator does.
const (
	VerdictCharged = "charged" // signs of a charge for everything that is open
	VerdictPartly  = "partly"  // signs of a charge for a part
	VerdictNone    = "none"    // no sign of a charge, which does not prove that there was none
	VerdictUnknown = "unknown" // the evidence does not decide
)

// Verdict says what the evidence shows about the unresolved part of an operation.
type Verdict struct {
	Outcome       string     `json:"outcome" doc:"charged or partly: the provider shows signs of a charge; none: it shows no sign, which proves nothing; unknown: the evidence does not decide."`
	Text          string     `json:"text" doc:"The verdict in a sentence, for people."`
	ExpectedCents fact.Cents `json:"expected_cents" doc:"The expected cost of the unresolved part; null if unknown."`
	OrderNo       string     `json:"order_no,omitempty" doc:"The only order that the operation can have made."`
}

// judge returns the verdict on the unresolved part. expected is its expected cost, 0 if
// unknown. charged is the amount that the provider reported as charged for unresolved
// lines.
func (e *Evidence) judge(o fact.Operation, expected, charged int64) *Verdict {
	v := &Verdict{Outcome: VerdictUnknown, ExpectedCents: fact.Estimated(expected)}
	switch {
	case !e.asked:
		v.Text = "Undecided: no runner answers, so the provider was not asked"
	case o.Kind.MakesOrder():
		v.judgeOrder(e, o)
	default:
		v.judgeExpiries(e.openExpiries(), e.Currency, charged)
	}
	switch {
	case v.Outcome == VerdictNone:
		v.Text += ". That does not prove that nothing was charged: ask the provider before you say so."
	case v.Outcome == VerdictUnknown:
		v.Text += "."
	case expected == 0:
		v.Text += "; what it cost is not known."
	default:
		v.Text += "; expected " + fact.Amount(expected, e.Currency) + "."
	}
	v.Text += e.walletText()
	return v
}

// ChargedByWallet returns the operation's cost according to the provider's wallet. It
// returns 0 if there is no sign of a charge or the wallet does not show the cost.
func (e *Evidence) ChargedByWallet() int64 {
	if e.WalletGap == nil || e.Verdict == nil || e.Verdict.Outcome != VerdictCharged {
		return 0
	}
	return max(*e.WalletGap, 0)
}

// walletText describes what the wallet shows, or returns "" if it shows nothing about this
// operation.
func (e *Evidence) walletText() string {
	switch {
	case e.WalletGap == nil:
		return ""
	case *e.WalletGap == 0:
		return " The provider's wallet agrees with the ledger without it."
	case *e.WalletGap < 0:
		return fmt.Sprintf(" The provider's wallet holds %s more than the ledger.", fact.Amount(-*e.WalletGap, e.Currency))
	}
	return fmt.Sprintf(" The provider's wallet holds %s less than the ledger, and nothing else is open.", fact.Amount(*e.WalletGap, e.Currency))
}

func (v *Verdict) judgeOrder(e *Evidence, o fact.Operation) {
	switch n := len(e.Orders); {
	case o.OrderNo != "":
		v.Text = fmt.Sprintf("Undecided: the provider took it as order %s, and what became of that order is not known", o.OrderNo)
	case n == 1:
		v.Outcome, v.OrderNo = VerdictCharged, e.Orders[0].OrderNo
		v.Text = fmt.Sprintf("Likely charged: order %s was made at %s, and no other operation explains it", v.OrderNo, e.Orders[0].CreatedAt.UTC().Format("2006-01-02 15:04 UTC"))
	case n > 1:
		v.Text = fmt.Sprintf("Undecided: %d orders at the provider can be its own. Find the right one, and name it in the answer", n)
	case !e.OrdersRead:
		v.Text = "Undecided: the provider's orders could not all be read"
	default:
		v.Outcome, v.Text = VerdictNone, "No sign of a charge: the provider lists no order that this operation can have made"
	}
}

func (v *Verdict) judgeExpiries(open []ExpiryEvidence, currency string, charged int64) {
	var moved, unread int
	var days []int
	for _, x := range open {
		switch {
		case x.Moved == nil:
			unread++
		case *x.Moved:
			moved++
			days = append(days, int((x.Now.Sub(*x.Before)+12*time.Hour)/(24*time.Hour)))
		}
	}
	slices.Sort(days)
	by := ""
	if days = slices.Compact(days); len(days) == 1 {
		by = " by " + english.Plural(days[0], "day", "")
	}
	all, none := fmt.Sprintf("all %d expiries", len(open)), "no expiry has moved"
	switch len(open) {
	case 1:
		all, none = "its expiry", "its expiry has not moved"
	case 2:
		all = "both expiries"
	}
	switch n := len(open); {
	case unread > 0:
		v.Text = fmt.Sprintf("Undecided: the expiries before and now are not both known for %d of %s", unread, english.Plural(n, "proxy", "proxies"))
	case moved == n:
		v.Outcome, v.Text = VerdictCharged, "Likely charged: "+all+" moved"+by
	case moved > 0:
		v.Outcome, v.Text = VerdictPartly, fmt.Sprintf("Likely charged in part: %d of %d expiries moved%s. Answer for each proxy separately", moved, n, by)
	case charged > 0:
		v.Text = fmt.Sprintf("Undecided: the provider said that it charged %s, but %s. It may still renew, or refund", fact.Amount(charged, currency), none)
	default:
		v.Outcome, v.Text = VerdictNone, "No sign of a charge: "+none
	}
}

func (e *Evidence) openExpiries() []ExpiryEvidence {
	return slices.DeleteFunc(slices.Clone(e.Expiries), func(x ExpiryEvidence) bool {
		return x.State != string(fact.LinePending) && x.State != string(fact.LineUnresolved)
	})
}
