package schedules

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

// considered is the most proxies that a plan reads. It is small, so that the test can try many
// fleets.
const considered = 1000

// mass returns a random fleet in the order of its expiries, with random numbers of retired,
// taken, claimed, long expired and live proxies.
func mass(random *rand.Rand) (all []tables.Proxy, in *read) {
	in = &read{Inputs: plans.Inputs{Now: noon, Schedule: keepalive(), Taken: map[string]bool{}, Claimed: map[string]bool{}, OnItsWay: map[string]bool{}, Barred: map[string]int{}}}
	size := func() int { return []int{0, 1, considered / 100, considered, 2*considered + 7}[random.IntN(5)] }
	for _, from := range []time.Duration{-90 * 24 * time.Hour, time.Second} { // expired, then live
		free, barred := size(), size()
		for i := 0; free+barred > 0; i++ {
			p := px(fmt.Sprintf("px_%d_%d", int64(from), i), from+time.Duration(i)*time.Second)
			if random.IntN(free+barred) < free {
				free--
			} else {
				barred--
				p.Retired = random.IntN(2) == 0
				in.Taken[p.ProxyID], in.Claimed[p.ProxyID] = !p.Retired && i%2 == 0, !p.Retired && i%2 == 1
			}
			all = append(all, p)
		}
	}
	return all, in
}

// In every fleet, the live proxies that may be renewed are planned by nearest expiry, and
// proxies that are not examined are counted.
func TestTrap54NoMassHidesWhatLives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		all, in := mass(rand.New(rand.NewPCG(seed, 54)))
		g := &gathering{in: in, filter: in.Schedule.Match.Filter(in.Lists), staying: newStayingCount(map[string]int{}), most: considered, kinds: map[plans.Kind]bool{}}
		var living []string
		for _, p := range all {
			if free := in.BarredBy(g.filter, p) == ""; free && p.ExpiresAt.After(noon) && len(living) < considered {
				living = append(living, p.ProxyID)
			}
			g.add(p)
		}
		var planned []string
		expired := false
		gathered := g.gathered()
		for _, p := range gathered {
			switch free := in.BarredBy(g.filter, p) == ""; {
			case free && !p.ExpiresAt.After(noon):
				expired = true
			case free && expired:
				t.Fatalf("seed %d: %s lives and stands behind what has expired", seed, p.ProxyID)
			case free:
				planned = append(planned, p.ProxyID)
			}
		}
		counted := len(gathered) + in.Beyond
		for _, n := range in.Barred {
			counted += n
		}
		want(t, fmt.Sprintf("seed %d: planned", seed), planned, living)
		want(t, fmt.Sprintf("seed %d: counted", seed), counted, len(all))
	}
}
