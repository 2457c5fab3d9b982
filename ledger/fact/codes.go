// Why a proxy was left out, an operation held or a sweep held, as codes. The texts
// beside them are for people, and are reworded.

package fact

// SkipCode says why a proxy was left out of a renewal.
type SkipCode string

// The reasons for which a proxy is left out.
const (
	SkipClaimed    SkipCode = "claimed"       // another operation has it
	SkipNotFound   SkipCode = "not_found"     // the provider does not know it
	SkipNoExpiry   SkipCode = "no_expiry"     // it is never due
	SkipMoved      SkipCode = "expiry_moved"  // it expires at another instant than the command says
	SkipNotDue     SkipCode = "not_due"       // it expires later than the command says
	SkipRenewed    SkipCode = "renewed"       // a renewal for this expiry has succeeded
	SkipNotShown   SkipCode = "maybe_renewed" // a renewal has, which the provider may not show yet
	SkipRetired    SkipCode = "retired"
	SkipUnreadable SkipCode = "unreadable" // its read at the provider fails
	SkipOther      SkipCode = "other"      // too many reasons to name them all
)

// SkipCodes are all of them.
var SkipCodes = []SkipCode{
	SkipClaimed, SkipNotFound, SkipNoExpiry, SkipMoved, SkipNotDue, SkipRenewed, SkipNotShown, SkipRetired, SkipUnreadable, SkipOther,
}

// HeldCode says why an operation is held.
type HeldCode string

// The reasons for which an operation is held.
const (
	HeldDailyLimit   HeldCode = "daily_limit"   // it would go over daily_limit_cents
	HeldUnknownPrice HeldCode = "unknown_price" // no limit can be kept without its price
	HeldNoCIDRField  HeldCode = "no_cidr_field" // the configuration has no name for its CIDRs
)

// HeldCodes are all of them.
var HeldCodes = []HeldCode{HeldDailyLimit, HeldUnknownPrice, HeldNoCIDRField}

// SweepHeldCode says what a plan, or a part of it, waits for.
type SweepHeldCode string

// What plans wait for.
const (
	SweepHeldApproval    SweepHeldCode = "approval"
	SweepHeldEarlierPlan SweepHeldCode = "earlier_plan" // the approval of an earlier slot's plan
	SweepHeldBudget      SweepHeldCode = "budget"
	SweepHeldDay         SweepHeldCode = "daily_budget"
	SweepHeldMonth       SweepHeldCode = "monthly_budget"
	SweepHeldDailyLimit  SweepHeldCode = "daily_limit" // the account's
	SweepHeldWallet      SweepHeldCode = "wallet"
)

// SweepHeldCodes are all of them.
var SweepHeldCodes = []SweepHeldCode{SweepHeldApproval, SweepHeldEarlierPlan, SweepHeldBudget, SweepHeldDay, SweepHeldMonth, SweepHeldDailyLimit, SweepHeldWallet}
