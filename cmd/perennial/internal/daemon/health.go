// /livez and /readyz: whether the process works, and why an account is not ready.

package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/datadir"
	"perennial/cmd/perennial/internal/journal"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/queue/lease"
	"perennial/queue/outbox"
	"perennial/queue/streams"
)

// probes are the probes of an account for /readyz.
type probes struct{ *account }

// check is the state of one dependency of an account.
type check struct {
	Name   string    `json:"name"`
	OK     bool      `json:"ok"`
	Since  time.Time `json:"since"` // start of the current state
	Detail string    `json:"detail,omitempty"`
}

// Names of checks, as /readyz?verbose and the metrics show them.
const (
	needsNATS     = "nats"
	needsStreams  = "streams"
	needsSettings = "settings" // shown as streams
	needsEvents   = "events"
	needsDisk     = "disk"
	needsLedger   = "ledger"
	needsAccount  = "account"
	needsProvider = "provider"
	needsPaused   = "paused"
	needsRestored = "restored"
	needsSweeps   = "sweeps"
	needsBooks    = "books"
)

// Intervals and timeouts of the probes. /readyz lags by at most an interval and its
// timeout.
const (
	probeEvery    = time.Second
	probeTimeout  = 3 * time.Second
	behindAfter   = 5 * time.Second  // for unpublished events
	healAgain     = 10 * time.Second // between two restarts of the embedded server
	settingsEvery = 10 * time.Second // comparison of stream and consumer settings
)

// probed holds the results of the host's probes; "" is healthy.
type probed struct {
	mu      sync.Mutex
	found   map[string]string
	writing time.Time // start of a disk probe that has not returned; zero: none
}

func (p *probed) set(name string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		p.found = map[string]string{}
	}
	p.found[name] = ""
	if err != nil {
		p.found[name] = err.Error()
	}
}

func (p *probed) get(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name == needsDisk && !p.writing.IsZero() && time.Since(p.writing) > probeTimeout {
		return "the disk has not answered since " + p.writing.UTC().Format(time.RFC3339)
	}
	return p.found[name]
}

// watch probes the accounts' dependencies until ctx ends, and logs changes. Each probe
// has its own loop, so that a hanging probe blocks no other.
func (h *Host) watch(ctx context.Context) {
	var loops sync.WaitGroup
	every := func(probe func(context.Context)) {
		loops.Go(func() {
			for sleep.For(ctx, probeEvery) == nil {
				probe(ctx)
			}
		})
	}
	every(func(ctx context.Context) { h.probe(ctx, needsNATS, h.Queue.Probe) })
	every(h.probeDisk)
	every(h.heal)
	if h.Embedded == nil {
		loops.Go(func() { h.keepNode(ctx) })
		loops.Go(func() { h.followPeers(ctx) })
		loops.Go(func() { h.handOvers(ctx) })
	}
	for _, a := range h.Accounts {
		every(probes{a}.probeStreams)
		every(probes{a}.probeEvents)
		loops.Go(func() {
			for sleep.For(ctx, settingsEvery) == nil {
				probes{a}.probeSettings(ctx)
			}
		})
		every(func(ctx context.Context) {
			h.probe(ctx, needsLedger+a.Name, probes{a}.probeLedger)
		})
		every(func(context.Context) { a.checks() })
		if h.Embedded == nil {
			loops.Go(func() { standbyWatch{a}.watchStandby(ctx) })
			loops.Go(func() { prover{a}.keepProof(ctx) })
			loops.Go(func() { carrier{a}.carryListing(ctx) })
		}
	}
	loops.Wait()
}

func (h *Host) probe(ctx context.Context, name string, ask func(context.Context) error) {
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := ask(limited); ctx.Err() == nil {
		h.probed.set(name, err)
	}
}

// probeStreams checks that the account's streams answer, and that the events stream
// still has what it acknowledged. A standby checks less often, because there is one per
// account and runner.
func (a probes) probeStreams(ctx context.Context) {
	if a.role() == cluster.RoleStandby && time.Since(a.probedStreams) < standbyEvery {
		return
	}
	a.probedStreams = time.Now()
	a.host.probe(ctx, needsStreams+a.Name, func(ctx context.Context) error {
		if why := a.host.Queue.Down(); why != "" { // a fault of the connection, not of a stream
			return errors.New(why)
		}
		had := a.onStream(ctx)
		first, last, err := streams.Probe(ctx, a.js(), a.Name)
		if err == nil && last < had {
			err = fmt.Errorf("stream %s ends with row %d and had acknowledged row %d: it was removed and made again, or set back (docs/operations.md, \"Ledger and events stream have diverged\")", queue.EventsStream(a.Name), last, had)
		}
		if why := a.lostFront(ctx, first, last); err == nil && why != "" {
			err = errors.New(why)
		}
		if err == nil && a.host.Embedded != nil {
			err = a.onDisk()
		}
		if err == nil && a.host.Embedded == nil {
			err = lease.Check(ctx, a.js())
		}
		return err
	})
}

