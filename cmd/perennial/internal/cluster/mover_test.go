// The choice of a runner for a free account, and the handover of a held one.
package cluster

import (
	"testing"
	"time"

	"perennial/cmd/perennial/internal/placement"
)

// said is a heartbeat of a runner that could lead every account it does not hold.
func said(name string, at time.Time, holds ...string) Node {
	n := Node{Node: name, SaidAt: at}
	for _, a := range []string{"a", "b", "c"} {
		held := false
		for _, h := range holds {
			held = held || h == a
		}
		n.Accounts = append(n.Accounts, NodeAccount{Account: a, Lease: held, Ready: !held})
	}
	return n
}

// The account is left to a runner with fewer accounts. It is not left to its former leader, or to a
// runner that is stopping, silent or not ready.
func TestAFreeAccountIsLeftToALivingRunnerAlone(t *testing.T) {
	now := time.Now()
	own := placement.Node{Name: "own", Holds: []string{"b"}, Ready: []string{"a", "c"}}
	leaves := func(n Node, later time.Duration) bool {
		var f Peers
		f.Note([]Node{n}, now)
		f.Note([]Node{n}, now.Add(later)) // the same heartbeat, read again
		return f.Leaves(own, "a", now.Add(later))
	}
	if !leaves(said("other", now), 0) {
		t.Error("it is not left to a runner without accounts")
	}
	if leaves(said("other", now, "a"), 0) {
		t.Error("it is left to the runner that had it")
	}
	if leaves(said("other", now, "b", "c"), 0) {
		t.Error("it is left to a runner with more accounts")
	}
	if leaves(said("other", now), LateAfter) {
		t.Error("it is left to a runner that says nothing any more")
	}
	ending := said("other", now)
	ending.Stopping = true
	if leaves(ending, 0) {
		t.Error("it is left to a runner that ends")
	}
	behind := said("other", now)
	behind.Accounts[0].Ready = false
	if leaves(behind, 0) {
		t.Error("it is left to a runner that is not ready")
	}
}

// The pin counts as long as its runner lives.
func TestAPersonsPinDecidesWhoHasAnAccount(t *testing.T) {
	now := time.Now()
	own := placement.Node{Name: "own", Ready: []string{"a", "b", "c"}}
	var f Peers
	f.Note([]Node{said("other", now, "b", "c")}, now)
	if f.Leaves(own, "a", now) {
		t.Error("without a pin it is left to a runner with more accounts")
	}
	f.SetPins(map[string]string{"a": "other"})
	if !f.Leaves(own, "a", now) {
		t.Error("the pin does not hold")
	}
	if f.Leaves(own, "a", now.Add(LateAfter)) {
		t.Error("the pin holds for a runner that is gone")
	}
}

// After the command has ended for any reason, the pin counts again.
func TestACommandThatBorrowsGoesBeforeAPin(t *testing.T) {
	now := time.Now()
	own := placement.Node{Name: "own", Holds: []string{"a"}, Ready: []string{"b", "c"}}
	command := Node{Node: "archive", SaidAt: now, Accounts: []NodeAccount{{Account: "a", Ready: true, Borrows: true}}}
	var f Peers
	f.SetPins(map[string]string{"a": "own"})
	f.Note([]Node{command, said("other", now, "b", "c")}, now)
	held := map[string]time.Time{"a": now}
	if wishes := f.Wishes(own, held, now); len(wishes) != 1 || wishes[0].to != "archive" || !wishes[0].pinned || !wishes[0].ready {
		t.Errorf("%+v", wishes)
	}
	later := now.Add(LateAfter)
	if wishes := f.Wishes(own, held, later); len(wishes) != 0 {
		t.Errorf("behind the command: %+v", wishes)
	}
	if f.Leaves(own, "a", later) {
		t.Error("behind the command the pin does not hold")
	}
}

// wished is a Wish that nothing prevents.
func wished(now time.Time) Wish {
	return Wish{account: "a", to: "other", held: now.Add(-time.Hour), firstHeard: now.Add(-time.Hour), ready: true}
}

func chosen(m *Mover, w Wish, now time.Time) bool { return m.Choose([]Wish{w}, now) != nil }

