package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

func (h *rig) backup() string {
	h.t.Helper()
	out := filepath.Join(h.t.TempDir(), "backup.db")
	_, err := h.ledger.Backup(h.t.Context(), out, false)
	check(h.t, err)
	return out
}

// restore replaces the ledger with a backup, as after the loss of the events stream, and
// starts again.
func (h *rig) restore(backup string, change ...func(*Config)) {
	h.t.Helper()
	h.halt()
	check(h.t, h.ledger.Close())
	_, err := ledger.Restore{Path: h.path, From: backup, Clock: h.now, AppID: sandbox.DemoSandboxAppID, Replace: true}.Run(h.t.Context())
	check(h.t, err)
	h.openLedger()
	h.bind(change...)
	h.start()
}

// awaitStrange waits until the pause's detail has these words about unexplained data at the
// provider.
func (h *rig) awaitStrange(words ...string) {
	h.t.Helper()
	h.until("the pause names what it found", func() bool {
		doubt := h.runner.RestorePause()
		return doubt == "" || strings.Contains(doubt, "does not account for")
	})
	for _, w := range words {
		if !strings.Contains(h.runner.RestorePause(), w) {
			h.t.Errorf("%q does not name %q", h.runner.RestorePause(), w)
		}
	}
}

func (h *rig) awaitResumed() {
	h.t.Helper()
	h.until("the pause after the restore ends", func() bool {
		all, err := h.ledger.Operations.Pauses(h.t.Context())
		return err == nil && !slices.ContainsFunc(all, func(x tables.Pause) bool { return x.Cause == ledger.CauseRestored })
	})
}

func (h *rig) sends() int { return len(h.facts("operation.sending")) }

const (
	buyA   = `{"id":"a","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`
	buyB   = `{"id":"b","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`
	renewC = `{"id":"c","duration_days":30,"proxy_ids":["px_1","px_2"]}`
)

// forgetful returns a rig that bought a, was backed up, and then executed b and c.
func forgetful(t *testing.T) (h *rig, backup string) {
	t.Helper()
	h = newRig(t)
	h.order(buyA)
	h.await("a", fact.StateDelivered)
	backup = h.backup()
	h.order(buyB)
	h.renew(renewC)
	h.await("b", fact.StateDelivered)
	h.await("c", fact.StateCompleted)
	h.settled(1200, 0)
	return h, backup
}

// seen returns a rig whose ledger has seen the proxies, and a backup of it.
func seen(t *testing.T) (h *rig, backup string) {
	t.Helper()
	h = newRig(t)
	h.listed()
	h.observe()
	backup = h.backup()
	return h, backup
}

// mayPlan reports whether schedules may plan.
func (h *rig) mayPlan() bool {
	select {
	case <-h.runner.MayPlan():
		return true
	default:
		return false
	}
}

func TestTrap13AnOldBackupStartsPausedAndPaysNothingTwice(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	h.restore(backup)
	h.awaitStrange("order ", "wallet")
	before := h.sends()
	h.order(buyA) // known: absorbed
	h.order(buyB) // forgotten: seen for the first time
	h.renew(renewC)
	h.await("b", fact.StateAccepted)
	h.await("c", fact.StateAccepted)
	if h.sends() != before {
		t.Fatalf("sent while it was paused: %v", h.journal())
	}
	if n, err := h.runner.ResumeByHand(t.Context(), "ada", "the lost orders are ours", false); err != nil || n != 1 {
		t.Errorf("%d pauses ended", n)
	}
	h.await("b", fact.StateDelivered)
	h.await("c", fact.StateCompleted)
	h.settled(1200, 0)
	if h.runner.RestorePause() != "" {
		t.Error(h.runner.RestorePause())
	}
}

// The provider replays a renewal from the lost time, so the current expiry is already that
// renewal's result. If a schedule took it for the expiry that was paid for, the proxy would
// expire.
func TestTrap13ARenewalFromTheLostTimeBarsNoLaterOne(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	h.restore(backup)
	h.awaitStrange("order ", "wallet")
	h.order(buyB)
	h.renew(renewC)
	h.await("b", fact.StateAccepted)
	h.await("c", fact.StateAccepted)
	h.resumes("ada", "the lost orders are ours")
	h.await("b", fact.StateDelivered)
	h.await("c", fact.StateCompleted)
	h.settled(1200, 0)
	for _, id := range []string{"px_1", "px_2"} {
		shown, err := h.client.Proxy(t.Context(), id)
		check(t, err)
		if paid, _, err := h.ledger.Fleet.PaidFor(t.Context(), id, *shown.ExpiresAt, h.now().Add(2*time.Hour)); err != nil || paid {
			t.Errorf("%s: its present expiry counts as paid for: %v", id, err)
		}
		for _, f := range h.facts("command.finished") {
			for _, line := range f.(fact.CommandFinished).Lines {
				if line.ProxyID == id && line.ExpiresAt != nil && !line.ExpiresAt.Equal(*shown.ExpiresAt) {
					t.Errorf("%s: the end says %s, and the provider %s", id, line.ExpiresAt, shown.ExpiresAt)
				}
			}
		}
	}
	c := h.reconciler(h.client, 0)
	h.ahead.Store(int64(11 * time.Minute))
	if x := h.pass(c); !x.Agrees() {
		t.Errorf("%+v", x)
	}
}

