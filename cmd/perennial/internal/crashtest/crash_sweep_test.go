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

// everySecond fires every second, so that an interrupted sweep resumes immediately, and slots are
// missed while no runner runs.
const everySecond = `schedules:
  - name: keep
    cron: "* * * * * *"
    renew_before: 300h
    duration_days: 30
    chunk: %d
`

type sweepMoment struct {
	point   string
	proxies int // enough for several pages of a listing, or for several batches of a plan
	chunk   int
}

func sweepMoments() []sweepMoment {
	return []sweepMoment{
		{"listing.page", 250, 20}, {"slot.claimed", 250, 20}, {"plan.published", 250, 20},
		{"plan.half", 250, 20}, // 13 commands, of which plannedTogether are in the first batch
	}
}

// sweepEverySecond starts with a known price, so that the first sweep takes all proxies together.
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

// SIGKILL hits the runner at every named moment of a sweep. The next run renews each proxy once and
// fires each slot once.
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

// awaitSwept waits until every proxy is charged for and nothing is in progress.
func (w *world) awaitSwept(proxies int) {
	w.t.Helper()
	await(w.t, "every proxy is renewed", func() bool { return len(w.renewals()) >= proxies })
	await(w.t, "nothing is in progress", func() bool {
		out, errs, code := w.cli("status", "--all=false", "-o", "json")
		return code == cli.ExitDone && out == "" && errs == ""
	})
}

// renewals counts the referee's charges of each proxy.
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

// checkSwept checks that each proxy was renewed once, each slot fired once, each accepted command
// ended once, and the books agree.
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

// checkSlots checks that every second between the first slot and the last has one slot.
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
		// The stop of the runner may have interrupted the last slot.
		if fired[at] != 1 || finished[at] > 1 || finished[at] == 0 && at.Before(last) {
			t.Errorf("slot %s fired %d times and finished %d times", at, fired[at], finished[at])
		}
	}
}

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