// Two consecutive checks must agree, and only one account is handed over at a time.
func TestAnAccountIsHandedOverWhenTwoLooksSayTheSame(t *testing.T) {
	now := time.Now()
	var m Mover
	third := wished(now)
	third.to = "third"
	if chosen(&m, wished(now), now) || chosen(&m, third, now) || chosen(&m, wished(now), now) {
		t.Error("one look was enough")
	}
	if !chosen(&m, wished(now), now) {
		t.Fatal("two looks were not enough")
	}
	other := wished(now)
	other.account = "b"
	m.Choose([]Wish{other}, now)
	if chosen(&m, other, now) {
		t.Error("two are handed over at once")
	}
	m.End(true, now)
	if !chosen(&m, other, now) {
		t.Error("the next one is not handed over")
	}
}

// The new runner must be ready and known for a while. The account must also have been held for a
// while, unless an operator pinned it to another runner.
func TestAnAccountIsHandedOverToASettledRunnerAlone(t *testing.T) {
	now := time.Now()
	try := func(change func(*Wish)) bool {
		var m Mover
		w := wished(now)
		change(&w)
		m.Choose([]Wish{w}, now)
		return chosen(&m, w, now)
	}
	if try(func(w *Wish) { w.ready = false }) || try(func(w *Wish) { w.firstHeard = now.Add(-settleTime / 2) }) || try(func(w *Wish) { w.held = now.Add(-settleTime / 2) }) {
		t.Error("it is handed over")
	}
	if !try(func(w *Wish) { w.held, w.pinned = now, true }) || !try(func(*Wish) {}) {
		t.Error("it is not handed over")
	}
}

// waits are the waits between consecutive attempts.
var waits = []time.Duration{retryFirst, 2 * retryFirst, 4 * retryFirst, 8 * retryFirst, retryMost, retryMost}

// Each retry waits longer, up to a minute.
func TestAHandOverThatFailsIsTriedAgainLater(t *testing.T) {
	w := wished(time.Now())
	w.pinned = true
	againBehind(t, w, false)
}

// If an account was handed over to even out the shares and came back, each further handover waits
// longer.
func TestAnAccountDoesNotGoToAndFro(t *testing.T) {
	againBehind(t, wished(time.Now()), true)
}

func againBehind(t *testing.T, w Wish, took bool) {
	t.Helper()
	var m Mover
	now := time.Now()
	m.Choose([]Wish{w}, now)
	for _, wait := range waits {
		if !chosen(&m, w, now) {
			t.Fatal("it is not tried again")
		}
		m.End(took, now)
		if chosen(&m, w, now.Add(wait-time.Millisecond)) {
			t.Fatalf("it is tried again before %s", wait)
		}
		now = now.Add(wait)
	}
}

// The leader's settings count as correct, and each difference is named once. Runners of another
// version and silent runners are not compared.
func TestRunnersWithOtherSettingsAreNamed(t *testing.T) {
	now := time.Now()
	word := func(name, version, role, settings string) Node {
		return Node{Node: name, Version: version, SaidAt: now, Accounts: []NodeAccount{{Account: "main", Role: role, Settings: settings}}}
	}
	all := []Node{word("a", "1", RoleStandby, "x"), word("b", "1", RoleActive, "y"), word("c", "1", RoleStandby, "y"), word("d", "2", RoleStandby, "z"), word("e", "1", RoleStandby, "")}
	var f Peers
	const says = "account main: a has other settings or schedules than b"
	if got := f.Note(all, now); got != says {
		t.Error(got)
	}
	if got := f.Note(all, now); got != "" {
		t.Errorf("again: %s", got)
	}
	if got := f.Note(append(all, word("f", "1", RoleStandby, "w")), now); got != "account main: a, f has other settings or schedules than b" {
		t.Error(got)
	}
	all[0].Accounts[0].Settings = "y"
	if got := f.Note(all, now); got != "" {
		t.Errorf("mended: %s", got)
	}
	if got := f.Note([]Node{all[1], word("a", "1", RoleStandby, "x")}, now); got != says {
		t.Errorf("and again: %s", got)
	}
}
