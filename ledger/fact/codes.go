// This file has codes for why a proxy was skipped, an operation is on hold, or a plan is
// held. Facts also have a text for people, which may change.

package fact

// SkipCode says why a proxy was left out of a renewal.
type SkipCode string

// Reasons for skipping a proxy.
const (
	SkipClaimed    SkipCode = "claimed"       // another operation has reserved it
	SkipNotFound   SkipCode = "not_found"     // the provider does not know it
	SkipNoExpiry   SkipCode = "no_expiry"     // it never expires
	SkipMoved      SkipCode = "expiry_moved"  // its expiry differs from the expected expiry in the command
	SkipNotDue     SkipCode = "not_due"       // it expires after due_before of the command
	SkipRenewed    SkipCode = "renewed"       // a renewal for this expiry has succeeded
	SkipNotShown   SkipCode = "maybe_renewed" // a renewal has succeeded that the provider may not show yet
	SkipRetired    SkipCode = "retired"
	SkipUnreadable SkipCode = "unreadable" // it cannot be read at the provider
	SkipOther      SkipCode = "other"      // for the remaining proxies if there are too many different reasons
)

// SkipCodes lists all skip codes.
var SkipCodes = []SkipCode{
	SkipClaimed, SkipNotFound, SkipNoExpiry, SkipMoved, SkipNotDue, SkipRenewed, SkipNotShown, SkipRetired, SkipUnreadable, SkipOther,
}

// HeldCode says why an operation is on hold.
type HeldCode string

// Reasons for putting an operation on hold.
const (
	HeldDailyLimit   HeldCode = "daily_limit"   // its cost would exceed daily_limit_cents
	HeldUnknownPrice HeldCode = "unknown_price" // its price is unknown, so no limit can be enforced
	HeldNoCIDRField  HeldCode = "no_cidr_field" // the configuration has no API field for its CIDRs
)

// HeldCodes lists all held codes.
var HeldCodes = []HeldCode{HeldDailyLimit, HeldUnknownPrice, HeldNoCIDRField}

// SweepHeldCode says why a plan, or a part of it, is held.
type SweepHeldCode string

// Reasons for holding a plan.
const (
	SweepHeldApproval    SweepHeldCode = "approval"
	SweepHeldEarlierPlan SweepHeldCode = "earlier_plan" // the plan of an earlier scheduled time needs approval first
	SweepHeldBudget      SweepHeldCode = "budget"
	SweepHeldDay         SweepHeldCode = "daily_budget"
	SweepHeldMonth       SweepHeldCode = "monthly_budget"
	SweepHeldDailyLimit  SweepHeldCode = "daily_limit" // the account's daily limit
	SweepHeldWallet      SweepHeldCode = "wallet"
)

// SweepHeldCodes lists all codes of held plans.
var SweepHeldCodes = []SweepHeldCode{SweepHeldApproval, SweepHeldEarlierPlan, SweepHeldBudget, SweepHeldDay, SweepHeldMonth, SweepHeldDailyLimit, SweepHeldWallet}
