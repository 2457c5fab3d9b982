package jobs

import (
	"cmp"
	"flag"
	"fmt"
	"strings"
	"testing"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/testrun"
	"perennial/upstream"
)

var _ = flag.Bool("update", false, "write the table of waits into docs/state-machine.md")

// wait is one reason why an operation, a plan, an account or a command waits.
type wait struct {
	Of     string // operation, order, plan, slot, account, command or event
	Reason string // the code of its fact, where it has one
	Ends   string // what ends it automatically; "" if only an operator does
	Person string // when a person is asked; "" for never
	Check  string // the check of /readyz that says so; "" for none: the account works on
	Metric string // the metric that shows it
	Test   string // the test that reaches it
}

// Reasons for waits of operations without a code of their own.
const (
	waitsUnknown    = "unknown_outcome"
	waitsProcessing = "processing"
	waitsRefused    = "refused_for_now"
	waitsUnread     = "not_read_before_paying"
	waitsUnsent     = "unsent"
	waitsUnreadable = "unreadable"
	waitsProgress   = "progress"
)

const (
	ofOperations = "perennial_operations"
	ofReviews    = "perennial_reviews"
	ofPauses     = "perennial_paused"
	ofHeldPlans  = "perennial_sweep_state"
	ofLeftOut    = "perennial_sweep_left_out_total"
)

// allWaits returns all waits in the order of docs/state-machine.md.
func allWaits() []wait {
	const simulated = "TestSimulation"
	probed := "a successful probe, sent at growing intervals"
	nextPlan := "the next run"
	return []wait{
		{"operation", string(fact.StateAccepted), "its turn comes, or a pause or a limit ends", "", "", ofOperations, simulated},
		{"operation", waitsUnknown, "a reply; the request is sent again with the same key at least every 5 minutes", "20 hours after the first attempt that may have been carried out", "provider", "perennial_ambiguous_window_seconds", simulated},
		{"operation", waitsProcessing, "as for `unknown_outcome`", "as for `unknown_outcome`", "provider", "perennial_ambiguous_window_seconds", simulated},
		{"operation", waitsRefused, "the end of the time in Retry-After, or of the account's pause", "when the pause needs you", "paused", ofOperations, simulated},
		{"operation", waitsUnread, "a successful read, tried every 5 minutes or sooner; rejected after 7 days, with nothing charged", "", "provider", ofOperations, simulated},
		{"operation", waitsUnsent, "the request is sent again, within 64 seconds", "", "provider", ofOperations, simulated},
		{"operation", waitsUnreadable, "its command and its proxies can be read from the ledger, tried every minute or sooner", "after 3 minutes, by an alert", "ledger", "perennial_check", "TestWhatCouldNotBeQueuedIsQueuedLater"},
		{"operation", string(fact.HeldDailyLimit), "the next day of the account's time zone", "", "", ofOperations, simulated},
		{"operation", string(fact.HeldUnknownPrice), "the next day of the account's time zone", "20 hours after a restore, if the operation may have been sent before it", "", ofOperations, "TestEveryOperationThatIsHeldHasACode"},
		{"operation", string(fact.HeldNoCIDRField), "", "immediately", "", ofOperations, simulated},
		{"operation", string(fact.StateReview), "", "immediately", "", ofReviews, simulated},
		{"order", waitsProgress, "the order's detail shows that it is delivered or refunded", "after 24 hours without progress; with a pending refund, after 7 days", "", ofOperations, simulated},
		{"plan", string(fact.SweepHeldApproval), "a newer plan replaces it after six hours, or after a quarter of `renew_before` if that is shorter", "immediately", "", ofHeldPlans, "TestAPlanOverTheApprovalLimitWaitsAndStaysExact"},
		{"plan", string(fact.SweepHeldEarlierPlan), "the earlier plan is approved, declined or replaced", "immediately, to decide on the earlier plan", "", ofHeldPlans, "TestAPlanThatWaitsForAnApprovalStays"},
		{"plan", string(fact.SweepHeldBudget), nextPlan, "", "", ofLeftOut, "TestOverTheBudgetTheAffordableGoesTheRestIsSaid"},
		{"plan", string(fact.SweepHeldDay), nextPlan, "", "", ofLeftOut, "TestDailyAndMonthlyBudgetsCoverAllTheirSweeps"},
		{"plan", string(fact.SweepHeldMonth), nextPlan, "", "", ofLeftOut, "TestDailyAndMonthlyBudgetsCoverAllTheirSweeps"},
		{"plan", string(fact.SweepHeldDailyLimit), nextPlan, "", "", ofLeftOut, "TestASweepStaysUnderTheLimitOfTheDay"},
		{"plan", string(fact.SweepHeldWallet), nextPlan, "", "", ofLeftOut, "TestALowWalletPaysTheEarliestAndNamesTheRest"},
		{"slot", "failed", "a retry succeeds, or the next run replaces it", "", "sweeps", "perennial_sweep_failed", "TestTrap67ASlotWithoutItsListingIsSaid"},
		{"slot", "schedule_paused", "the end of the pause, if it has one; a single run then replaces all missed runs", "after a day, by an alert", "", "perennial_schedule_paused_timestamp_seconds", "TestAPausedScheduleFiresNothingUntilItIsResumed"},
		{"account", decide.CausePerson, "the end of the pause, if it has one", "immediately", "paused", ofPauses, simulated},
		{"account", decide.CauseClock, "the clock agrees with the provider's clock again", "immediately", "paused", ofPauses, simulated},
		{"account", decide.CauseThrottled, "the end of the time in Retry-After; if that is more than an hour, a successful read, tried every hour", "after half an hour, by an alert", "paused", ofPauses, simulated},
		{"account", decide.CauseFirewall, probed, "immediately", "paused", ofPauses, "TestAFirewallIsNoticed"},
		{"account", string(upstream.CodeInvalidSignature), probed, "immediately", "paused", ofPauses, simulated},
		{"account", string(upstream.CodeStaleTimestamp), probed, "immediately", "paused", ofPauses, simulated},
		{"account", string(upstream.CodeAPIKeyRevoked), probed, "immediately", "paused", ofPauses, simulated},
		{"account", string(upstream.CodeInsufficientScope), "an operation succeeds; one at a time is tried", "immediately", "paused", ofPauses, simulated},
		{"account", string(upstream.CodeIdempotencyKeyRequired), "", "immediately", "paused", ofPauses, "TestFaultMatrixHeadersThatAreTakenAway"},
		{"account", ledger.CauseRestored, "the provider's lists hold nothing that the ledger does not know", "immediately", "restored", ofPauses, "TestTrap13AnOldBackupStartsPausedAndPaysNothingTwice"},
		{"account", "provider_silent", "a reply from the provider", "after 3 minutes, by an alert", "provider", "perennial_check", "TestHealthShowsEveryFaultThatStopsWork"},
		{"account", "no_lease", "the lease becomes free: the leader stopped, or was silent for 10 seconds", "after a minute without a leader, by an alert", "", "perennial_role", "TestAStandbyFollowsAndTakesOver"},
		{"account", "nats_away", "a new connection to NATS", "after 3 minutes, by an alert", "nats", "perennial_check", "TestHealthShowsEveryFaultThatStopsWork"},
		{"account", "streams_changed", "the setting is restored", "after 3 minutes, by an alert", "streams", "perennial_check", "TestTrap71APausedOrChangedConsumerIsFound"},
		{"account", "events_behind", "the events stream accepts rows again", "after 3 minutes, by an alert", "events", "perennial_unpublished_rows", "TestAnOutboxThatStandsStillIsSaid"},
		{"account", "ledger_unusable", "with an external NATS it is rebuilt from the stream; else nothing", "after 3 minutes, by an alert", "ledger", "perennial_check", "TestALedgerFileThatIsGoneIsNotReady"},
		{"account", "disk_full", "free space on the disk", "after 3 minutes, by an alert", "disk", "perennial_check", "TestAFullDiskLosesNothingAndEndsWithTheSpace"},
		{"command", "on_the_stream", "fewer operations in progress", "", "", "perennial_commands_waiting", "TestABacklogEntersAsThereIsRoomAndNothingReturns"},
		{"command", "dead_letter", "", "immediately", "", "perennial_dead_letters_total", "TestDeadLettersAreReadCorrectedAndDropped"},
		{"event", "webhook_undelivered", "the receiver answers 2xx; until then the delivery is retried", "by an alert", "", "perennial_webhook_oldest_seconds", "TestOneBrokenWebhookStopsNoOther"},
	}
}

