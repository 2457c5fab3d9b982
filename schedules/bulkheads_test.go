package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/testrun"
	"perennial/queue/publish"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// bulkhead has several schedules, one of which is broken until it is repaired. Published
// renewals succeed immediately.
type bulkhead struct {
	t      *testing.T
	broken string // name of the broken schedule
	fault  string // a key of faultsOfASchedule
	mended chan struct{}
	began  time.Time
	ledger *ledger.Ledger

	mu      sync.Mutex
	expires map[string]time.Time
	renewed map[string]time.Time // time of the renewal, by proxy id
	clock   func() time.Time     // clock that decides whether a proxy is lost
	lost    []string             // proxies that were renewed after they had expired
}

const watched = time.Hour

// faultsOfASchedule has the permanent faults of one schedule, each with the type of the fact
// that reports it.
var faultsOfASchedule = map[string]string{
	"its list is gone": "sweep.failed", "its list is none": "sweep.failed", "its commands are not stored": "sweep.failed", "its commands get no answer": "",
	"its renewals fail": "", "its price is more than the wallet": "sweep.held", "its budget is a cent": "sweep.held",
	"its approved commands are not stored": "sweep.held",
}

func (w *bulkhead) isBroken(schedule, fault string) bool {
	select {
	case <-w.mended:
		return false
	default:
		return schedule == w.broken && fault == w.fault
	}
}

// PublishCommands implements Publisher.
func (w *bulkhead) PublishCommands(ctx context.Context, _ string, out []publish.Outgoing) error {
	for _, o := range out {
		var c command.RenewalCommand
		check(w.t, json.Unmarshal(o.Data, &c))
		schedule, state := c.Labels[plans.LabelSchedule], fact.LineSucceeded
		switch {
		case w.isBroken(schedule, "its commands are not stored"), w.isBroken(schedule, "its approved commands are not stored"):
			return errors.New("no space left on device")
		case w.isBroken(schedule, "its commands get no answer"):
			select {
			case <-w.mended:
			case <-ctx.Done():
				return ctx.Err()
			}
		case w.isBroken(schedule, "its renewals fail"):
			state = fact.LineFailed
		}
		if err := w.renew(ctx, c, state); err != nil {
			return err
		}
	}
	return nil
}

func (w *bulkhead) renew(ctx context.Context, c command.RenewalCommand, state fact.LineState) error {
	of := fact.Ref{CommandID: c.ID, Labels: c.Labels}
	ref := fact.Ref{CommandID: c.ID, OperationID: c.ID + "/0001", Labels: c.Labels}
	settled := fact.RenewalSettled{Ref: ref, Status: "completed", Attempt: 1}
	if state == fact.LineFailed {
		settled.Status = "failed"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range c.ProxyIDs {
		settled.Items = append(settled.Items, fact.Line{ProxyID: id, State: state})
		if w.clock != nil && !w.expires[id].After(w.clock()) {
			w.lost = append(w.lost, id)
		}
		if state == fact.LineSucceeded {
			w.expires[id], w.renewed[id] = w.expires[id].AddDate(0, 0, 30), time.Now()
		}
	}
	return w.ledger.Write(ctx, func(tx *ledger.Tx) error {
		if known, err := tx.Known(c.ID); err != nil || known.AcceptedHash != "" {
			return err
		}
		return tx.Append(
			fact.CommandAccepted{
				Ref: of, Kind: fact.KindRenewal, ContentHash: "h", Content: json.RawMessage(`{}`), DurationDays: c.DurationDays,
				Operations: []fact.Planned{{OperationID: ref.OperationID, Chunk: "0001", Generation: 1, Key: "key-" + c.ID, ProxyIDs: c.ProxyIDs}},
			},
			fact.OperationSending{Ref: ref, Attempt: 1, Key: "key-" + c.ID, Body: "{}", SentAt: tx.Now(), Observed: c.ExpectExpiresAt}, settled)
	})
}

func (w *bulkhead) page(upstream.PageRequest) (page upstream.Page[upstream.Proxy], err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, at := range w.expires {
		page.Items = append(page.Items, upstream.Proxy{ProxyID: id, CountryCode: id, ExpiresAt: &at})
	}
	return page, nil
}

func (w *bulkhead) readFile(name string) ([]byte, error) {
	switch {
	case w.isBroken(name, "its list is gone"):
		return nil, errors.New("no such file")
	case w.isBroken(name, "its list is none"):
		return []byte("\"px 1\"\n\x00"), nil
	}
	return fmt.Appendf(nil, "%s-1\n%s-2\n", name, name), nil
}

// build chooses the schedules, two proxies for each, and the fault at random.
func (w *bulkhead) build(c *Config, seed uint64) {
	w.began, w.ledger, w.expires, w.renewed, w.mended = time.Now(), c.Ledger, map[string]time.Time{}, map[string]time.Time{}, make(chan struct{})
	c.Provider, c.Publisher, c.ReadFile, c.Schedules = fake(w.page), w, w.readFile, nil
	c.Wallet = func(context.Context) (int64, error) { return 100_000, nil }
	faults := slices.Sorted(maps.Keys(faultsOfASchedule))
	random := rand.New(rand.NewPCG(seed, seed))
	w.broken, w.fault = fmt.Sprintf("s%d", random.IntN(3)), faults[seed%uint64(len(faults))]
	for i := range 3 {
		s := keepalive()
		s.Name = fmt.Sprintf("s%d", i)
		s.Cron = []string{"*/15 * * * *", "7 * * * *", "*/20 * * * *"}[random.IntN(3)]
		s.Match.ProxyIDsFile = s.Name
		if w.isBroken(s.Name, "its budget is a cent") {
			s.BudgetCents = 1
		}
		if w.isBroken(s.Name, "its approved commands are not stored") {
			s.ApproveOverCents = 1
		}
		cents := int64(300)
		if w.isBroken(s.Name, "its price is more than the wallet") {
			cents = 1 << 49
		}
		for n := range 2 {
			id := fmt.Sprintf("%s-%d", s.Name, n+1)
			w.expires[id] = time.Now().Add(time.Duration(10+random.IntN(60)) * time.Hour)
			renewal(w.t, c.Ledger, 0, id, "succeeded", cents, time.Now().Add(-30*fact.Day))
		}
		c.Schedules = append(c.Schedules, s)
	}
}

// TestOneBrokenScheduleStopsNoOther causes each fault in turn, in a random schedule. All other
// schedules run each slot on time and renew what is due. The broken schedule reports its fault,
// and renews within its next slots after the repair.
func TestOneBrokenScheduleStopsNoOther(t *testing.T) {
	t.Parallel()
	seeds := uint64(3)
	if testrun.Check {
		seeds = 200
	}
	for seed := range seeds {
		w := &bulkhead{}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, keepalive(), nil, func(t *testing.T, b *bench) {
				time.Sleep(watched / 2)
				w.approve(b)
				time.Sleep(watched/2 + 5*time.Minute) // slots begin some seconds after their time
				w.othersFired(b)
				w.told(b)
				close(w.mended)
				w.approve(b)
				time.Sleep(watched + 5*time.Minute)
				if w.fault == "its budget is a cent" || w.fault == "its price is more than the wallet" || w.fault == "its renewals fail" {
					return // only an operator can repair this fault
				}
				for _, id := range []string{w.broken + "-1", w.broken + "-2"} {
					if w.renewed[id].IsZero() {
						t.Errorf("%s, of %s, and %s is not renewed after it was mended", w.fault, w.broken, id)
					}
				}
			}, func(t *testing.T, c *Config) {
				w.t = t
				w.build(c, seed)
			})
		})
	}
}

