package crashtest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/upstream/sandbox"
)

// everySecond fires all the time, so that whatever a crash left is resumed at
// once, and slots are missed while no runner runs.
const everySecond = `schedules:
  - name: keep
    cron: "* * * * * *"
    renew_before: 300h
    duration_days: 30
    chunk: %d
`

// sweepMoment is one moment of a sweep.
type sweepMoment struct {
	point   string
	proxies int // so many that a pass takes several pages, or a plan several batches
	chunk   int
}

func sweepMoments() []sweepMoment {
	return []sweepMoment{
		{"listing.page", 250, 20}, {"slot.claimed", 250, 20}, {"plan.published", 250, 20},
		{"plan.half", 250, 20}, // 13 commands, of which plannedTogether are in the first batch
	}
}

// sweepEverySecond begins with a price, so that the first sweep takes all of the
// proxies at once.
func (w *world) sweepEverySecond(m sweepMoment, url string) {
	w.t.Helper()
	w.configure(url, "")
	run, _ := w.run()
	w.mustCLI("renew", "px_1", "--id", "price", "--wait")
	if code := run.terminate(); code != cli.ExitDone {
		w.t.Fatalf("run ended with code %d\n%s", code, run.stderr)
	}
	w.configure(url, fmt.Sprintf(everySecond, m.chunk))
}

// TestCrashMatrixSweepsKilled kills the runner with SIGKILL at every named
// moment of a sweep; the next one renews each proxy once and fires each slot
// once.
func TestCrashMatrixSweepsKilled(t *testing.T) {
	t.Parallel()
	for _, m := range sweepMoments() {
		t.Run(m.point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, m.proxies)
			w.sweepEverySecond(m, "")
			w.runUntil(m.point + " kill").awaitKilled()
			run, _ := w.run()
			w.awaitSwept(m.proxies)
			if code := run.terminate(); code != cli.ExitDone {
				t.Errorf("run ended with code %d\n%s", code, run.stderr)
			}
			checkSwept(t, w, m.proxies)
		})
	}
}

// awaitSwept waits until every proxy was paid for and nothing is in progress.
func (w *world) awaitSwept(proxies int) {
	w.t.Helper()
	await(w.t, "every proxy is renewed", func() bool { return len(w.renewals()) >= proxies })
	await(w.t, "nothing is in progress", func() bool {
		out, errs, code := w.cli("status", "--all=false", "-o", "json")
		return code == cli.ExitDone && out == "" && errs == ""
	})
}

// renewals counts the charges of each proxy by the referee.
func (w *world) renewals() map[string]int {
	w.t.Helper()
	charges, err := sandbox.ReadCharges(w.charges)
	if err != nil {
		w.t.Fatal(err)
	}
	times := map[string]int{}
	for _, c := range charges {
		if c.Kind == "charge" {
			times[c.ProxyID]++
		}
	}
	return times
}

// checkSwept: each proxy was renewed once, each slot fired once and every
// command that was taken in ended once; and the books agree.
func checkSwept(t testing.TB, w *world, proxies int) {
	t.Helper()
	times := w.renewals()
	for n := range proxies {
		if id := fmt.Sprintf("px_%d", n+1); times[id] != 1 {
			t.Errorf("%s was renewed %d times", id, times[id])
		}
	}
	fired, finished, commands := map[time.Time]int{}, map[time.Time]int{}, []string{}
	for _, r := range w.wholeJournal() {
		var f struct {
			Slot      time.Time   `json:"slot"`
			Slots     []time.Time `json:"slots"`
			CommandID string      `json:"command_id"`
		}
		if !strings.HasPrefix(r.Type, "sweep.") && r.Type != "command.accepted" {
			continue
		}
		if err := json.Unmarshal([]byte(r.Data), &f); err != nil {
			t.Fatal(err)
		}
		switch r.Type {
		case "sweep.planned":
			fired[f.Slot]++
		case "sweep.missed":
			for _, slot := range f.Slots {
				fired[slot], finished[slot] = fired[slot]+1, 1
			}
		case "sweep.finished":
			finished[f.Slot]++
		case "command.accepted":
			commands = append(commands, f.CommandID)
		}
	}
	checkSlots(t, fired, finished)
	checkBooks(t, w, commands)
}

// checkSlots: of every second between the first slot and the last there is one.
func checkSlots(t testing.TB, fired, finished map[time.Time]int) {
	t.Helper()
	slots := []time.Time{}
	for slot := range fired {
		slots = append(slots, slot)
	}
	if len(slots) == 0 {
		t.Fatal("no slot has fired")
	}
	slices.SortFunc(slots, time.Time.Compare)
	last := slots[len(slots)-1]
	for at := slots[0]; !at.After(last); at = at.Add(time.Second) {
		// The end of the run may have cut the very last one short.
		if fired[at] != 1 || finished[at] > 1 || finished[at] == 0 && at.Before(last) {
			t.Errorf("slot %s fired %d times and finished %d times", at, fired[at], finished[at])
		}
	}
}

// wholeJournal reads the stopped runner's journal to its end.
func (w *world) wholeJournal() (all []chain.Row) {
	w.t.Helper()
	l, err := ledger.Open(w.t.Context(), ledger.Config{Path: filepath.Join(w.dir, "data", "main.ledger.db"), ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for {
		rows, err := l.Rows(w.t.Context(), int64(len(all)), 10_000)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(rows) == 0 {
			return all
		}
		all = append(all, rows...)
	}
}
