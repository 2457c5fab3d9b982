package schedules

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/queue/publish"
	"perennial/schedules/listing"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// million is a provider with n proxies in ten countries. A page token is the number of the next
// proxy. The proxies are computed, not stored.
type million struct {
	n       int
	expires func(i int) time.Time
	pages   int
	refuse  map[int]bool // pages whose token is refused once
}

func (m *million) ProxiesPage(_ context.Context, r upstream.PageRequest) (page upstream.Page[upstream.Proxy], err error) {
	m.pages++
	first := 0
	if r.Token != "" {
		if first, err = strconv.Atoi(r.Token); err != nil {
			return page, err
		}
		if m.refuse[m.pages] {
			delete(m.refuse, m.pages)
			return page, refused(upstream.CodeInvalidPageToken)
		}
	}
	for i := first; i < min(first+r.Size, m.n); i++ {
		expires := m.expires(i)
		page.Items = append(page.Items, upstream.Proxy{
			ProxyID: fmt.Sprintf("px_%07d", i), Status: "active", IPType: "isp", Protocol: "socks5", CountryCode: fmt.Sprintf("C%d", i%10),
			Region: "Region", LineName: "premium", ExpiresAt: &expires,
		})
	}
	page.HasMore, page.NextPageToken = first+r.Size < m.n, strconv.Itoa(first+r.Size)
	return page, nil
}

// spread returns expiries in no order. Of n proxies, about due expire within the next three
// days.
func spread(n, due int) func(i int) time.Time {
	return func(i int) time.Time {
		at := i * 7919 % n // 7919 is prime, so every number occurs once
		if at < due {
			return noon.Add(time.Hour + time.Duration(at)*72*time.Hour/time.Duration(due+due/10))
		}
		return noon.Add(100*time.Hour + time.Duration(at)*time.Second)
	}
}

// counted is a commands stream that keeps only the ids of the proxies.
type counted struct {
	commands int
	expiries []time.Time
}

func (c *counted) PublishCommands(_ context.Context, _ string, out []publish.Outgoing) error {
	for _, o := range out {
		c.commands++
		_, due, _ := strings.Cut(string(o.Data), `"due_before":"`)
		due, _, _ = strings.Cut(due, `"`)
		at, err := time.Parse(time.RFC3339, due)
		if err != nil {
			return err
		}
		c.expiries = append(c.expiries, at)
	}
	return nil
}

// large returns a sweeper whose ledger has n listed proxies, due of which are due, and a price
// for each country.
func large(t testing.TB, n, due int, schedule plans.Schedule) (*Sweeper, *counted, *million) {
	t.Helper()
	w, out := &watch{now: noon}, &counted{}
	provider := &million{n: n, expires: spread(n, due)}
	s, err := New(Config{
		Account: "main", Ledger: openLedger(t, filepath.Join(t.TempDir(), "main.ledger.db"), w.Now), Provider: provider, Publisher: out,
		Clock: w.Now, Schedules: []plans.Schedule{schedule},
	})
	check(t, err)
	for i := range 10 {
		paid(t, s.Ledger, fmt.Sprintf("px_%07d", i), 300)
	}
	w.add(time.Second)
	check(t, s.lister.WaitPass(t.Context()))
	return s, out, provider
}

// The fleet needs three plans.
func TestWhatIsDueBecomesChunksTheNearestExpiryFirst(t *testing.T) {
	t.Parallel()
	const most, due = 1000, 1500
	ctx := failpoint.WithSize(t.Context(), "plan.most", most)
	s, out, _ := large(t, due+500, due, keepalive())
	var rest *remainder
	for slots := 0; ; slots++ {
		plan, err := s.fire(ctx, s.runners[0], firing{slot: noon.Add(time.Duration(slots) * time.Second), rest: rest})
		check(t, err)
		if rest = s.runners[0].rest.Load(); rest == nil {
			want(t, "plans", slots+1, 2)
			break
		}
		want(t, "left", plan.Left.Proxies, due-(slots+1)*most)
	}
	want(t, "commands", out.commands, due/100)
	for i := 1; i < len(out.expiries); i++ {
		if out.expiries[i].Before(out.expiries[i-1]) {
			t.Fatalf("command %d is due at %s, after %s", i, out.expiries[i], out.expiries[i-1])
		}
	}
}