// approve plays the operator who approves the broken schedule's plan. The reply must come soon.
func (w *bulkhead) approve(b *bench) {
	b.t.Helper()
	if w.fault != "its approved commands are not stored" {
		return
	}
	slots, err := b.Ledger.Sweeps.SlotsOf(b.t.Context(), w.broken, 1)
	check(b.t, err)
	began := time.Now()
	limited, cancel := context.WithTimeout(b.t.Context(), 20*time.Minute)
	defer cancel()
	err = b.Approve(limited, slots[0].Plan, "ada", "checked")
	if failed := w.isBroken(w.broken, w.fault); failed != (err != nil) || time.Since(began) > time.Minute {
		b.t.Errorf("approved %s after it was asked: %v", time.Since(began), err)
	}
}

// othersFired checks that the other schedules ran on time.
func (w *bulkhead) othersFired(b *bench) {
	b.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range b.runners {
		if r.Name == w.broken {
			continue
		}
		want, _ := r.calendar.Between(w.began, w.began.Add(watched))
		slots, err := b.Ledger.Sweeps.SlotsOf(b.t.Context(), r.Name, 100)
		check(b.t, err)
		if len(slots) != len(want) {
			b.t.Errorf("%s, of %s: %s fired %d slots of %d", w.fault, w.broken, r.Name, len(slots), len(want))
		}
		for _, s := range slots {
			if s.State != stateFinished {
				b.t.Errorf("%s, of %s: the slot %s of %s is %s", w.fault, w.broken, s.At, r.Name, s.State)
			}
		}
		for n := range 2 {
			if late := w.renewed[fmt.Sprintf("%s-%d", r.Name, n+1)].Sub(want[0]); late < 0 || late > time.Minute {
				b.t.Errorf("%s, of %s: a proxy of %s was renewed %s after its slot", w.fault, w.broken, r.Name, late)
			}
		}
	}
}

// told checks that the journal reports the broken schedule.
func (w *bulkhead) told(b *bench) {
	b.t.Helper()
	kind := faultsOfASchedule[w.fault]
	rows, err := b.Ledger.Rows(b.t.Context(), 0, 10_000)
	check(b.t, err)
	for _, r := range rows {
		var of struct{ Schedule string }
		if check(b.t, json.Unmarshal([]byte(r.Data), &of)); r.Type == kind && of.Schedule == w.broken {
			return
		}
	}
	if kind != "" {
		b.t.Errorf("%s, of %s, and no %s says so", w.fault, w.broken, kind)
	}
}