// onDisk checks that the embedded server still has the files of the account's streams.
func (a probes) onDisk() error {
	for _, stream := range []string{queue.CommandsStream(a.Name), queue.EventsStream(a.Name)} {
		if err := a.host.Embedded.Stored(stream); err != nil {
			return fmt.Errorf("%w: stop the runner, then `perennial run --refill-events` (docs/operations.md, \"Ledger and events stream have diverged\")", err)
		}
	}
	return nil
}

// lostFront says that the events stream lacks first events that no archiving removed.
// The ledger must have everything on the stream. It returns "" if none are missing, or
// this cannot be read.
func (a probes) lostFront(ctx context.Context, first, last uint64) string {
	head, _, err := a.Ledger().Head(ctx)
	if err != nil || uint64(head) < last { // the row that records the removal may be still to come
		return ""
	}
	begin, err := a.Ledger().EventsBegin(ctx)
	why := outbox.MissingBefore(first, uint64(begin))
	if err != nil || why == "" {
		return ""
	}
	return fmt.Sprintf("%s. The next take-over, or start, is refused. Look for max_age and other limits of stream %s, and for who purges it; then %s (docs/operations.md, \"Ledger and events stream have diverged\")",
		why, queue.EventsStream(a.Name), journal.RefillAdvice)
}

// probeLedger checks that the ledger's file exists and is intact, and notes its newest
// row.
func (a probes) probeLedger(ctx context.Context) error {
	if err := a.unusable(); err != nil {
		return err
	}
	if head, _, err := a.Ledger().Head(ctx); err == nil {
		a.lastRow.Store(max(a.lastRow.Load(), head))
	}
	return nil
}

// probeSettings compares the settings of the account's streams and consumers with the
// required ones; an administrator may have changed them. probeStreams finds those that
// do not answer.
func (a probes) probeSettings(ctx context.Context) {
	var wrong error
	if a.role() == cluster.RoleActive {
		limited, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		wrong = a.streams().Check(limited, a.js())
		if wrong == nil && a.host.Embedded == nil {
			wrong = a.streams().CheckQuota(limited, a.js())
		}
		if wrong != nil && !streams.Unlike(wrong) {
			return
		}
	}
	a.host.probed.set(needsSettings+a.Name, wrong)
}

// onStream returns the newest row that the events stream has acknowledged to this
// runner's knowledge; 0 if none is known.
func (a probes) onStream(ctx context.Context) uint64 {
	outbox := a.snapshot().outbox
	switch {
	case a.role() == cluster.RoleStandby || outbox == nil:
		return 0
	case a.host.Embedded != nil:
		return outbox.Published()
	}
	head, _, err := a.Ledger().Head(ctx) // a row is on the stream before it is committed
	if err != nil {
		return 0
	}
	return uint64(max(head, 0))
}

// probeDisk writes and syncs a small file next to the ledgers.
func (h *Host) probeDisk(context.Context) {
	h.probed.mu.Lock()
	h.probed.writing = time.Now()
	h.probed.mu.Unlock()
	err := writeProbe(filepath.Join(h.Config.DataDir, ".probe"))
	if err != nil {
		err = fmt.Errorf("the disk cannot be written: %w", err)
	}
	h.probed.set(needsDisk, err)
	h.probed.mu.Lock()
	h.probed.writing = time.Time{}
	h.probed.mu.Unlock()
}

// writeProbe writes a page next to the previous one. A full disk would still accept an
// empty file or an overwritten page.
func writeProbe(path string) error {
	beside := path + ".new"
	f, err := os.OpenFile(beside, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		_ = os.Remove(beside)
	}
	return err
}

// heal restarts an embedded server that stopped storing because of its disk, once the
// disk works again.
func (h *Host) heal(context.Context) {
	if h.Embedded == nil {
		return
	}
	failing := h.Embedded.Failing()
	h.probed.set("embedded", failing)
	if failing == nil || h.probed.get(needsDisk) != "" || time.Since(h.healed) < healAgain {
		return
	}
	h.healed = time.Now()
	h.log.WithError(failing).Warn("the embedded NATS is started again: the disk works")
	if err := h.Embedded.Restart(); err != nil {
		h.log.WithError(err).Error("the embedded NATS could not be started again; it is tried again")
	}
}

