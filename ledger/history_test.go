package ledger

import (
	"encoding/json"
	"slices"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// history returns facts of every kind: orders delivered, refunded, refused and sent again;
// renewals completed, partial, failed, split, in review; limits, pauses, sweeps, top-ups.
func history() []fact.Fact {
	facts := []fact.Fact{
		opened(100_000),
		fact.RunnerStarted{Version: "1", Holder: "h"},
		fact.LedgerRecorded{Movement: "top-up", AmountCents: 5_000, By: "ada", Reason: "card"},
		fact.LedgerRecorded{Movement: "external", AmountCents: 700, By: "ada", Reason: "bought in the shop", User: "ops"},
	}
	facts = append(facts, orders()...)
	facts = append(facts, renewals()...)
	facts = append(facts, resolutions()...)
	return append(facts, surroundings()...)
}

func orders() []fact.Fact {
	return []fact.Fact{
		// Delivered, after an attempt whose reply was lost.
		accepted(fact.KindOrder, "o1/1"), sending("o1/1", 1),
		fact.OperationWaiting{Ref: ref("o1/1"), Attempt: 1, Reason: "reset", Ambiguous: true, NextAt: noon},
		sending("o1/1", 2),
		fact.OrderAccepted{Ref: ref("o1/1"), Attempt: 2, OrderNo: "no of o1/1", NextAt: noon},
		fact.OrderProgressed{OrderState: orderState("o1/1", "procuring", 900, 0), NextAt: noon},
		fact.OrderDelivered{OrderState: orderState("o1/1", "completed", 0, 0), ProxyIDs: []string{"px_new"}},
		// Refunded in full.
		accepted(fact.KindOrder, "o2/1"), sending("o2/1", 1),
		fact.OrderAccepted{Ref: ref("o2/1"), Attempt: 1, OrderNo: "no of o2/1", NextAt: noon},
		fact.OrderRefunded{OrderState: orderState("o2/1", "refunded", 500, 500), RefundStatus: "done", Destination: "wallet", RefundedAt: noon},
		// Refused for lack of money, sent again, lost, and answered as charged.
		accepted(fact.KindOrder, "o3/1"), sending("o3/1", 1),
		fact.CommandRejected{Ref: ref("o3/1"), Code: "insufficient_wallet_balance", Reason: "too low", Attempt: 1, ShortOfMoney: true},
		resolved("o3/1", "", "not_charged", 0, planned("o3/1~2", 2)),
		sending("o3/1~2", 1),
		fact.OperationReview{Ref: ref("o3/1~2"), Attempt: 1, Code: "idempotency_unresolved", Reason: "frozen", Ambiguous: true},
		resolved("o3/1~2", "", "charged", 300),
		// Held, released, not sent, sent, booked, and answered as not charged.
		accepted(fact.KindOrder, "o4/1"),
		fact.CommandHeld{Ref: ref("o4/1"), Reason: "limit", EstimateCents: 400, Until: at(time.Hour)},
		fact.CommandReleased{Ref: ref("o4/1"), By: "ada", Reason: "go"},
		sending("o4/1", 1),
		fact.OperationUnsent{Ref: ref("o4/1"), Attempt: 1, Reason: "dial", NextAt: noon},
		sending("o4/1", 2),
		fact.OrderAccepted{Ref: ref("o4/1"), Attempt: 2, OrderNo: "no of o4/1", NextAt: noon},
		fact.OrderProgressed{OrderState: orderState("o4/1", "odd", 400, 0), NextAt: noon},
		fact.OperationReview{Ref: ref("o4/1"), Attempt: 2, Reason: "stuck", OrderNo: "no of o4/1"},
		resolved("o4/1", "", "not_charged", 0),
		// Held and cancelled.
		accepted(fact.KindOrder, "o5/1"),
		fact.CommandHeld{Ref: ref("o5/1"), Reason: "limit"},
		fact.CommandCancelled{Ref: ref("o5/1"), By: "ada", Reason: "not needed", User: "ops"},
		// In progress.
		accepted(fact.KindOrder, "o6/1"), sending("o6/1", 1),
	}
}

func renewals() []fact.Fact {
	split := fact.CommandRejected{Ref: ref("r5/0001"), Code: "proxy_not_found", Reason: "unknown", Attempt: 1, DurationDays: 30,
		SplitInto: []fact.Planned{planned("r5/0001a", 1, "px_5a"), planned("r5/0001b", 1, "px_5b")}}
	observed := sending("r6/0001", 1)
	observed.Observed = map[string]time.Time{"px_6a": noon.Add(time.Hour)}
	observed.EstimateCents = 300
	return []fact.Fact{
		accepted(fact.KindRenewal, "r1/0001", "px_1a", "px_1b"), sending("r1/0001", 1),
		settled("r1/0001", "completed", line("px_1a", "succeeded", 300, 0), line("px_1b", "succeeded", 310, 0)),
		// Partial, with an unresolved line that turns out cheaper than booked.
		accepted(fact.KindRenewal, "r2/0001", "px_2a", "px_2b", "px_2c"), sending("r2/0001", 1),
		settled("r2/0001", "partial", line("px_2a", "succeeded", 300, 0), line("px_2b", "failed", 300, 300), line("px_2c", "unresolved", 300, 0)),
		resolved("r2/0001", "px_2c", "charged", 250),
		accepted(fact.KindRenewal, "r3/0001", "px_3a"), sending("r3/0001", 1),
		settled("r3/0001", "failed", line("px_3a", "failed", 300, 300)),
		// A refused chunk in two halves.
		accepted(fact.KindRenewal, "r5/0001", "px_5a", "px_5b"), sending("r5/0001", 1), split,
		sending("r5/0001a", 1), settled("r5/0001a", "completed", line("px_5a", "succeeded", 300, 0)),
		sending("r5/0001b", 1), fact.CommandRejected{Ref: ref("r5/0001b"), Code: "proxy_not_found", Reason: "unknown", Attempt: 1},
		// One proxy left out just before the send.
		accepted(fact.KindRenewal, "r6/0001", "px_6a", "px_6b"),
		fact.ProxySkipped{Ref: ref("r6/0001"), ProxyID: "px_6b", Reason: "no longer due", ExpiresAt: at(time.Hour)},
		observed, settled("r6/0001", "completed", line("px_6a", "succeeded", 300, 0)),
		fact.ProxySkipped{Ref: fact.Ref{CommandID: "r6"}, ProxyID: "px_1a", Reason: "held by r1/0001"},
		// Several left out together, by an operation and by an acceptance.
		accepted(fact.KindRenewal, "r10/0001", "px_10a", "px_10b", "px_10c"),
		fact.ProxySkipped{Ref: ref("r10/0001"), Skipped: []fact.SkippedFor{
			{Reason: "no longer due", ProxyIDs: []string{"px_10a"}, ExpiresAt: map[string]time.Time{"px_10a": noon.Add(time.Hour)}},
			{Reason: "it was retired", ProxyIDs: []string{"px_10c"}},
		}},
		sending("r10/0001", 1), settled("r10/0001", "completed", line("px_10b", "succeeded", 300, 0)),
		fact.ProxySkipped{Ref: fact.Ref{CommandID: "r10"}, Skipped: []fact.SkippedFor{{Reason: "held by r1/0001", ProxyIDs: []string{"px_1a", "px_1b"}}}},
	}
}

func resolutions() []fact.Fact {
	manual := lines(line("px_4a", "succeeded", 300, 0), line("px_4b", "unresolved", 300, 0), line("px_4c", "unresolved", 300, 0))
	return []fact.Fact{
		accepted(fact.KindRenewal, "r4/0001", "px_4a", "px_4b", "px_4c"), sending("r4/0001", 1),
		fact.OperationReview{Ref: ref("r4/0001"), Attempt: 1, Reason: "pending verification", Ambiguous: true, Settlement: &manual},
		resolved("r4/0001", "px_4b", "charged", 300),
		resolved("r4/0001", "px_4c", "not_charged", 0, planned("r4/0001~2", 2, "px_4c")),
		sending("r4/0001~2", 1),
		// Nothing is known of the lines, and an operator answers for all of them.
		accepted(fact.KindRenewal, "r7/0001", "px_7a", "px_7b"), sending("r7/0001", 1),
		fact.OperationReview{Ref: ref("r7/0001"), Attempt: 1, Code: "idempotency_unresolved", Reason: "frozen", Ambiguous: true},
		resolved("r7/0001", "", "charged", 600),
		// Needs review: one line unresolved, in suspense.
		accepted(fact.KindRenewal, "r8/0001", "px_8a", "px_8b"), sending("r8/0001", 1),
		settled("r8/0001", "partial", line("px_8a", "succeeded", 300, 0), line("px_8b", "unresolved", 310, 0)),
	}
}

func surroundings() []fact.Fact {
	return []fact.Fact{
		fact.CommandRejected{Ref: fact.Ref{CommandID: "bad"}, ContentHash: "h1", Code: "invalid", Reason: "first"},
		fact.CommandRejected{Ref: fact.Ref{CommandID: "bad"}, ContentHash: "h1", Code: "invalid", Reason: "first, as older versions told it again"},
		fact.CommandRejected{Ref: fact.Ref{CommandID: "bad"}, ContentHash: "h2", Code: "invalid", Reason: "second"},
		fact.CommandConflict{Ref: fact.Ref{CommandID: "o1"}, ContentHash: "other", AcceptedHash: "hash of o1/1", Reason: "first stands"},
		fact.AccountPaused{Scope: "account", Cause: "rate_limited", Detail: "slow down", Until: at(time.Minute)},
		fact.AccountPaused{Scope: "account", Cause: "rate_limited", Detail: "slower", Until: at(time.Hour)},
		fact.AccountPaused{Scope: "order", Cause: "insufficient_scope", Detail: "no"},
		fact.AccountResumed{Scope: "order", Cause: "insufficient_scope", Detail: "works"},
		fact.SweepMissed{Schedule: "keep", Slots: []time.Time{noon.Add(-2 * time.Hour), noon.Add(-time.Hour)}, ServedBy: noon},
		fact.LedgerUncompared{WalletCents: 900, ProviderCents: 600, OperationIDs: []string{"o1/1"}, OperationsTotal: 1},
		fact.ListingShrunk{Known: 10, NotListed: 5, ProxyIDs: []string{"px_1"}},
		fact.SweepFailed{Schedule: "keep", Slot: noon, Reason: "list the proxies: insufficient_scope", Due: 2, Expiring: 1, FirstExpiresAt: at(time.Hour)},
		fact.ScheduleConfigured{Schedule: "keep", Cron: "0 3 * * *", Timezone: "UTC", Since: noon.Add(-24 * time.Hour)},
		fact.ScheduleConfigured{Schedule: "keep", Cron: "0 * * * *", Timezone: "Europe/Berlin", Since: noon},
		fact.SweepMissed{Schedule: "fleet", Slots: []time.Time{noon.Add(-3 * time.Hour)}, ServedBy: noon},
		fact.SchedulePaused{Schedule: "fleet", By: "ada", Reason: "prices change"},
		fact.ScheduleConfigured{Schedule: "keep", Cron: "0 * * * *", Timezone: "UTC", Since: noon, Was: "fleet"},
		fact.SchedulePaused{Schedule: "keep", Until: at(time.Hour), By: "ada", Reason: "prices change"},
		fact.ScheduleResumed{Schedule: "keep", By: "ada", Reason: "prices are known"},
		fact.ProxyRevealed{ProxyID: "px_1a", By: "ada", Reason: "a customer cannot connect"},
		fact.DeadRequeued{LetterSeq: 7, By: "ada", Reason: "this version reads it"},
		fact.DeadDropped{LetterSeq: 8, By: "ada", Reason: "a test of a producer's"},
		fact.SchedulePaused{Schedule: "other", By: "ada", Reason: "it is not needed now"},
		fact.SweepPlanned{Schedule: "keep", Slot: noon, Plan: "p1", Due: 1, Commands: []json.RawMessage{}},
		fact.SweepFinished{Schedule: "keep", Slot: noon, Plan: "p1", Published: 1},
		fact.SweepPlanned{Schedule: "keep", Slot: noon.Add(time.Hour), Plan: "p2", Due: 1, Commands: []json.RawMessage{}},
		fact.SweepHeld{Schedule: "keep", Slot: noon.Add(time.Hour), Plan: "p2", Reason: "approval"},
		fact.SweepPlanned{Schedule: "keep", Slot: noon.Add(2 * time.Hour), Plan: "p3", Due: 1, Commands: []json.RawMessage{}},
		fact.SweepPlanned{Schedule: "keep", Slot: noon.Add(3 * time.Hour), Plan: "p4", Due: 2, Commands: []json.RawMessage{}, Planned: []fact.PlannedCommand{
			{CommandID: "r1", Proxies: 2, EstimateCents: 600}, {CommandID: "r9", Proxies: 1, EstimateCents: 300},
		}},
		fact.SweepPlanned{Schedule: "keep", Slot: noon.Add(4 * time.Hour), Plan: "p5", Due: 1, Commands: []json.RawMessage{}, Planned: []fact.PlannedCommand{{CommandID: "r9", Proxies: 1, EstimateCents: 310}}},
		fact.ProxyRetired{ProxyID: "px_1a", By: "ada", Reason: "not needed"}, fact.ProxyRetired{ProxyID: "px_1b", By: "ada", Reason: "not needed"},
		fact.ProxyReinstated{ProxyID: "px_1b", By: "ada", Reason: "needed"},
		fact.ProxyReplaced{ProxyID: "px_3a", Schedule: "keep", ExpiresAt: noon, CommandID: "replace-1", Command: []byte(`{}`), MaxTotalCents: 400},
		fact.ProxyReview{Ref: ref("r5/0001b"), ProxyID: "px_5b", Schedule: "keep", ExpiresAt: noon, Endings: 5, Reason: "five"},
		fact.ProxyReview{Ref: ref("r3/0001"), ProxyID: "px_1b", Schedule: "keep", ExpiresAt: noon, Endings: 5, Reason: "five"},
		fact.ProxyReinstated{ProxyID: "px_1b", By: "ada", Reason: "mended"},
		fact.ProxyExpiring{ProxyID: "px_9", ExpiresAt: noon, ThresholdSeconds: 3600}, fact.ProxyExpired{ProxyID: "px_9", ExpiresAt: noon},
		fact.ProxyGone{ProxyID: "px_9", ExpiresAt: new(noon)},
		fact.LedgerReconciled{WalletCents: 1, ProviderCents: 1, Quiet: true},
		fact.OperationOverran{Ref: ref("r1/0001"), EstimateCents: 600, ChargedCents: 610},
		fact.LedgerDiscrepancy{Ref: ref("o1/1"), Finding: "late_reply", Explanation: "late"},
		fact.LedgerArchived{Before: noon, FirstSeq: 1, LastSeq: 3, LastHash: chain.Genesis, SnapshotHash: chain.Genesis, File: "main.ledger.1-3.archive.db"},
		fact.LedgerBounded{FirstSeq: 3, LastSeq: 3, LastHash: chain.Genesis, SnapshotHash: chain.Genesis, Bucket: "PERENNIAL_SNAPSHOTS_main", Object: "3-0000", HeldBy: "books"},
		fact.ListingUncovered{Uncovered: 2, ProxyIDs: []string{"px_1a", "px_1b"}, FirstExpiresAt: at(time.Hour)}, fact.ListingUncovered{ProxyIDs: []string{}},
		fact.OrderListed{Ref: ref("o3/1~2"), OrderNo: "no of o3/1~2", ProxyIDs: []string{"px_later"}, Proxies: []fact.DeliveredProxy{{ProxyID: "px_later"}}},
		fact.CommandFinished{Ref: fact.Ref{CommandID: "o1"}, Revision: 1, State: "delivered", Lines: []fact.FinishedLine{}, Operations: []fact.FinishedOperation{}},
	}
}

// historyOf returns the history as written by a program with an older schema version.
func historyOf(version int64) []fact.Fact {
	return slices.DeleteFunc(append(history(), over()...), func(f fact.Fact) bool {
		since := map[string]int64{"ledger.bounded": 8, "command.finished": 13, "schedule.paused": 15, "schedule.resumed": 15, "schedule.configured": 23, "order.listed": 23, "listing.uncovered": 23}
		return version < since[f.FactType()]
	})
}
