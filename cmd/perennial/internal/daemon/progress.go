// What counts as progress of each loop of a runner, and what says that there is none.

package daemon

import (
	"fmt"
	"time"
)

// Progress is one loop, in one of the ways in which it can stand still.
type Progress struct {
	Loop  string
	Is    string // what counts as progress
	Check string // the check of /readyz that says that there is none; "" for none
	Else  string // what says so where no check does
	After string // how long without progress
	Test  string // the test that has it stand still, and go on again
}

// Loops are all of them, in the order in which docs/state-machine.md prints them.
func Loops() []Progress {
	within := func(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }
	return []Progress{
		{Loop: "intake", Is: "the consumers of the commands stream are there, not paused, and as they must be", Check: needsStreams, After: within(settingsEvery + probeTimeout), Test: "TestHealthShowsEveryFaultThatStopsWork"},
		{Loop: "intake", Is: "a batch that was read is in the ledger", Else: "`/livez`", After: within(stuckAfter), Test: "TestAStuckWriterIsNotAlive"},
		{Loop: "send", Is: "the provider answers anything", Check: needsProvider, After: "60 s", Test: "TestHealthShowsEveryFaultThatStopsWork"},
		{Loop: "send", Is: "a POST of the kind has a definite outcome", Check: needsProvider, After: "60 s and three attempts", Test: "TestWritesWithoutADefiniteOutcomeAreNotReady"},
		{Loop: "poll", Is: "the provider answers for any order", Check: needsProvider, After: "60 s and three attempts", Test: "TestALoopThatStandsStillIsSaid"},
		{Loop: "list", Is: "a page of the listing for which a slot waits is read", Check: needsSweeps, After: "30 s", Test: "TestTrap67ASlotWithoutItsListingIsSaid"},
		{Loop: "sweep", Is: "the sweep of a slot is made", Check: needsSweeps, After: "at once; 30 s for what cannot be published", Test: "TestTrap55ASweepThatCannotBeMadeIsSaid"},
		{Loop: "outbox", Is: "on the embedded server: a row of the ledger is on the events stream", Check: needsEvents, After: within(behindAfter + probeEvery), Test: "TestAnOutboxThatStandsStillIsSaid"},
		{Loop: "outbox", Is: "on a server of its own: the events stream acknowledges what waits to be committed", Check: needsEvents, After: within(slowAfter), Test: "TestAStreamThatAcknowledgesNothingIsSaid"},
		{Loop: "follow", Is: "a standby's ledger has another row, or all that the stream has", Check: needsAccount, After: within(standbySlow + standbyEvery), Test: "TestAStandbyThatStandsStillSaysSo"},
		{Loop: "reconcile", Is: "a comparison of the books with the provider completes", Check: needsBooks, After: "three times `reconcile_every`, and 30 min", Test: "TestALoopThatStandsStillIsSaid"},
		{Loop: "webhook", Is: "the oldest event that its receiver has not taken is delivered", Else: "`perennial_webhook_oldest_seconds`, `perennial webhooks list`", After: "at once", Test: "TestEventsThatHangLeaveRoomForACommandThatDoesNot"},
	}
}