// probeEvents checks that facts are published: a head that stays ahead of the stream
// means that they are not.
func (a probes) probeEvents(ctx context.Context) {
	outbox := a.snapshot().outbox
	if outbox == nil {
		a.host.probed.set(needsEvents+a.Name, nil)
		return
	}
	published := outbox.Published()
	head, _, err := a.Ledger().Head(ctx)
	if err != nil {
		return
	}
	if uint64(head) <= published || published != a.publishedLast || a.publishedBy != outbox {
		a.publishedLast, a.publishedAt, a.publishedBy = published, time.Now(), outbox
	}
	var behind error
	if time.Since(a.publishedAt) > behindAfter {
		behind = fmt.Errorf("no event has been published for %s: row %d of %d is on the stream", time.Since(a.publishedAt).Round(time.Second), published, head)
		if why := outbox.Failing(); why != nil {
			behind = fmt.Errorf("%w: %w", behind, why)
		}
	}
	a.host.probed.set(needsEvents+a.Name, behind)
}

// checks checks all dependencies of the account, notes since when each state lasts, and
// logs changes.
func (a *account) checks() []check {
	now := time.Now().UTC()
	started := a.isStarted()
	all := a.look()
	a.checked.Lock()
	defer a.checked.Unlock()
	for i := range all {
		c := &all[i]
		c.OK = c.Detail == ""
		last, known := a.last[c.Name]
		if c.Since = now; known && last.OK == c.OK {
			c.Since = last.Since
		}
		if c.OK == a.warned[c.Name] && (started || c.Name != needsAccount) { // a start in progress is no fault
			a.warned[c.Name] = !c.OK
			log := a.log.WithField("check", c.Name)
			if c.OK {
				log.Info("works again: " + c.Name)
			} else {
				log.Warn("not ready: " + c.Detail)
			}
		}
		a.last[c.Name] = *c
	}
	return all
}

// look returns the state of each dependency of the account.
func (a *account) look() []check {
	x := a.snapshot()
	state, runner, sweeper := x.state, x.runner, x.sweeper
	standby := state == waitsForLease
	if standby {
		_, problem := a.standby.read()
		outdated, _ := a.outdated.look()
		state = cmp.Or(outdated, x.unfollowed, problem)
	}
	p := &a.host.probed
	out := []check{
		{Name: needsNATS, Detail: cmp.Or(a.host.Queue.Down(), p.get(needsNATS))},
		{Name: needsStreams, Detail: cmp.Or(p.get("embedded"), p.get(needsStreams+a.Name), p.get(needsSettings+a.Name))},
		{Name: needsEvents, Detail: cmp.Or(a.unacknowledged(), p.get(needsEvents+a.Name))},
		{Name: needsLedger, Detail: p.get(needsLedger + a.Name)},
		{Name: needsDisk, Detail: cmp.Or(a.ledgerFailing(), p.get(needsDisk))},
		{Name: needsAccount, Detail: state},
	}
	if standby { // its last answer of the provider is out of date
		return append(out, check{Name: needsProvider, Detail: a.proof.refusal()})
	}
	if runner != nil && a.role() == cluster.RoleActive {
		out = append(out, check{Name: needsProvider, Detail: cmp.Or(runner.Silent(), runner.Unsettled())}, check{Name: needsPaused, Detail: pausedText(runner.Paused())},
			check{Name: needsRestored, Detail: runner.RestorePause()}, check{Name: needsBooks, Detail: runner.Unreconciled()})
	}
	if sweeper != nil {
		out = append(out, check{Name: needsSweeps, Detail: sweeper.NotReady()})
	}
	return out
}

func (a *account) ledgerFailing() string {
	if a.Ledger() == nil {
		return ""
	}
	if err := a.Ledger().Failing(); err != nil && !unusable(err) {
		return "the ledger cannot be written, so nothing is sent: " + err.Error()
	}
	if err := a.Ledger().Unbounded(); err != nil {
		return err.Error()
	}
	return ""
}

// unusable reports whether an error is about a lost or damaged ledger file, or a
// directory locked by another process. A separate check reports these.
func unusable(err error) bool {
	_, lost := errors.AsType[*ledger.LostError](err)
	_, damaged := errors.AsType[*ledger.DamagedError](err)
	return lost || damaged || errors.Is(err, datadir.ErrLocked)
}

// notReady returns why the account does not work, one line per reason; "" if it works.
func (a *account) notReady() string {
	var lines []string
	for _, c := range a.checks() {
		if !c.OK {
			lines = append(lines, c.Detail)
		}
	}
	return strings.Join(lines, "\n")
}

// role returns active while the runner may append to the account's history, else
// standby.
func (a *account) role() string {
	if a.host.Embedded == nil && a.snapshot().leading == nil {
		return cluster.RoleStandby
	}
	return cluster.RoleActive
}

func pausedText(all []tables.Pause) string {
	lines := make([]string, 0, len(all))
	for _, x := range all {
		lines = append(lines, inspect.PausedSince(x))
	}
	return strings.Join(lines, "\n")
}