// The provider forgets keys after 24 hours, so a retry would pay again.
func TestTrap13WhatIsOlderThanTheWindowGoesToReview(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	h.halt()
	const day = 25 * time.Hour
	h.oneClock()
	h.later(day)
	h.restore(backup)
	h.awaitStrange("order ")
	h.order(buyB)
	h.renew(renewC)
	h.await("b", fact.StateAccepted)
	h.await("c", fact.StateAccepted)
	before := h.sends()
	h.resumes("ada", "go on")
	h.await("b", fact.StateReview)
	h.await("c", fact.StateReview)
	if h.sends() != before {
		t.Errorf("sent after the window: %v", h.journal())
	}
	yes := true
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: "b/1", Charged: &yes, ChargedCents: 300, ConfirmCents: new(int64(300)), By: "ada", Reason: "the provider's list"}))
	check(t, h.runner.Resolve(t.Context(), desk.Resolution{ID: "c/0001", Charged: &yes, ChargedCents: 600, ConfirmCents: new(int64(600)), By: "ada", Reason: "the provider's list"}))
	h.settled(1200, 0)
}

func TestTrap13ABackupThatForgotNothingGoesOnByItself(t *testing.T) {
	t.Parallel()
	h, _ := forgetful(t)
	h.restore(h.backup())
	h.awaitResumed()
	h.order(buyB)
	h.renew(`{"id":"d","duration_days":30,"proxy_ids":["px_3"]}`)
	h.await("d", fact.StateCompleted)
	h.settled(1500, 0)
	if since, err := h.ledger.Operations.Forgotten(t.Context()); since != nil || err != nil {
		t.Errorf("%v %v", since, err)
	}
}

// observe fills the ledger's table of proxies, as a listing does.
func (h *rig) observe() {
	h.t.Helper()
	h.observeAll(h.shown())
}

func (h *rig) shown() []upstream.Proxy {
	h.t.Helper()
	page, err := h.client.ProxiesPage(h.t.Context(), upstream.PageRequest{})
	check(h.t, err)
	return page.Items
}

