package crashtest

import (
	"encoding/json"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/schedules/plans"
)

// sweepAgain fires the schedule until every proxy has been listed since its last renewal.
func (w *world) sweepAgain(schedule string) (p plans.Plan) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		out, errs, code := w.cli("sweep", "run", schedule, "-o", "json")
		if code == cli.ExitDone || code == cli.ExitPerson {
			p = plans.Plan{}
			if err := json.Unmarshal([]byte(out), &p); err != nil {
				w.t.Fatal(err)
			}
			if p.LeftOutCounts[plans.ReasonUnread]+p.LeftOutCounts[plans.ReasonUnconfirmed] == 0 {
				return p
			}
			continue
		}
		if !strings.Contains(errs, "has fired before") { // this second already has a slot
			w.t.Fatalf("sweep run: exit %d\n%s", code, errs)
		}
	}
	w.t.Fatal("what was renewed is not listed again")
	return p
}
