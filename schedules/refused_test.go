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

// refuse appends what the intake answers to a command that it cannot accept.
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
	for range 2 { // once in memory, once from the ledger alone
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

// An expiry that the commands stream would refuse would have every proxy beside it
// refused, of each sweep.
func TestAnExpiryThatNoCommandCanSayIsLeftOut(t *testing.T) {
	at := func(p ledger.Proxy, text string) ledger.Proxy {
		expires, err := time.Parse(time.RFC3339, text)
		check(t, err)
		p.ExpiresAt = &expires
		return p
	}
	unread := px("px_unread", time.Hour)
	unread.SeenAt = time.Time{}
	s := keepalive()
	w := newWorld(t, s, at(px("px_early", 0), "0001-01-01T00:00:00+08:00"), at(px("px_first", 0), "0000-01-01T00:00:00Z"),
		px("px_1", time.Hour), px("px_2", 2*time.Hour), unread)
	paid(t, w.ledger, "px_1", 300)
	plan := w.plan(t)
	for _, id := range []string{"px_early", "px_first"} {
		want(t, "why "+id+" is out", plan.why(id), ReasonBadExpiry)
	}
	want(t, "why the unread is out", plan.why("px_unread"), ReasonUnread)
	want(t, "commands", len(plan.Commands), 1)
	want(t, "proxies", decoded(t, plan)[0].ProxyIDs, []string{"px_1", "px_2"})
	_, err := command.Parse(fact.KindRenewal, plan.Commands[0], command.Rules{})
	check(t, err)
	late := at(px("px_late", 0), "9999-12-31T23:59:59-08:00")
	want(t, "an expiry of the year 10000", (&inputs{}).barredBy(w.Schedule.Match.filter(idLists{}), late), ReasonBadExpiry)
	late.ExpiresAt = nil
	want(t, "no expiry", (&inputs{}).barredBy(w.Schedule.Match.filter(idLists{}), late), "")
}

// An expiry that a plan takes is one that a command takes, however it is written.
func TestAnExpiryIsValidForPlansAndCommandsAlike(t *testing.T) {
	for _, day := range []string{"0000-01-01", "0000-12-31", "0001-01-01", "0001-01-02", "2026-11-21", "9999-12-30", "9999-12-31"} {
		for _, clock := range []string{"T00:00:00", "T12:00:00", "T23:59:59"} {
			for _, zone := range []string{"Z", "+08:00", "-08:00", "+14:00", "-12:00"} {
				at, err := time.Parse(time.RFC3339, day+clock+zone)
				check(t, err)
				raw, err := encodeCommand(keepalive(), "sweep-1", []Included{{ProxyID: "px_1", ExpiresAt: at.UTC()}})
				if err == nil {
					_, err = command.Parse(fact.KindRenewal, raw, command.Rules{})
				}
				if usable := usableExpiry(ledger.Proxy{ProxyID: "px_1", ExpiresAt: &at}); usable != (err == nil) {
					t.Errorf("%s: a plan takes it: %v; a command: %v", at, usable, err)
				}
			}
		}
	}
}

// What no sweep can renew is counted where a person looks, and not in a log alone.
func TestProxiesNoCommandCanNameAreCountedInLists(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "24h", "px\u202e_2": "24h", strings.Repeat("p", command.MaxIDBytes+1): "24h"}, keepalive())
	h.paid(t, "px_1", 300)
	h.sweep(t)
	list, err := h.List(t.Context())
	check(t, err)
	if said := list[0].Why; !strings.Contains(said, "3 due, 1 to renew") || !strings.Contains(said, "2 left out whose id or expiry no command can say") {
		t.Errorf("said: %q", said)
	}
	slots, err := h.Ledger.SlotsOf(t.Context(), "keepalive", 1)
	check(t, err)
	planned, err := h.Ledger.Plan(t.Context(), slots[0])
	check(t, err)
	want(t, "counted in the fact", planned.Unusable, 2)
}