func TestARefusedTokenBeginsTheListingAgainNotTheRenewals(t *testing.T) {
	s, out, provider := large(t, 5_000, 300, keepalive())
	plan, err := s.fire(t.Context(), s.runners[0], firing{slot: noon})
	check(t, err)
	provider.pages, provider.refuse = 0, map[int]bool{20: true}
	check(t, s.lister.WaitPass(t.Context()))
	want(t, "pages: nineteen, the refused one, and all of them", provider.pages, 20+25)
	again, err := s.fire(t.Context(), s.runners[0], firing{slot: noon.Add(time.Second)})
	check(t, err)
	want(t, "due", again.Due, 300)
	want(t, "planned a second time", len(again.Commands), 0)
	want(t, "commands: the same again, which are absorbed", out.commands, 2*len(plan.Commands))
	settled := map[string]bool{}
	for _, c := range plan.Planned {
		settled[c.CommandID] = true
	}
	want(t, "ids of both sweeps", len(settled), 3)
}

const fleetSize = 1_000_000

// peak returns the process's peak memory in MiB, including SQLite's.
func peak(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	check(b, err)
	_, after, found := strings.Cut(string(text), "VmHWM:")
	if !found {
		b.Fatal("no VmHWM in /proc/self/status")
	}
	kib, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
	check(b, err)
	return kib / 1024
}

// BenchmarkAFullPass lists a million proxies into an empty ledger, then without changes, and
// then with every expiry changed. The provider replies immediately, so the benchmark measures
// only our own work.
func BenchmarkAFullPass(b *testing.B) {
	for b.Loop() {
		w, provider := &watch{now: noon}, &million{n: fleetSize, expires: spread(fleetSize, 100_000)}
		l := listing.New(listing.Config{
			Ledger: openLedger(b, filepath.Join(b.TempDir(), "main.ledger.db"), w.Now), Provider: provider, Clock: w.Now,
		})
		pass := func(unit string) {
			began := time.Now()
			check(b, l.WaitPass(b.Context()))
			b.ReportMetric(time.Since(began).Seconds(), unit)
			w.add(time.Hour)
		}
		pass("s-first")
		pass("s-again")
		moved := provider.expires
		provider.expires = func(i int) time.Time { return moved(i).Add(30 * fact.Day) }
		pass("s-moved")
	}
	held := peak(b)
	b.ReportMetric(held, "peak-MiB")
	if held > 256 {
		b.Errorf("a pass held %.0f MiB", held)
	}
}

// BenchmarkAPlanOfAMillion plans over a million known proxies.
func BenchmarkAPlanOfAMillion(b *testing.B) {
	kept := keepalive()
	kept.Keep = plans.Keep{AtLeast: 100_000, Per: []string{"country_code"}}
	for name, c := range map[string]struct {
		schedule plans.Schedule
		due      int
	}{"10000_due": {keepalive(), 10_000}, "100000_due": {keepalive(), 100_000}, "100000_due_and_groups": {kept, 100_000}} {
		b.Run(name, func(b *testing.B) {
			s, _, _ := large(b, fleetSize, c.due, c.schedule)
			var plan plans.Plan
			b.ResetTimer()
			for range b.N {
				var err error
				plan, err = s.PlanNow(b.Context(), "keepalive")
				check(b, err)
			}
			b.ReportMetric(float64(len(plan.Included)), "proxies")
			b.ReportMetric(float64(len(plan.Commands)), "commands")
			if per := b.Elapsed() / time.Duration(b.N); per > 3*time.Second {
				b.Errorf("a plan took %s", per)
			}
		})
	}
}

// BenchmarkAHundredThousandDue turns all that is due into published commands.
func BenchmarkAHundredThousandDue(b *testing.B) {
	s, out, _ := large(b, fleetSize, 100_000, keepalive())
	b.ResetTimer()
	slot := noon
	for range b.N {
		var rest *remainder
		for again := true; again; again = rest != nil {
			slot = slot.Add(time.Second)
			_, err := s.fire(b.Context(), s.runners[0], firing{slot: slot, rest: rest})
			check(b, err)
			rest = s.runners[0].rest.Load()
		}
	}
	b.ReportMetric(float64(out.commands)/float64(b.N), "commands")
	b.ReportMetric(peak(b), "peak-MiB")
}

// BenchmarkAForecastOfAMillion makes a forecast for thirty days, and repeats it without changes.
func BenchmarkAForecastOfAMillion(b *testing.B) {
	s, _, _ := large(b, fleetSize, 100_000, keepalive())
	b.ResetTimer()
	for range b.N {
		for _, unit := range []string{"s-first", "s-again"} {
			began := time.Now()
			f, err := s.Forecast(b.Context(), "keepalive", 30)
			check(b, err)
			b.ReportMetric(time.Since(began).Seconds(), unit)
			b.ReportMetric(float64(f.Days[0].Renewals), "renewals-today")
		}
		clear(s.counted.of)
	}
}
