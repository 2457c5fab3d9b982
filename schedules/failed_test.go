package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// failures lists the journal's sweep.failed facts.
func failures(t testing.TB, l *ledger.Ledger) (all []fact.SweepFailed) {
	t.Helper()
	rows, err := l.Rows(t.Context(), 0, 100_000)
	check(t, err)
	for _, r := range rows {
		if r.Type == "sweep.failed" {
			var f fact.SweepFailed
			check(t, json.Unmarshal([]byte(r.Data), &f))
			all = append(all, f)
		}
	}
	return all
}

// broken makes a bench's listings fail while why holds an error.
func broken(b *bench, why *atomic.Pointer[error]) {
	inner := b.config.Provider
	b.config.Provider = fake(func(r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
		if err := why.Load(); err != nil {
			return upstream.Page[upstream.Proxy]{}, *err
		}
		return inner.ProxiesPage(b.t.Context(), r)
	})
}

func TestTrap55ASweepThatCannotBeMadeIsSaid(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]error{
		"without proxies:read": refused(upstream.CodeInsufficientScope),
		"a list that is limited for an hour": &upstream.Error{
			HTTPStatus: 429, Code: upstream.CodeRateLimited, RetryAfter: upstream.RetryAfter{Present: true, Valid: true, Delay: time.Hour},
		},
		"no reply": &upstream.TransportError{Err: errors.New("reset")},
	} {
		t.Run(name, func(t *testing.T) { sweepFails(t, why) })
	}
}

func sweepFails(t *testing.T, why error) {
	hourly := keepalive()
	hourly.Cron = "0 * * * *"
	inBubble(t, hourly, map[string]time.Duration{"px_1": 30 * time.Hour, "px_2": 3*time.Hour + 30*time.Minute, "px_far": 200 * time.Hour}, func(t *testing.T, b *bench) {
		for _, id := range []string{"px_1", "px_2", "px_far"} {
			paid(t, b.Ledger, id, 300)
		}
		<-b.stream.arrived // the table is known
		synctest.Wait()
		want(t, "ready", b.NotReady(), "")
		b.end()
		b.stream.arrived = nil
		var now atomic.Pointer[error]
		now.Store(&why)
		broken(b, &now)
		b.start()
		time.Sleep(2 * time.Hour) // two slots
		synctest.Wait()
		list, err := b.List(t.Context())
		check(t, err)
		for _, said := range []string{b.NotReady(), list[0].Problem} {
			if !strings.Contains(said, "is not done") || !strings.Contains(said, "proxies are due") {
				t.Errorf("said: %q", said)
			}
		}
		want(t, "failing", len(b.Failing()), 1)
		told := failures(t, b.Ledger)
		if len(told) < 1 || len(told) > 2 {
			t.Fatalf("%d facts of two slots", len(told))
		}
		if f := told[0]; f.Schedule != "keepalive" || f.Reason == "" || f.Due != 2 || f.NextSlot == nil || f.FirstExpiresAt == nil {
			t.Errorf("%+v", f)
		}
		now.Store(nil)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		want(t, "ready again", b.NotReady(), "")
		want(t, "failing", len(b.Failing()), 0)
	})
}

// A listing that gets no turn, or takes longer than the time between slots, fails without an
// error. A listing that shows nothing new fails with an error.
func TestTrap67ASlotWithoutItsListingIsSaid(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]time.Duration{"no turn at all": 24 * time.Hour, "a page each 2 min": 2 * time.Minute, "a page that hangs": -24 * time.Hour, "fresh page tokens without an end": 0} {
		t.Run(name, func(t *testing.T) {
			says := "waits for a listing"
			if every == 0 {
				says = "the pages of a list repeat"
			}
			inBubble(t, keepalive(), map[string]time.Duration{"px_1": 30 * time.Hour}, func(t *testing.T, b *bench) {
				synctest.Wait()
				b.end()
				b.stream.arrived = nil
				var starves atomic.Bool
				starves.Store(true)
				b.config.Pass = func(ctx context.Context) error {
					if !starves.Load() || every < 0 {
						return nil
					}
					return sleep.For(ctx, every)
				}
				inner, page := b.config.Provider, 0
				b.config.Provider = fake(func(r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
					if starves.Load() && every < 0 {
						_ = sleep.For(b.t.Context(), -every)
					}
					got, err := inner.ProxiesPage(b.t.Context(), r)
					page++
					got.HasMore, got.NextPageToken = starves.Load() && page <= 2000, fmt.Sprint(page)
					return got, err
				})
				b.away += time.Hour // the table is old
				b.start()
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				if !strings.Contains(b.NotReady(), says) {
					t.Errorf("ready, and no slot fires: %q", b.NotReady())
				}
				if all := failures(t, b.Ledger); len(all) == 0 || all[0].Due != 1 {
					t.Errorf("sweep.failed: %+v", all)
				}
				if every == 0 && page > 1000 {
					t.Errorf("%d pages of one proxy were read in 20 minutes", page)
				}
				starves.Store(false)
				time.Sleep(25 * time.Hour)
				synctest.Wait()
				want(t, "ready", b.NotReady(), "")
			})
		})
	}
}

func TestTrap55WhatExpiresBeforeTheNextSlotIsCounted(t *testing.T) {
	h := newRig(t, map[string]string{"px_1": "10m", "px_2": "24h", "px_3": "14m"}, keepalive())
	h.paid(t, "px_1", 300)
	check(t, h.lister.WaitPass(t.Context()))
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.ProxyRetired{ProxyID: "px_3", By: "ada", Reason: "old"})
	}))
	h.failed(t.Context(), h.runners[0], noon, errors.New("no listing"))
	f := h.Failing()[0]
	want(t, "due", f.Due, 2)
	want(t, "expire before the next slot", f.Expiring, 1)
	want(t, "the first", *f.FirstExpiresAt, noon.Add(10*time.Minute))
	said := func() bool {
		t.Helper()
		list, err := h.List(t.Context())
		check(t, err)
		return strings.Contains(list[0].Problem, "nothing that was listed is due any more")
	}
	want(t, "while some are due", said(), false)
	check(t, h.Ledger.Write(t.Context(), func(tx *ledger.Tx) error { // an operator renews them
		return errors.Join(tx.Stale("px_1"), tx.Stale("px_2"))
	}))
	h.failed(t.Context(), h.runners[0], noon, errors.New("no listing"))
	want(t, "when a person renewed all", said(), true)
	check(t, h.lister.WaitPass(t.Context()))
	h.sweep(t)
	want(t, "once a sweep works", h.NotReady(), "")
}

// An unknown count must not be reported as zero.
func TestWhatExpiresIsCountedWithoutAListThatCannotBeRead(t *testing.T) {
	s := keepalive()
	s.Match = plans.Match{CountryCode: []string{"US"}, ProxyIDs: []string{"px_1"}, ExceptProxyIDsFile: "except.txt"}
	h := newRig(t, map[string]string{"px_1": "10m", "px_2": "12m", "px_de_1": "5m"}, s)
	h.paid(t, "px_1", 300)
	check(t, h.lister.WaitPass(t.Context()))
	h.failed(t.Context(), h.runners[0], noon, errors.New("except.txt is not there"))
	f := h.Failing()[0]
	want(t, "due", f.Due, 2) // counted by country, without the lists
	want(t, "expire before the next slot", f.Expiring, 2)
}
