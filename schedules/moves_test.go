//go:build check

package schedules

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/schedules/plans"
)

// TestNoFleetIsLostByAMoveOfItsSchedule simulates a random month in which a schedule is renamed,
// and moved to other hours and zones. It is a month in which clocks change at midnight, and the
// runner is down for up to 20 hours at a time. Slots are at most 7 hours apart, or 14 when they
// move, and missed slots are served after a restart. With renew_before of 24 hours, no proxy may
// expire, and none may be renewed early.
func TestNoFleetIsLostByAMoveOfItsSchedule(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 40))
		draw := func(from ...string) string { return from[random.IntN(len(from))] }
		moved := func(s *plans.Schedule) {
			s.Was = ""
			switch random.IntN(4) {
			case 0:
				s.Was, s.Name = s.Name, fmt.Sprintf("keep-%d", random.Uint32())
			case 1:
				s.Cron = draw("0 */6 * * *", "0 0,6,12,18 * * *", "30 2,8,14,20 * * *", "0 * * * 0-6", "@every 7h")
			case 2:
				s.Timezone = draw("Africa/Cairo", "Asia/Beirut", "America/Havana", "Atlantic/Azores", "America/Asuncion", "UTC")
			}
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := daily()
			s.RenewBefore, s.Cron = 24*time.Hour, "0 */6 * * *"
			w := &bulkhead{t: t, expires: map[string]time.Time{}, renewed: map[string]time.Time{}, mended: make(chan struct{})}
			inBubble(t, s, nil, func(t *testing.T, b *bench) {
				b.downFor(83*fact.Day, unchanged) // until 24 March
				w.clock, w.ledger = b.config.Clock, b.Ledger
				w.mu.Lock()
				for n := range 60 {
					id := fmt.Sprintf("px_%d", n)
					w.expires[id] = b.Clock().Add(time.Duration(80+random.IntN(25*24)) * time.Hour)
				}
				w.mu.Unlock()
				for end := b.Clock().Add(28 * fact.Day); b.Clock().Before(end); {
					time.Sleep(time.Duration(25+random.IntN(60)) * time.Hour)
					stopped, old := b.Clock(), b.runners[0].calendar
					b.downFor(time.Duration(random.IntN(20))*time.Hour, moved)
					w.alive(b)
					passed, _ := old.Between(stopped, b.Clock().Add(-2*plans.MaxJitter))
					if len(passed) == 0 {
						continue
					}
					if due, _ := b.runners[0].calendar.Between(passed[0], b.Clock().Add(-2*plans.MaxJitter)); len(due) > 0 {
						newest, err := b.Ledger.Sweeps.SlotsOf(t.Context(), b.config.Schedules[0].Name, 1)
						if check(t, err); len(newest) == 0 || newest[0].At.Before(stopped) {
							t.Fatalf("nothing ran from %s to %s, and the slots %v are not caught up under %+v: %v", stopped, b.Clock(), due, b.config.Schedules[0], b.states())
						}
					}
				}
			}, func(_ *testing.T, c *Config) { c.Provider, c.Publisher = fake(w.page), w })
		})
	}
}

// alive checks that no proxy has expired, and that none was renewed early or twice.
func (w *bulkhead) alive(b *bench) {
	b.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lost) > 0 {
		b.t.Fatalf("%s: %v had expired when they were renewed, under %+v; slots %v", b.Clock().Format(time.RFC3339), w.lost, b.config.Schedules[0], b.states())
	}
	for id, at := range w.expires {
		if left := at.Sub(b.Clock()); left <= 0 || left > 30*fact.Day+24*time.Hour {
			b.t.Fatalf("%s: %s expires in %s under %+v; slots %v", b.Clock().Format(time.RFC3339), id, left, b.config.Schedules[0], b.states())
		}
	}
	rows, err := b.Ledger.Rows(b.t.Context(), 0, 100_000)
	check(b.t, err)
	for _, r := range rows {
		if r.Type == (fact.ProxyExpired{}).FactType() {
			b.t.Fatalf("%s", r.Data)
		}
	}
}
