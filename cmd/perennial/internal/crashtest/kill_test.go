//go:build check

package crashtest

import (
	"math/rand/v2"
	"testing"
	"time"
)

// SIGKILL hits a real runner repeatedly while commands and duplicates arrive, and replies are
// dropped after execution. In the end every command has ended once, no key was charged twice, and
// ledger, wallet, referee and events agree.
func TestKilledAtRandomMomentsEveryCommandEndsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2000)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	p := producer{w: w, random: random}
	for n := range kills() {
		p.limit += newPerKill
		run, line := w.run()
		w.fault(map[string]any{
			"environment": "sandbox", "method": "POST", "path": "/api/v1/*", "skip": random.IntN(6), "times": 1 + random.IntN(2), "fault": "drop_after",
		})
		after := time.NewTimer(time.Duration(random.IntN(250)) * time.Millisecond)
		p.publishUntil(line.NATS, after.C)
		run.kill()
		if n%10 == 9 {
			t.Logf("killed %d times, %d commands", n+1, len(p.commands))
		}
	}
	w.control("DELETE", "/faults", nil)
	run, line := w.run()
	p.publishRest(line.NATS)
	p.waitForAll(line.NATS)
	if code := run.terminate(); code != 0 {
		t.Fatalf("run ended with code %d after SIGTERM\n%s", code, run.stderr)
	}
	checkBooks(t, w, p.ids())
	t.Logf("%d kills, %d commands, every one published at least twice", kills(), len(p.commands))
}
