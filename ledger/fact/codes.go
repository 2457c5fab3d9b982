// Codes for why a proxy was skipped, an operation held or a sweep held. The texts next to
// them are for people and may be reworded.

package fact

// SkipCode says why a proxy was left out of a renewal.
type SkipCode string

// Reasons for skipping a proxy.
const (
	SkipClaimed    SkipCode = "claimed"       // another operation has it
	SkipNotFound   SkipCode = "not_found"     // the provider does not know it
	SkipNoExpiry   SkipCode = "no_expiry"     // it never expires
	SkipMoved      SkipCode = "expiry_moved"  // its expiry differs from the command's
	SkipNotDue     SkipCode = "not_due"       // it expires later than the command says
	SkipRenewed    SkipCode = "renewed"       // a renewal for this expiry has succeeded
	SkipNotShown   SkipCode = "maybe_renewed" // a renewal has succeeded that the provider may not show yet
	SkipRetired    SkipCode = "retired"
	SkipUnreadable SkipCode = "unreadable" // reading it at the provider fails
	SkipOther      SkipCode = "other"      // too many reasons to name them all
)

// SkipCodes are all skip codes.
var SkipCodes = []SkipCode{
	SkipClaimed, SkipNotFound, SkipNoExpiry, SkipMoved, SkipNotDue, SkipRenewed, SkipNotShown, SkipRetired, SkipUnreadable, SkipOther,
}

// HeldCode says why an operation is held.
type HeldCode string

// Reasons for holding an operation.
const (
	HeldDailyLimit   HeldCode = "daily_limit"   // it would go over daily_limit_cents
	HeldUnknownPrice HeldCode = "unknown_price" // no limit can be enforced without its price
	HeldNoCIDRField  HeldCode = "no_cidr_field" // the configuration names no field for its CIDRs
)

// HeldCodes are all held codes.
var HeldCodes = []HeldCode{HeldDailyLimit, HeldUnknownPrice, HeldNoCIDRField}

// SweepHeldCode says what a plan, or part of it, waits for.
type SweepHeldCode string

// What a held plan waits for.
const (
	SweepHeldApproval    SweepHeldCode = "approval"
	SweepHeldEarlierPlan SweepHeldCode = "earlier_plan" // the approval of an earlier slot's plan
	SweepHeldBudget      SweepHeldCode = "budget"
	SweepHeldDay         SweepHeldCode = "daily_budget"
	SweepHeldMonth       SweepHeldCode = "monthly_budget"
	SweepHeldDailyLimit  SweepHeldCode = "daily_limit" // the account's
	SweepHeldWallet      SweepHeldCode = "wallet"
)

// SweepHeldCodes are all sweep held codes.
var SweepHeldCodes = []SweepHeldCode{SweepHeldApproval, SweepHeldEarlierPlan, SweepHeldBudget, SweepHeldDay, SweepHeldMonth, SweepHeldDailyLimit, SweepHeldWallet}