func (h *rig) observeAll(listed []upstream.Proxy) {
	h.t.Helper()
	check(h.t, h.ledger.Write(context.Background(), func(tx *ledger.Tx) error {
		for _, p := range listed {
			if err := tx.Observe(1, Observed(p, h.now())); err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestTrap13AnExpiryMovedUnknownToTheLedgerKeepsItPaused(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.observe()
	backup := h.backup()
	h.renew(renewC)
	h.await("c", fact.StateCompleted)
	h.restore(backup)
	h.awaitStrange("proxy px_1", "proxy px_2")
	if strings.Contains(h.runner.RestorePause(), "px_3") {
		t.Errorf("px_3 did not move: %s", h.runner.RestorePause())
	}
	// If the ledger has the renewal, the expiry is explained.
	again := newRig(t)
	again.observe()
	again.renew(renewC)
	again.await("c", fact.StateCompleted)
	again.restore(again.backup())
	again.awaitResumed()
}

// A read after a renewal may still show the old expiry.
func TestTrap13AnExpiryThatWasReadLateIsExplainedByItsRenewal(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	before := h.shown()
	h.renew(renewC)
	h.await("c", fact.StateCompleted)
	h.observeAll(before)
	h.restore(h.backup())
	h.awaitResumed()
}

// An expiry that was read after the restore, or is out of date, is not compared.
func TestTrap13OnlyWhatWasSeenBeforeTheRestoreIsCompared(t *testing.T) {
	h := idleRig(t)
	h.observe()
	later := h.now().Add(100 * 24 * time.Hour)
	var before map[string]*time.Time
	look := func(restored time.Time) (bool, string) {
		found := &findings{renewed: map[string]*time.Time{}, before: before}
		defer func() { before = found.renewed }()
		seen, err := expiryIsKnown(t.Context(), h.ledger, upstream.Proxy{ProxyID: "px_1", ExpiresAt: &later}, restored, found)
		check(t, err)
		return seen, found.String()
	}
	if seen, found := look(h.now()); !seen || found == "" {
		t.Errorf("seen before: %t %q", seen, found)
	}
	if seen, found := look(h.now().Add(-time.Hour)); seen || found != "" {
		t.Errorf("seen after: %t %q", seen, found)
	}
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error { return tx.Stale("px_1") }))
	if seen, found := look(h.now()); seen || found != "" {
		t.Errorf("out of date: %t %q", seen, found)
	}
	if before["px_1"] == nil {
		t.Error("a later comparison forgets that the proxy was renewed")
	}
}

// sentSince returns a rig whose command was accepted before the backup and sent after it.
func sentSince(t *testing.T, command string) (h *rig, backup string) {
	t.Helper()
	h = newRig(t)
	h.observe()
	check(t, h.runner.PauseByHand(t.Context(), "ada", "a moment"))
	if strings.Contains(command, "proxy_ids") {
		h.renew(command)
	} else {
		h.order(command)
	}
	h.await("x", fact.StateAccepted)
	backup = h.backup()
	h.resumes("ada", "go")
	h.await("x", fact.StateDelivered, fact.StateCompleted)
	return h, backup
}

func TestTrap13WhatTheBackupAcceptedKeepsItsKey(t *testing.T) {
	t.Parallel()
	h, backup := sentSince(t, `{"id":"x","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.restore(backup)
	h.awaitStrange("order ")
	if _, err := h.runner.Cancel(t.Context(), "x", "ada", "no longer needed"); err == nil || !strings.Contains(err.Error(), "may have been sent") {
		t.Errorf("cancelled: %v", err)
	}
	h.resumes("ada", "go on")
	h.await("x", fact.StateDelivered)
	h.settled(300, 0)
}

func TestTrap13ARefusalOfAPossibleResendIsNotBelieved(t *testing.T) {
	t.Parallel()
	h, backup := sentSince(t, `{"id":"x","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.fault(orders, "code", map[string]any{"code": "insufficient_wallet_balance", "http_status": 402, "executed": false})
	h.restore(backup)
	h.awaitStrange("order ")
	h.resumes("ada", "go on")
	if s := h.await("x", fact.StateReview, fact.StateRejected); s.State != "review" || !strings.Contains(s.Reason, "proves nothing") {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
}

// Commands of the lost time that are published again after the account was resumed, or that waited
// on the stream until then, may have been sent too. A retry of what was refused would pay again.
func TestTrap13ARefusalAfterTheResumeIsNotBelieved(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, backup := forgetful(t)
			h.oneClock()
			h.restore(backup)
			h.awaitStrange("order ")
			h.resumes("ada", "go on")
			if restarts {
				h.restart()
			}
			h.fault(orders, "code", map[string]any{"code": "insufficient_wallet_balance", "http_status": 402, "executed": false})
			h.fault(renew, "code", map[string]any{"code": "validation_error", "http_status": 422, "executed": false})
			h.order(buyB)
			h.renew(renewC)
			for _, id := range []string{"b", "c"} {
				if s := h.await(id, fact.StateReview, fact.StateRejected); s.State != "review" || !strings.Contains(s.Reason, "proves nothing") {
					t.Errorf("%s is %s: %s", id, s.State, s.Reason)
				}
			}
			if _, err := h.runner.Retry(t.Context(), "c", "ada", "again"); err == nil {
				t.Error("what may have been charged was retried under another key")
			}
			h.later(25 * time.Hour) // the provider has forgotten the keys of the lost time
			h.fault(orders, "code", map[string]any{"code": "insufficient_wallet_balance", "http_status": 402, "executed": false})
			h.order(`{"id":"new","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
			h.await("new", fact.StateRejected)
		})
	}
}

// What was refused before the backup may have been retried and paid in the lost time, under a key that
// the ledger does not know.
func TestTrap13ARetryOfTheLostTimeMayHaveBeenPaid(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	refuse := func() {
		h.fault(orders, "code", map[string]any{"code": "insufficient_wallet_balance", "http_status": 402, "executed": false})
		h.fault(renew, "code", map[string]any{"code": "insufficient_wallet_balance", "http_status": 402, "executed": false})
	}
	retry := func() (errs []error) {
		for _, id := range []string{"a", "d"} {
			_, err := h.runner.Retry(t.Context(), id, "ada", "there is money")
			errs = append(errs, err)
		}
		return errs
	}
	refuse()
	h.order(buyA)
	h.renew(`{"id":"d","duration_days":30,"proxy_ids":["px_3"]}`)
	h.await("a", fact.StateRejected)
	h.await("d", fact.StateRejected)
	backup := h.backup()
	refuse()
	check(t, errors.Join(retry()...))
	h.await("a", fact.StateRejected)
	h.await("d", fact.StateRejected)
	check(t, errors.Join(retry()...))
	h.await("a", fact.StateDelivered)
	h.await("d", fact.StateCompleted)
	h.restore(backup)
	h.awaitStrange("order ")
	early := retry()
	h.resumes("ada", "go on")
	for _, err := range append(early, retry()...) {
		if err == nil || !strings.Contains(err.Error(), "perhaps charged in the time that the restored ledger has lost") {
			t.Error(err)
		}
	}
	if n := h.sends(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A command of the lost time that is published again while the account is paused cannot be cancelled.
func TestTrap13WhatMayHaveBeenPaidIsNotCancelled(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	h.restore(backup)
	h.awaitStrange("order ")
	h.order(buyB)
	h.renew(renewC)
	for _, id := range []string{"b", "c"} {
		h.await(id, fact.StateAccepted)
		if _, err := h.runner.Cancel(t.Context(), id, "ada", "not wanted"); err == nil || !strings.Contains(err.Error(), "may have been sent") {
			t.Errorf("%s: %v", id, err)
		}
	}
	h.resumes("ada", "go on")
	h.await("b", fact.StateDelivered)
	h.await("c", fact.StateCompleted)
	h.settled(1200, 0)
}

// The first read after a restore may lag and show nothing of the lost time. So what is refused soon
// after it may have been paid, and schedules plan later.
func TestTrap13ACleanReadRightAfterARestoreMayLag(t *testing.T) {
	t.Parallel()
	h, _ := forgetful(t)
	h.oneClock()
	h.restore(h.backup())
	h.awaitResumed()
	if h.mayPlan() {
		t.Error("schedules plan from reads that may lag")
	}
	h.fault(renew, "code", map[string]any{"code": "validation_error", "http_status": 422, "executed": false})
	h.renew(`{"id":"soon","duration_days":30,"proxy_ids":["px_4"]}`)
	if s := h.await("soon", fact.StateReview, fact.StateRejected); s.State != "review" {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
	h.later(strangeFirst + time.Second)
	select {
	case <-h.runner.MayPlan():
	case <-time.After(patience):
		t.Error("schedules never plan again")
	}
	h.fault(renew, "code", map[string]any{"code": "validation_error", "http_status": 422, "executed": false})
	h.renew(`{"id":"later","duration_days":30,"proxy_ids":["px_5"]}`)
	h.await("later", fact.StateRejected)
}

// A second restore that lost nothing does not end the doubt that the first one left.
func TestTrap13ASecondRestoreKeepsTheDoubtOfTheFirst(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	h.oneClock()
	h.restore(backup)
	h.awaitStrange("order ")
	h.resumes("ada", "go on")
	h.order(buyB)
	h.await("b", fact.StateDelivered)
	h.renew(renewC)
	h.await("c", fact.StateCompleted)
	h.restore(h.backup())
	h.awaitResumed()
	h.later(strangeFirst + time.Minute)
	h.fault(renew, "code", map[string]any{"code": "validation_error", "http_status": 422, "executed": false})
	h.renew(`{"id":"d","duration_days":30,"proxy_ids":["px_5"]}`)
	if s := h.await("d", fact.StateReview, fact.StateRejected); s.State != "review" {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
}

// In the lost time a proxy was left out, so the chunks were others and had other keys.
func TestTrap13ChunksThatWereDividedInAnotherWayNeedReview(t *testing.T) {
	t.Parallel()
	h, backup := seen(t)
	h.fault(renew, "code", map[string]any{"code": "weird", "http_status": 400, "executed": false})
	h.renew(`{"id":"x","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("x", fact.StateReview)
	again := `{"id":"y","duration_days":30,"max_total_cents":900,"proxy_ids":["px_1","px_2"]}`
	h.renew(again)
	h.await("y", fact.StateCompleted)
	h.restore(backup)
	h.awaitStrange("px_2")
	h.renew(again)
	h.await("y", fact.StateAccepted)
	h.resumes("ada", "go on")
	h.quiet([]string{"y"})
	if s := h.await("y", fact.StateReview); len(s.Operations) != 2 || s.Operations[0].State != fact.StateReview || s.Operations[1].State != fact.StateReview {
		t.Errorf("%+v", s.Operations)
	}
	h.paidOnce(0)
}

// In the lost time a renewal was split, and one half was paid under its own key.
func TestTrap13AChunkOfWhichAPartWasRenewedNeedsReview(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("restarts ", restarts), func(t *testing.T) {
			t.Parallel()
			h, backup := seen(t)
			h.fault(renew, "code", map[string]any{"code": "insufficient_wallet_balance", "http_status": 402, "executed": false})
			h.renew(renewC)
			h.quiet([]string{"c"})
			h.restore(backup)
			h.awaitStrange("proxy px_")
			h.resumes("ada", "go on")
			if restarts {
				h.restart()
			}
			h.renew(renewC)
			if s := h.await("c", fact.StateReview); !strings.Contains(s.Reason, "1 of its 2 proxies were renewed in the time that the restored ledger has lost") {
				t.Error(s.Reason)
			}
			if e := h.evidence("c/0001"); len(e.Charged("")) != 1 {
				t.Errorf("the evidence of a charge is %q: %+v", e.Charged(""), e.Verdict)
			}
			h.paidOnce(0)
		})
	}
}

// What was refused in the lost time, retried and paid, is paid again if it is published again. With
// review_lost it is not sent, and what cannot have been paid is.
func TestTrap13AResumeWithReviewLostSendsNothingThatMayHaveBeenPaid(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("restarts ", restarts), func(t *testing.T) {
			t.Parallel()
			h, backup := seen(t)
			h.fault(orders, "code", map[string]any{"code": "insufficient_wallet_balance", "http_status": 402, "executed": false})
			h.fault(renew, "code", map[string]any{"code": "insufficient_wallet_balance", "http_status": 402, "executed": false})
			h.order(buyB)
			h.await("b", fact.StateRejected)
			h.renew(`{"id":"d","duration_days":30,"proxy_ids":["px_1"]}`)
			h.await("d", fact.StateRejected)
			for _, id := range []string{"b", "d"} {
				_, err := h.runner.Retry(t.Context(), id, "ada", "there is money")
				check(t, err)
			}
			b := h.await("b", fact.StateDelivered)
			h.await("d", fact.StateCompleted)
			bought := b.Operations[len(b.Operations)-1].ProxyIDs[0]
			h.restore(backup)
			h.awaitStrange("order ", "proxy px_1")
			sent := h.sends()
			n, err := h.runner.ResumeByHand(t.Context(), "ada", "some were retried", true)
			check(t, err)
			if n != 1 {
				t.Errorf("%d pauses ended", n)
			}
			if restarts {
				h.restart()
			}
			h.order(buyB)
			h.renew(`{"id":"d","duration_days":30,"proxy_ids":["px_1"]}`)
			h.renew(`{"id":"e","duration_days":30,"proxy_ids":["` + bought + `"]}`)
			for _, id := range []string{"b", "d", "e"} {
				if s := h.await(id, fact.StateReview); !strings.Contains(s.Reason, "resumed with --review-lost") {
					t.Errorf("%s: %s", id, s.Reason)
				}
			}
			for id, want := range map[string]string{"b/1": inspect.VerdictCharged, "d/0001": inspect.VerdictCharged, "e/0001": inspect.VerdictUnknown} {
				if e := h.evidence(id); e.Verdict == nil || e.Verdict.Outcome != want {
					t.Errorf("%s: %+v", id, e.Verdict)
				}
			}
			h.renew(`{"id":"f","duration_days":30,"proxy_ids":["px_3"]}`)
			h.await("f", fact.StateCompleted)
			if n := h.sends() - sent; n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// lacking is a provider whose list lacks px_4, has px_5 without an expiry, and has a px_6 that cannot be
// read.
type lacking struct{ *upstream.Client }

func (p lacking) ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	page, err := p.Client.ProxiesPage(ctx, r)
	page.Items = slices.DeleteFunc(page.Items, func(x upstream.Proxy) bool { return x.ProxyID == "px_4" || x.ProxyID == "px_6" })
	for i, x := range page.Items {
		if x.ProxyID == "px_5" {
			page.Items[i].ExpiresAt = nil
		}
	}
	page.Unusable = append(page.Unusable, upstream.Unusable{ID: "px_6", Field: "expires_at", Why: "expires_at is not a time"})
	return page, err
}

// What a list does not show to be as it was may have been renewed.
func TestTrap13ReviewLostCountsOnNoListThatLacksAProxy(t *testing.T) {
	t.Parallel()
	h, backup := seen(t)
	h.renew(renewC)
	h.await("c", fact.StateCompleted)
	h.restore(backup, func(c *Config) { c.Provider = lacking{h.client} })
	h.awaitStrange("proxy px_1")
	_, err := h.runner.ResumeByHand(t.Context(), "ada", "some were retried", true)
	check(t, err)
	for n, want := range map[int]fact.State{3: fact.StateCompleted, 4: fact.StateReview, 5: fact.StateReview, 6: fact.StateReview} {
		id := fmt.Sprint("r", n)
		h.renew(fmt.Sprintf(`{"id":%q,"duration_days":30,"proxy_ids":["px_%d"]}`, id, n))
		h.await(id, want)
	}
}

// review_lost needs to know what was renewed in the lost time.
func TestTrap13ReviewLostIsRefusedBeforeTheComparison(t *testing.T) {
	t.Parallel()
	h, backup := seen(t)
	resume := func() string {
		n, err := h.runner.ResumeByHand(t.Context(), "ada", "some were retried", true)
		if n != 0 || err == nil {
			t.Fatalf("%d %v", n, err)
		}
		return err.Error()
	}
	if said := resume(); !strings.Contains(said, "not paused after a restore") {
		t.Error(said)
	}
	h.renew(renewC)
	h.await("c", fact.StateCompleted)
	h.control("/faults", map[string]any{"method": "GET", "path": "/api/v1/proxies", "fault": "error_before", "times": -1})
	h.restore(backup)
	if said := resume(); !strings.Contains(said, "lists were not read since the restore") {
		t.Error(said)
	}
	if h.runner.RestorePause() == "" {
		t.Error("the account was resumed")
	}
}

// A repeat that is refused needs review. The evidence has the expiries from before the lost time, and
// not those of the repeat.
func TestTrap13ARefusedRepeatShowsThatItWasPaid(t *testing.T) {
	t.Parallel()
	h, backup := seen(t)
	h.renew(renewC)
	h.await("c", fact.StateCompleted)
	h.restore(backup)
	h.awaitStrange("proxy px_")
	h.resumes("ada", "go on")
	h.fault(renew, "code", map[string]any{"code": "validation_error", "http_status": 422, "executed": false})
	h.renew(renewC)
	h.await("c", fact.StateReview)
	if e := h.evidence("c/0001"); len(e.Charged("")) != 2 || e.Verdict == nil || e.Verdict.Outcome != inspect.VerdictCharged {
		t.Errorf("%q: %+v", e.Charged(""), e.Verdict)
	}
}

// The chunks of a command that was accepted during the pause are all sent, although they run one by one
// only while there is doubt.
func TestEveryChunkIsSentAfterTheDoubtHasEnded(t *testing.T) {
	t.Parallel()
	h := proxiesRig(t, 250)
	h.oneClock()
	h.listed()
	h.observe()
	backup := h.backup()
	h.fault("/api/v1/orders", "code", map[string]any{"method": "GET", "code": "internal_error", "http_status": 500, "times": -1})
	h.restore(backup)
	ids := make([]string, 250)
	for i := range ids {
		ids[i] = fmt.Sprintf("px_%d", i+1)
	}
	text, err := json.Marshal(map[string]any{"id": "many", "duration_days": 30, "proxy_ids": ids})
	check(t, err)
	h.renew(string(text))
	h.await("many", fact.StateAccepted)
	h.later(strangeFirst + time.Minute)
	h.ask(http.MethodDelete, "/faults", nil)
	h.awaitResumed()
	h.await("many", fact.StateCompleted)
	h.paidOnce(0)
}

// An operator who resumes the account at once does not get ahead of the comparison.
func TestTrap13AResumeWaitsForTheFirstComparison(t *testing.T) {
	t.Parallel()
	h, backup := seen(t)
	h.renew(renewC)
	h.await("c", fact.StateCompleted)
	h.control("/latency", map[string]any{"milliseconds": 50})
	h.restore(backup)
	h.resumes("ada", "go on")
	f, _ := h.awaitFact("account.resumed").(fact.AccountResumed)
	if len(f.Renewed) != 2 || f.Renewed[0].ProxyID != "px_1" {
		t.Errorf("%+v", f)
	}
}

// While the account is paused after a restore, its health still shows whether the provider
// answers.
func TestARestoredAccountKnowsWhetherTheProviderAnswers(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	wallets := make(chan struct{})
	h.oneClock(func(c *upstream.Config) {
		c.Observe = func(x upstream.Exchange) {
			if strings.HasSuffix(x.Route, "/wallet") {
				select {
				case wallets <- struct{}{}:
				default:
				}
			}
		}
	})
	h.restore(backup, func(c *Config) { c.AskEvery = 10 * time.Millisecond })
	h.awaitStrange("order ")
	asks := func(n int) {
		for range n {
			select {
			case <-wallets:
			case <-time.After(patience):
				t.Fatal("the runner does not ask")
			}
		}
	}
	h.later(2 * time.Minute)
	asks(2) // the first one is noted before the second is sent
	if said := h.runner.Silent(); said != "" {
		t.Error(said)
	}
	h.fault("/api/v1/wallet", "drop_before", map[string]any{"method": "GET", "times": -1})
	asks(2)
	h.later(3 * time.Minute)
	if said := h.runner.Silent(); !strings.Contains(said, "has not answered since ") {
		t.Errorf("%q, and the provider does not answer", said)
	}
}

// Without a refusal they are carried out as usual: what was paid is answered by the reply that was
// lost, and what is new is paid once.
func TestTrap13WhatComesAfterTheResumeIsPaidOnce(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	h.restore(backup)
	h.awaitStrange("order ")
	h.resumes("ada", "go on")
	h.order(buyB)
	h.renew(renewC)
	h.renew(`{"id":"d","duration_days":30,"proxy_ids":["px_3"]}`)
	h.await("b", fact.StateDelivered)
	h.await("c", fact.StateCompleted)
	h.await("d", fact.StateCompleted)
	h.settled(1500, 0)
}

// An old backup stops no new command.
func TestTrap13ACommandAfterTheResumeOfAnOldBackupIsSent(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	h.oneClock()
	h.later(30 * time.Hour)
	h.restore(backup)
	h.awaitStrange("order ")
	h.resumes("ada", "go on")
	h.renew(`{"id":"new","duration_days":30,"proxy_ids":["px_3"]}`)
	h.await("new", fact.StateCompleted)
}

// A deadline that has passed refuses no command that may have been sent in the lost time.
func TestTrap13ADeadlineOfTheLostTimeRefusesNothing(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	h.restore(backup)
	h.awaitStrange("order ")
	h.order(`{"id":"during","duration_days":30,"not_after":"2026-01-01T00:00:00Z","items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.await("during", fact.StateAccepted)
	h.resumes("ada", "go on")
	h.order(`{"id":"after","duration_days":30,"not_after":"2026-01-01T00:00:00Z","items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	for _, id := range []string{"during", "after"} {
		h.await(id, fact.StateReview)
	}
}

func TestTrap13AMovedExpiryMayBeAForgottenAttempt(t *testing.T) {
	t.Parallel()
	due := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)
	h, backup := sentSince(t, `{"id":"x","duration_days":30,"proxy_ids":["px_1"],"due_before":"`+due+`"}`)
	h.restore(backup)
	h.awaitStrange("px_1")
	h.resumes("ada", "go on")
	if s := h.await("x", fact.StateReview, fact.StateRejected, fact.StateCompleted); s.State != "review" {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
}

func TestTrap13ADeadlineRefusesNothingThatMayHaveBeenSent(t *testing.T) {
	past := someNoon.Add(-time.Hour)
	op := decide.Operation{Operation: fact.Operation{State: fact.StateAccepted, Ambiguous: 1, FirstAmbiguousAt: &past}}
	d := decide.Decide(op, decide.Due{Moment: decide.Moment{Now: someNoon}, NotAfter: &past})
	if _, ok := d.Facts[0].(fact.OperationReview); !ok || d.Send {
		t.Errorf("%+v", d)
	}
}

// A successful signed request says nothing about lost requests.
func TestTrap13TheProbeDoesNotEndThePauseOfARestore(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	h.restore(backup)
	h.awaitStrange("order ")
	x, _ := h.runner.pauses.restored()
	if h.runner.probeOne(t.Context(), x) || h.runner.RestorePause() == "" {
		t.Error("the probe took it up")
	}
}

func TestTrap13UnreadableListsKeepThePauseAndAreReread(t *testing.T) {
	t.Parallel()
	h, _ := forgetful(t)
	backup := h.backup()
	h.control("/faults", map[string]any{"method": "GET", "path": "/api/v1/proxies", "fault": "error_before", "times": 1})
	h.restore(backup)
	h.awaitResumed()
	h.settled(1200, 0)
}

// foretelling is a provider whose lists show a later expiry while ahead is true.
type foretelling struct {
	*upstream.Client

	ahead *atomic.Bool
}

func (p foretelling) ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	page, err := p.Client.ProxiesPage(ctx, r)
	for i, x := range page.Items {
		if p.ahead.Load() && x.ExpiresAt != nil {
			page.Items[i].ExpiresAt = new(x.ExpiresAt.AddDate(0, 0, 30))
		}
	}
	return page, err
}

// A read that lags, or a record of what was spent elsewhere, may explain a difference later.
func TestTrap13WhatIsStrangeIsReadAgainLater(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.observe()
	var ahead atomic.Bool
	ahead.Store(true)
	h.restore(h.backup(), func(c *Config) { c.Provider = foretelling{h.client, &ahead} })
	h.awaitStrange("proxy px_1")
	ahead.Store(false)
	h.ahead.Store(int64(strangeFirst + time.Second))
	h.awaitResumed()
}

// Jobs that were queued before the pause ended would be sent as if never sent, or fail.
func TestTrap13WhatIsQueuedWhenAPersonResumesIsLoadedAnew(t *testing.T) {
	h := idleRig(t)
	h.runner.pause(t.Context(), decide.Pause{Scope: decide.ScopeAccount, Cause: ledger.CauseRestored, Detail: "x"})
	record := fact.Operation{ID: "stale/1", Kind: fact.KindOrder, State: fact.StateAccepted}
	h.runner.ready.push(h.runner.job(record, command.Command{Kind: fact.KindOrder}, nil))
	check(t, h.runner.requeueAccepted(t.Context()))
	if h.runner.ready.isActive("stale/1") {
		t.Error("a job that the ledger does not hold is still queued")
	}
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.CommandAccepted{
			Ref: fact.Ref{CommandID: "b"}, Kind: fact.KindOrder, Content: []byte(`{"id":"b"}`), Operations: []fact.Planned{{OperationID: "b/1", Chunk: "1", Generation: 1}},
		})
	}))
	check(t, h.runner.requeueAccepted(t.Context()))
	if !h.runner.ready.isActive("b/1") {
		t.Error("what is accepted is not queued")
	}
	clear(h.runner.kept)
	repaired := h.unreadable("b")
	check(t, h.runner.requeueAccepted(t.Context())) // a row that cannot be read does not keep the account paused
	if h.runner.ready.isActive("b/1") || h.runner.Unqueued() == nil {
		t.Error("an operation whose command cannot be read is queued, or forgotten")
	}
	repaired()
	if !h.runner.queueMissed(t.Context()) || !h.runner.ready.isActive("b/1") {
		t.Errorf("it is not queued when its command can be read: %v", h.runner.Unqueued())
	}
}

func TestAListWithMoreButNoTokenIsAnError(t *testing.T) {
	h := idleRig(t)
	err := everyPage(t.Context(), h.runner.link, func(context.Context, upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
		return upstream.Page[upstream.Proxy]{Items: []upstream.Proxy{{ProxyID: "px_1"}}, HasMore: true}, nil
	}, func(upstream.Proxy) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "page token") {
		t.Errorf("got %v", err)
	}
	turns := 0
	err = everyPage(t.Context(), h.runner.link, func(_ context.Context, p upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
		turns++
		return upstream.Page[upstream.Proxy]{HasMore: true, NextPageToken: map[string]string{"": "a", "a": "b", "b": "a"}[p.Token]}, nil
	}, func(upstream.Proxy) error { return nil })
	if !errors.Is(err, upstream.ErrPageLoop) || turns > 20 {
		t.Errorf("a list in a circle ended with %v after %d pages", err, turns)
	}
	broken := errors.New("broken")
	if err := everyPage(t.Context(), h.runner.link, h.client.OrdersPage, func(upstream.OrderSummary) error { return broken }); err != nil {
		t.Errorf("there is no order: %v", err)
	}
}

// undated is a provider whose list of orders has no times, because the API document does not
// list the fields of a summary.
type undated struct{ Provider }

func (u undated) OrdersPage(ctx context.Context, p upstream.PageRequest) (upstream.Page[upstream.OrderSummary], error) {
	page, err := u.Provider.OrdersPage(ctx, p)
	for i := range page.Items {
		page.Items[i].CreatedAt = time.Time{}
	}
	return page, err
}

// impatient resumes the account as an operator while the lists are read.
type impatient struct {
	*upstream.Client
	resume func()
}

func (i impatient) OrdersPage(ctx context.Context, p upstream.PageRequest) (upstream.Page[upstream.OrderSummary], error) {
	i.resume()
	return i.Client.OrdersPage(ctx, p)
}

func TestTrap13WhatThePersonSaidWhileTheListsWereReadStands(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	read := make(chan struct{})
	var once sync.Once
	h.restore(backup, func(c *Config) {
		c.Provider = impatient{h.client, func() {
			once.Do(func() {
				<-read
				if n, err := h.runner.ResumeByHand(t.Context(), "ada", "the orders are ours", false); err != nil || n != 1 {
					t.Errorf("%d pauses ended", n)
				}
			})
		}}
	})
	close(read)
	h.until("the lists are read", func() bool { return len(h.facts("account.resumed")) == 1 })
	h.order(buyB)
	h.await("b", fact.StateDelivered)
	h.halt()
	if h.runner.RestorePause() != "" || len(h.facts("account.paused")) != 1 {
		t.Errorf("%q; %v", h.runner.RestorePause(), h.facts("account.paused"))
	}
}

func TestTrap13AnOrderWithoutATimeMayBeAForgottenOne(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	h.restore(backup, func(c *Config) { c.Provider = undated{c.Provider} })
	h.awaitStrange("order ord_")
}

// The backup has the body of a request that did not execute. A request in the lost time may
// have had another body.
func TestTrap13WhatWasRefusedBeforeTheBackupIsCheckedAgain(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.fault(renew, "code", map[string]any{"code": "insufficient_scope", "http_status": 403, "executed": false, "times": -1})
	due := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)
	h.renew(`{"id":"x","proxy_ids":["px_1"],"duration_days":30,"due_before":"` + due + `"}`)
	h.await("x", fact.StateWaiting)
	backup := h.backup()
	h.halt()
	h.ask("DELETE", "/faults", nil)
	_, err := h.client.Renew(t.Context(), "in-the-lost-time", upstream.RenewRequest{ProxyIDs: []string{"px_1"}, DurationDays: 30})
	check(t, err)
	h.restore(backup)
	h.awaitStrange("px_1")
	_, err = h.runner.ResumeByHand(t.Context(), "ada", "go on", false)
	check(t, err)
	if s := h.await("x", fact.StateReview, fact.StateRejected, fact.StateCompleted); s.State != "review" {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
	if charges, err := h.server.Charges(); err != nil || len(charges) != 1 {
		t.Errorf("%d charges: %+v %v", len(charges), charges, err)
	}
}

// By the ledger the operation was never sent, but the provider has its order.
func TestTrap13AnOrderOfTheLostTimeIsEvidence(t *testing.T) {
	t.Parallel()
	h, backup := forgetful(t)
	h.halt()
	h.oneClock()
	h.later(25 * time.Hour)
	h.restore(backup)
	h.awaitStrange("order ")
	h.order(buyB)
	h.await("b", fact.StateAccepted)
	h.resumes("ada", "go on")
	h.await("b", fact.StateReview)
	if open, err := h.ledger.Money.OrdersWithoutNumber(t.Context()); err != nil || len(open) != 1 || open[0].ID != "b/1" {
		t.Errorf("orders that may have reached the provider: %+v %v", open, err)
	}
	err := h.runner.Resolve(t.Context(), desk.Resolution{ID: "b/1", Charged: new(false), SendAgain: true, By: "ada", Reason: "it was never sent"})
	if err == nil || !strings.Contains(err.Error(), "was charged") {
		t.Errorf("%v", err)
	}
}

// The operation was sent in the lost time, and a daily limit now keeps it on hold. If an
// operator recorded its order as bought elsewhere, it would be booked twice.
func TestTrap13AnOrderThatIsOnHoldIsNotOneMadeElsewhere(t *testing.T) {
	t.Parallel()
	h, backup := sentSince(t, `{"id":"x","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.restore(backup, func(c *Config) { c.DailyLimitCents, c.Provider = 100, h.client })
	h.awaitStrange("order ")
	h.resumes("ada", "go on")
	h.await("x", fact.StateHeld)
	for _, f := range h.reconcile().Findings {
		if f.Kind == decide.FindingOutside {
			t.Errorf("%+v", f)
		}
	}
}

// The fact names a limited number of proxies. If it may lack some, any proxy may have been renewed.
func TestTrap13ReviewLostCountsOnNoListThatIsCut(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{renewedMost - 1: 0, renewedMost: 1} {
		f := fact.AccountResumed{LostSince: new(time.Now()), ReviewLost: true}
		for i := range n {
			f.Unseen = append(f.Unseen, fmt.Sprint("px_", i))
		}
		p := newPauses(time.Now)
		p.doubt(f, time.Now())
		renewed, review := p.renewedOf([]string{"px_other"})
		if len(renewed) != want || !review {
			t.Errorf("%d proxies in the fact: %q %t", n, renewed, review)
		}
		f.Unseen = []string{"px_new"} // of a second restore
		p.doubt(f, time.Now())
		if renewed, _ := p.renewedOf([]string{"px_other"}); len(renewed) != want {
			t.Errorf("%d proxies in the first fact, and a second restore: %q", n, renewed)
		}
	}
}