// waitOf returns the reason why, by this fact, its operation, plan or account waits, or "".
func waitOf(f fact.Fact) (of, reason string) {
	switch f := f.(type) {
	case fact.OperationUnsent:
		return "operation", waitsUnsent
	case fact.OperationWaiting:
		return "operation", waitingReason(f)
	case fact.CommandHeld:
		return "operation", string(f.Code)
	case fact.OperationReview:
		return "operation", string(fact.StateReview)
	case fact.CommandAccepted:
		return "operation", string(fact.StateAccepted)
	case fact.OrderAccepted, fact.OrderProgressed:
		return "order", waitsProgress
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
		return waitsProcessing
	case f.Ambiguous:
		return waitsUnknown
	case code == upstream.CodeRateLimited, code == upstream.CodeInsufficientScope, code == upstream.CodeInvalidSignature, code == upstream.CodeStaleTimestamp, code == upstream.CodeAPIKeyRevoked:
		return waitsRefused
	}
	return waitsUnread
}

// Each code of a wait is in the table, each wait ends automatically or is shown to an operator
// immediately, and the document has the table.
func TestEveryWaitHasAnEnd(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	var rows strings.Builder
	for _, w := range allWaits() {
		if known[w.Of+" "+w.Reason] {
			t.Errorf("%s %s is there twice", w.Of, w.Reason)
		}
		known[w.Of+" "+w.Reason] = true
		if w.Ends == "" && w.Person != "immediately" {
			t.Errorf("%s %s ends neither by itself nor by a person who is asked immediately", w.Of, w.Reason)
		}
		if w.Metric == "" {
			t.Errorf("%s %s is in no metric", w.Of, w.Reason)
		}
		code := func(s string) string {
			if s == "" {
				return ""
			}
			return "`" + s + "`"
		}
		fmt.Fprintf(&rows, "| %s | `%s` | %s | %s | %s | %s |\n", w.Of, w.Reason, cmp.Or(w.Ends, "nothing"), cmp.Or(w.Person, "never"), code(w.Check), code(w.Metric))
	}
	for _, code := range fact.HeldCodes {
		if !known["operation "+string(code)] {
			t.Errorf("operations are held with %s, which is in no table", code)
		}
	}
	for _, code := range fact.SweepHeldCodes {
		if !known["plan "+string(code)] {
			t.Errorf("plans are held with %s, which is in no table", code)
		}
	}
	for _, cause := range append(decide.PauseCauses(), ledger.CauseRestored) {
		if !known["account "+cause] {
			t.Errorf("accounts are paused for %s, which is in no table", cause)
		}
	}
	testrun.Table(t, "docs/state-machine.md", "| what | reason | what ends it automatically | when it needs an operator | check of `/readyz` | metric |\n|---|---|---|---|---|---|\n", rows.String())
}
