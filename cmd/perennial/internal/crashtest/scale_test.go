//go:build check

package crashtest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"perennial/schedules"
	"perennial/schedules/plans"
)

// More proxies are due than one sweep plans, and the plan is more than twice as long as the NATS
// server's default max_payload. The plan adds up, `schedules run` prints what it publishes, and
// `schedules list` shows the rest until it is zero.
func TestPartsOfASweepOverMaxPayloadAddUp(t *testing.T) {
	t.Parallel()
	const due, planned, maxPayload = 10_120, 10_000, 1 << 20
	w := newWorld(t, due+1)
	n := newNATSProcess(t, w)
	n.start("pw")
	w.configure(n.url(), "schedules:\n  - {name: keep, cron: \"0 0 1 1 *\", renew_before: 300h, duration_days: 30}\n")
	w.run()
	w.mustCLI("renew", "px_1", "--id", "price", "--wait")

	p := w.plan("plan", "keep")
	checkParts(t, p)
	if len(p.Included) != planned || p.Left == nil || p.Left.Proxies != due-planned {
		t.Errorf("%d of %d due are planned and left is %+v", len(p.Included), p.Due, p.Left)
	}
	if text, err := json.Marshal(p); err != nil || len(text) < 2*maxPayload {
		t.Errorf("a plan of %d bytes is shorter than twice max_payload (%v)", len(text), err)
	}
	if table := w.mustCLI("sweep", "plan", "keep"); !strings.Contains(table, "120 more are due: they follow in this run") {
		t.Errorf("the table says of the rest: %.400s", table)
	}

	ran := w.plan("run", "keep")
	checkParts(t, ran)
	if ran.Hash != p.Hash || ran.Left == nil || ran.Left.Proxies != due-planned {
		t.Errorf("it ran plan %s, and %s was shown; left %+v", ran.Hash, p.Hash, ran.Left)
	}
	if left := w.sweepLeft(); left != 0 && left != due-planned {
		t.Errorf("sweep list says that %d are left", left)
	}
	await(t, "every proxy is renewed", func() bool { return len(w.renewals()) == due+1 })
	await(t, "nothing is left", func() bool { return w.sweepLeft() == 0 })
	for id, times := range w.renewals() {
		if times != 1 {
			t.Errorf("%s was renewed %d times", id, times)
		}
	}
}

// checkParts checks that each due proxy is planned, or left out with a reason. Each planned proxy
// is in one command, and the lines add up to the totals.
func checkParts(t testing.TB, p plans.Plan) {
	t.Helper()
	out, sum := 0, int64(0)
	for _, n := range p.LeftOutCounts {
		out += n
	}
	for _, x := range p.Included {
		sum += x.EstimateCents.Or(0)
	}
	var inCommands []string
	for _, text := range p.Commands {
		var c struct {
			ProxyIDs []string `json:"proxy_ids"`
		}
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		inCommands = append(inCommands, c.ProxyIDs...)
	}
	ids := included(p)
	slices.Sort(ids)
	slices.Sort(inCommands)
	if p.Due != len(ids)+out || p.EstimateCents.Or(0) != sum || !slices.Equal(ids, inCommands) || len(slices.Compact(ids)) != len(inCommands) {
		t.Errorf("%d due, %d planned and %d left out; %d cents of %d; %d in commands", p.Due, len(ids), out, p.EstimateCents.Or(0), sum, len(inCommands))
	}
	if p.WalletCents == nil || *p.WalletAfterCents != *p.WalletCents-p.ReservedCents-sum {
		t.Errorf("wallet %v less %d and %d is not %v", p.WalletCents, p.ReservedCents, sum, p.WalletAfterCents)
	}
}

// sweepLeft returns how many proxies `schedules list` shows as left for the only schedule.
func (w *world) sweepLeft() int {
	w.t.Helper()
	var s schedules.Status
	if err := json.Unmarshal([]byte(w.mustCLI("sweep", "list", "-o", "json")), &s); err != nil {
		w.t.Fatal(err)
	}
	if s.Left == nil {
		return 0
	}
	return s.Left.Proxies
}
