// Every reason for which something waits, and what ends the wait.

package decide

import (
	"perennial/ledger/fact"
	"perennial/upstream"
)

// Wait is one reason for which an operation, a plan, an account or a command waits.
type Wait struct {
	Of     string // operation, order, plan, slot, account, command or event
	Reason string // the code of its fact, where it has one
	Ends   string // what ends it by itself; "" where only a person does
	Person string // when a person is asked; "" for never
	Check  string // the check of /readyz that says so; "" for none: the account works on
	Metric string // the metric that shows it
	Test   string // the test that comes to it
}

// Reasons of waits of operations that have no code of their own.
const (
	WaitsUnknown    = "unknown_outcome"
	WaitsProcessing = "processing"
	WaitsRefused    = "refused_for_now"
	WaitsUnread     = "not_read_before_paying"
	WaitsUnsent     = "unsent"
	WaitsProgress   = "progress"
)

const (
	ofOperations = "perennial_operations"
	ofReviews    = "perennial_reviews"
	ofPauses     = "perennial_paused"
	ofHeldPlans  = "perennial_sweep_state"
	ofLeftOut    = "perennial_sweep_left_out_total"
)

// causeRestored is ledger.CauseRestored, which this package does not know.
const causeRestored = "restored"

// Waits are all of them, in the order in which docs/state-machine.md prints them.
func Waits() []Wait {
	const simulated = "TestSimulation"
	probed := "a probe that succeeds, at growing intervals"
	nextPlan := "the next slot plans what was left out again"
	return []Wait{
		{"operation", string(fact.StateAccepted), "its turn at the gate; the pauses and the limits under which it is", "", "", ofOperations, simulated},
		{"operation", WaitsUnknown, "sent again under its key, at most 5 minutes apart", "20 hours after the first attempt that may have executed", "provider", "perennial_ambiguous_window_seconds", simulated},
		{"operation", WaitsProcessing, "as for unknown_outcome", "20 hours after the first attempt that may have executed", "provider", "perennial_ambiguous_window_seconds", simulated},
		{"operation", WaitsRefused, "Retry-After, or the end of the pause", "with the account's pause", "paused", ofOperations, simulated},
		{"operation", WaitsUnread, "read again, at most 5 minutes apart; rejected with nothing charged after 7 days", "", "provider", ofOperations, simulated},
		{"operation", WaitsUnsent, "sent again within 64 seconds", "", "provider", ofOperations, simulated},
		{"operation", string(fact.HeldDailyLimit), "the next day of the account's time zone", "", "", ofOperations, simulated},
		{"operation", string(fact.HeldUnknownPrice), "the next day of the account's time zone", "20 hours after the restore, before which it may have been sent", "", ofOperations, "TestEveryOperationThatIsHeldHasACode"},
		{"operation", string(fact.HeldNoCIDRField), "", "at once", "", ofOperations, simulated},
		{"operation", string(fact.StateReview), "", "at once", "", ofReviews, simulated},
		{"order", WaitsProgress, "its detail shows that it is delivered or refunded", "after 24 hours of reads without progress; with a pending refund after 7 days", "", ofOperations, simulated},
		{"plan", string(fact.SweepHeldApproval), "a newer plan takes its place, after six hours at the earliest", "at once", "", ofHeldPlans, "TestAPlanOverTheApprovalLimitWaitsAndStaysExact"},
		{"plan", string(fact.SweepHeldEarlierPlan), "the earlier plan is approved or dropped", "at once, about the earlier plan", "", ofHeldPlans, "TestAPlanThatWaitsForAnApprovalStays"},
		{"plan", string(fact.SweepHeldBudget), nextPlan, "", "", ofLeftOut, "TestOverTheBudgetTheAffordableGoesTheRestIsSaid"},
		{"plan", string(fact.SweepHeldDay), nextPlan, "", "", ofLeftOut, "TestDailyAndMonthlyBudgetsCoverAllTheirSweeps"},
		{"plan", string(fact.SweepHeldMonth), nextPlan, "", "", ofLeftOut, "TestDailyAndMonthlyBudgetsCoverAllTheirSweeps"},
		{"plan", string(fact.SweepHeldDailyLimit), nextPlan, "", "", ofLeftOut, "TestASweepStaysUnderTheLimitOfTheDay"},
		{"plan", string(fact.SweepHeldWallet), nextPlan, "", "", ofLeftOut, "TestALowWalletPaysTheEarliestAndNamesTheRest"},
		{"slot", "failed", "tried again until the next slot, which takes its place", "", "sweeps", "perennial_sweep_failed", "TestTrap67ASlotWithoutItsListingIsSaid"},
		{"slot", "schedule_paused", "the end of the pause, where it has one: one sweep then serves all slots of it", "after a day, by an alert", "", "perennial_schedule_paused_timestamp_seconds", "TestAPausedScheduleFiresNothingUntilItIsResumed"},
		{"account", CausePerson, "the end of the pause, where it has one", "at once", "paused", ofPauses, simulated},
		{"account", CauseClock, "the clock agrees with the provider's again", "at once", "paused", ofPauses, simulated},
		{"account", CauseThrottled, "Retry-After; over an hour a read asks once an hour", "after half an hour, by an alert", "paused", ofPauses, simulated},
		{"account", CauseFirewall, probed, "at once", "paused", ofPauses, "TestAFirewallIsNoticed"},
		{"account", string(upstream.CodeInvalidSignature), probed, "at once", "paused", ofPauses, simulated},
		{"account", string(upstream.CodeStaleTimestamp), probed, "at once", "paused", ofPauses, simulated},
		{"account", string(upstream.CodeAPIKeyRevoked), probed, "at once", "paused", ofPauses, simulated},
		{"account", string(upstream.CodeInsufficientScope), "one operation at a time is let through, until one works", "at once", "paused", ofPauses, simulated},
		{"account", string(upstream.CodeIdempotencyKeyRequired), "", "at once", "paused", ofPauses, "TestFaultMatrixHeadersThatAreTakenAway"},
		{"account", causeRestored, "the provider's lists hold nothing that the ledger does not know", "at once", "restored", ofPauses, "TestTrap13AnOldBackupStartsPausedAndPaysNothingTwice"},
		{"account", "provider_silent", "an answer", "after 3 minutes, by an alert", "provider", "perennial_check", "TestHealthShowsEveryFaultThatStopsWork"},
		{"account", "no_lease", "the lease: its holder ends, or has been silent for 10 seconds", "after a minute without any holder, by an alert", "", "perennial_role", "TestAStandbyFollowsAndTakesOver"},
		{"account", "nats_away", "the connection", "after 3 minutes, by an alert", "nats", "perennial_check", "TestHealthShowsEveryFaultThatStopsWork"},
		{"account", "streams_changed", "the setting is put back", "after 3 minutes, by an alert", "streams", "perennial_check", "TestTrap71APausedOrChangedConsumerIsFound"},
		{"account", "events_behind", "the events stream takes rows again", "after 3 minutes, by an alert", "events", "perennial_unpublished_rows", "TestAnOutboxThatStandsStillIsSaid"},
		{"account", "ledger_unusable", "with a NATS server outside of the process it is made again; else never", "after 3 minutes, by an alert", "ledger", "perennial_check", "TestALedgerFileThatIsGoneIsNotReady"},
		{"account", "disk_full", "room on the disk", "after 3 minutes, by an alert", "disk", "perennial_check", "TestAFullDiskLosesNothingAndEndsWithTheSpace"},
		{"command", "on_the_stream", "room among what is under way", "", "", "perennial_commands_waiting", "TestABacklogEntersAsThereIsRoomAndNothingReturns"},
		{"command", "dead_letter", "", "at once", "", "perennial_dead_letters_total", "TestDeadLettersAreReadCorrectedAndDropped"},
		{"event", "webhook_undelivered", "its receiver answers; tried again without end", "by an alert", "", "perennial_webhook_oldest_seconds", "TestOneBrokenWebhookStopsNoOther"},
	}
}

