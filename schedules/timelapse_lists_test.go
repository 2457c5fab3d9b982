package schedules

import (
	"context"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/testrun"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// TestWhateverListsShowNothingIsPaidTwiceOrLostSilently simulates months of accounts with random
// schedules, whose provider lists proxies wrongly for days. Each day a proxy that is about to expire
// is renewed, or something tells an operator.
func TestWhateverListsShowNothingIsPaidTwiceOrLostSilently(t *testing.T) {
	t.Parallel()
	seeds := 2
	if testrun.Check {
		seeds = 16
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newWrongLists(t, uint64(seed))
			for range 240 {
				w.step()
			}
			w.wrong, w.down = "", 0
			w.carryOut()
			w.answer()
			w.auditMoney(22 * fact.Day)
			_, err := w.ledger.Verify(t.Context())
			check(t, err)
		})
	}
}

// wrongLists is an account whose lists are wrong at times. A step is a quarter of a day.
type wrongLists struct {
	*year

	wrong string // what is wrong with lists now; "" if nothing is
	until int    // step at which that ends
	shown map[string]time.Time
}

// wrongs has the ways in which a list is wrong.
var wrongs = []string{"empty", "lacks some", "lacks most", "no expiry", "unreadable", "stale", "coarse"}

func newWrongLists(t *testing.T, seed uint64) *wrongLists {
	w := &wrongLists{year: newYear(t, 60, seed), shown: map[string]time.Time{}}
	match := func(countries ...string) plans.Match { return plans.Match{CountryCode: countries} }
	all := [][]plans.Schedule{
		{w.drawSchedule("all", match())},
		{w.drawSchedule("us", match("US")), w.drawSchedule("de", match("DE"))},
		{w.drawSchedule("us", match("US")), w.drawSchedule("all", match())},
		{w.drawSchedule("us", match("US"))},
	}[w.random.IntN(4)]
	var err error
	w.sweeper, err = New(Config{
		Account: "main", Ledger: w.ledger, Provider: w, Publisher: w, Clock: w.watch.Now, Schedules: all,
		Wallet: func(ctx context.Context) (int64, error) {
			wallet, err := w.client.Wallet(ctx)
			return wallet.BalanceCents, err
		},
		Proxy: func(ctx context.Context, id string) (upstream.Proxy, error) { return w.client.Proxy(ctx, id) },
	})
	check(t, err)
	return w
}

func (w *wrongLists) drawSchedule(name string, match plans.Match) plans.Schedule {
	s := keepalive()
	s.Name, s.Match, s.Cron, s.RenewBefore = name, match, "0 */6 * * *", time.Duration(48+w.random.IntN(120))*time.Hour
	for _, change := range []func(){
		func() { s.DurationDays = 60 },
		func() { s.DailyBudgetCents = 2000 },
		func() { s.ApproveOverCents = 1000 },
		func() { s.BudgetCents = 1500 },
		func() { s.Chunk = 3 },
	} {
		if w.chance(20) {
			change()
		}
	}
	return s
}

// chosen makes the same choice for the same values, with a probability in percent.
func chosen(percent int, of ...any) bool {
	sum := fnv.New32a()
	_, _ = fmt.Fprint(sum, of...)
	return int(sum.Sum32()%100) < percent
}

// ProxiesPage implements Provider.
func (w *wrongLists) ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	page, err := w.year.ProxiesPage(ctx, r)
	items := page.Items
	page.Items = nil
	for _, p := range items {
		some, most := chosen(15, p.ProxyID, w.until), chosen(60, p.ProxyID, w.until)
		switch {
		case w.wrong == "empty", w.wrong == "lacks some" && some, w.wrong == "lacks most" && most:
			continue
		case w.wrong == "unreadable" && some:
			page.Unusable = append(page.Unusable, upstream.Unusable{ID: p.ProxyID, Position: 1, Field: "expires_at", Why: "expires_at is not a time"})
			continue
		case w.wrong == "no expiry" && some:
			p.ExpiresAt = nil
		case w.wrong == "stale":
			if at, ok := w.shown[p.ProxyID]; ok {
				p.ExpiresAt = &at
			}
		case w.wrong == "coarse":
			p.ExpiresAt = new(p.ExpiresAt.Truncate(time.Minute))
		default:
			w.shown[p.ProxyID] = *p.ExpiresAt
		}
		page.Items = append(page.Items, p)
	}
	return page, err
}

func (w *wrongLists) step() {
	w.t.Helper()
	w.steps++
	w.watch.add(6 * time.Hour)
	switch {
	case w.down > 0:
		w.down--
	case w.chance(2):
		w.down = 1 + w.random.IntN(4)
	}
	if w.steps >= w.until {
		w.wrong, w.until = "", w.steps+1+w.random.IntN(8)
		if w.chance(50) {
			w.wrong = wrongs[w.random.IntN(len(wrongs))]
		}
	}
	if w.steps%60 == 0 {
		w.fill()
	}
	if w.chance(50) {
		w.answer()
	}
	if w.down > 0 {
		return
	}
	_ = w.sweeper.lister.WaitPass(w.t.Context()) // fails if the list is wrong
	check(w.t, w.sweeper.Warn(w.t.Context()))
	w.run()
	if w.chance(10) {
		w.renewByHand()
	}
	if w.chance(6) {
		w.control("/faults", `{"method":"POST","path":"/api/v1/proxies/renew","fault":"unresolved_record"}`)
	}
	w.carryOut()
	w.told()
}

// run runs every schedule, and approves some of the plans that need it.
func (w *wrongLists) run() {
	w.t.Helper()
	all, err := w.sweeper.List(w.t.Context())
	check(w.t, err)
	for _, s := range all {
		if s.Plan != "" && w.chance(40) {
			_ = w.sweeper.Approve(w.t.Context(), s.Plan, "ann", "it is right") // refused if the plan is out of date
		}
	}
	for _, r := range w.sweeper.runners {
		_, _ = w.sweeper.RunNow(w.t.Context(), r.Name, "ann", "due", nil) // fails if the list is wrong
	}
}

// told checks that something tells an operator of each proxy that expires before the next three
// runs are over. Every run so far should have renewed it.
func (w *wrongLists) told() {
	w.t.Helper()
	all, err := w.sweeper.List(w.t.Context())
	check(w.t, err)
	late, _, err := w.sweeper.Late(w.t.Context(), all)
	check(w.t, err)
	reviews, err := w.ledger.Operations.CountReviews(w.t.Context())
	check(w.t, err)
	uncovered, known := w.sweeper.Uncovered(w.t.Context())
	_, unreadable, err := w.ledger.Fleet.CountUnlisted(w.t.Context())
	check(w.t, err)
	told := late > 0 || reviews > 0 || uncovered > 0 || unreadable > 0 || !known || w.sweeper.NotReady() != ""
	for _, s := range all {
		told = told || s.Plan != "" || s.Problem != "" || s.StillOverLimit > 0 || s.Left != nil
	}
	now := w.watch.Now()
	for p, err := range w.client.Proxies(w.t.Context(), 200) {
		check(w.t, err)
		if !told && p.ExpiresAt.After(now) && p.ExpiresAt.Before(now.Add(18*time.Hour)) {
			w.t.Errorf("step %d, list %q: %s expires at %s, and nothing says so", w.steps, w.wrong, p.ProxyID, p.ExpiresAt)
		}
	}
}
