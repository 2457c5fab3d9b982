package schedules

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// refuse appends the intake's fact for a command that it refuses.
func refuse(t testing.TB, l *ledger.Ledger, id, code string) {
	t.Helper()
	_, err := command.Parse(fact.KindRenewal, []byte(`{"id":"`+id+`","proxy_ids":["px_1"],"duration_days":31}`), command.Rules{})
	invalid, ok := errors.AsType[*command.InvalidError](err)
	if !ok {
		t.Fatal(err)
	}
	check(t, l.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.CommandRejected{Ref: fact.Ref{CommandID: id}, ContentHash: "h", Code: code, Reason: invalid.Reason})
	}))
}

func TestTrap55ASweepWhoseCommandIsRefusedIsNotReady(t *testing.T) {
	h := newRig(t, soon(), keepalive())
	h.paid(t, "px_1", 300)
	plan := h.sweep(t)
	look := func() { check(t, h.checkRefused(t.Context(), h.runners[0])) }
	look()
	want(t, "before the intake has said anything", h.NotReady(), "")
	refuse(t, h.Ledger, commandIDs(t, plan)[0], fact.RejectedInvalid)
	for range 2 { // first from memory, then from the ledger alone
		look()
		look()
		for _, word := range []string{"schedule keepalive", "refused 1 commands of it (2 proxies)", "duration_days is 31"} {
			if said := h.NotReady(); !strings.Contains(said, word) {
				t.Errorf("%q is not in %q", word, said)
			}
		}
		want(t, "failing", len(h.Failing()), 1)
		list, err := h.List(t.Context())
		check(t, err)
		want(t, "the list's problem", list[0].Problem, failedText(h.Failing()[0]))
		h.restart(t)
	}
	want(t, "facts, one of each process", len(failures(t, h.Ledger)), 2)
	look()
	h.watch.add(time.Minute)
	plan = h.sweep(t)
	look()
	if h.NotReady() == "" {
		t.Error("ready before the intake has taken in what the next sweep asks for")
	}
	refuse(t, h.Ledger, commandIDs(t, plan)[0], "claimed")
	look()
	want(t, "once no command is refused as invalid", h.NotReady(), "")
}

func TestTrap55RefusedCommandsAreWatchedWhileTheSweeperRuns(t *testing.T) {
	inBubble(t, keepalive(), map[string]time.Duration{"px_1": 30 * time.Hour}, func(t *testing.T, b *bench) {
		<-b.stream.arrived
		synctest.Wait()
		b.stream.mu.Lock()
		id := b.stream.commands[0].ID
		b.stream.mu.Unlock()
		refuse(t, b.Ledger, id, fact.RejectedInvalid)
		time.Sleep(2 * remainderEvery)
		synctest.Wait()
		if !strings.Contains(b.NotReady(), "refused 1 commands") {
			t.Errorf("ready: %q", b.NotReady())
		}
	})
}

// The count must be visible to an operator, not only in a log.
func TestProxiesNoCommandCanNameAreCountedInLists(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "24h", "px\u202e_2": "24h", strings.Repeat("p", command.MaxIDBytes+1): "24h"}, keepalive())
	h.paid(t, "px_1", 300)
	h.sweep(t)
	list, err := h.List(t.Context())
	check(t, err)
	if said := list[0].Why; !strings.Contains(said, "3 due, 1 to renew") || !strings.Contains(said, "2 skipped whose id or expiry no command can carry") {
		t.Errorf("said: %q", said)
	}
	slots, err := h.Ledger.Sweeps.SlotsOf(t.Context(), "keepalive", 1)
	check(t, err)
	planned, err := h.Ledger.Sweeps.Plan(t.Context(), slots[0])
	check(t, err)
	want(t, "counted in the fact", planned.Unusable, 2)
}