// WaitOf is the reason that a fact gives for a wait of its operation, its plan or its account;
// "" where it gives none.
func WaitOf(f fact.Fact) (of, reason string) {
	switch f := f.(type) {
	case fact.OperationUnsent:
		return "operation", WaitsUnsent
	case fact.OperationWaiting:
		return "operation", waitingReason(f)
	case fact.CommandHeld:
		return "operation", string(f.Code)
	case fact.OperationReview:
		return "operation", string(fact.StateReview)
	case fact.CommandAccepted:
		return "operation", string(fact.StateAccepted)
	case fact.OrderAccepted, fact.OrderProgressed:
		return "order", WaitsProgress
	case fact.SweepHeld:
		return "plan", string(f.Code)
	case fact.SweepFailed:
		return "slot", "failed"
	case fact.AccountPaused:
		return "account", f.Cause
	}
	return "", ""
}

func waitingReason(f fact.OperationWaiting) string {
	switch code := upstream.Code(f.Code); {
	case code == upstream.CodeIdempotencyProcessing, code == upstream.CodeIdempotencyReplayFailed, code == upstream.CodeReplayedNonce:
		return WaitsProcessing
	case f.Ambiguous:
		return WaitsUnknown
	case code == upstream.CodeRateLimited, code == upstream.CodeInsufficientScope, code == upstream.CodeInvalidSignature, code == upstream.CodeStaleTimestamp, code == upstream.CodeAPIKeyRevoked:
		return WaitsRefused
	}
	return WaitsUnread
}
