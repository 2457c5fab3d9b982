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

	"perennial/cmd/perennial/internal/datadir"
	"perennial/ledger"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/lease"
	"perennial/queue/outbox"
	"perennial/queue/streams"
)

// probes are what an account is asked for /readyz.
type probes struct{ *account }

// check is one thing that an account depends on.
type check struct {
	Name   string    `json:"name"`
	OK     bool      `json:"ok"`
	Since  time.Time `json:"since"` // since when it is so
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

// Intervals and timeouts of the probes. What /readyz says is true within the sum of an
// interval and its timeout.
const (
	probeEvery    = time.Second
	probeTimeout  = 3 * time.Second
	behindAfter   = 5 * time.Second  // events that are not published
	healAgain     = 10 * time.Second // between two restarts of the embedded server
	settingsEvery = 10 * time.Second // the settings of streams and consumers are compared
)

// probed is what the host's probes have found; "" is well.
type probed struct {
	mu      sync.Mutex
	found   map[string]string
	writing time.Time // since when a probe of the disk has not come back; zero: none is out
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

// watch probes what the accounts depend on until ctx ends, and says in the log what
// changed. Each probe has its own loop: one that hangs holds up no other.
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
			loops.Go(func() { a.watchStandby(ctx) })
			loops.Go(func() { a.keepProof(ctx) })
			loops.Go(func() { a.carryListing(ctx) })
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

// probeStreams asks whether the account's streams answer, and whether the events stream
// still has what it acknowledged; on a standby every few times only, for there is one for
// each account and runner.
func (a probes) probeStreams(ctx context.Context) {
	if a.role() == roleStandby && time.Since(a.probedStreams) < standbyEvery {
		return
	}
	a.probedStreams = time.Now()
	a.host.probe(ctx, needsStreams+a.Name, func(ctx context.Context) error {
		if why := a.host.Queue.Down(); why != "" { // of the connection, and not of a stream
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
		if err == nil && a.host.Embedded == nil {
			err = lease.Check(ctx, a.js())
		}
		return err
	})
}

// lostFront says that the events stream lacks first events that no archiving removed, by a
// ledger that has all that is on it; "" where it does not, or that cannot be read.
func (a probes) lostFront(ctx context.Context, first, last uint64) string {
	head, _, err := a.Ledger().Head(ctx)
	if err != nil || uint64(head) < last { // the row that says so may be among those to come
		return ""
	}
	begin, err := a.Ledger().EventsBegin(ctx)
	why := outbox.MissingBefore(first, uint64(begin))
	if err != nil || why == "" {
		return ""
	}
	return fmt.Sprintf("%s. The next take-over, or start, is refused. Look for max_age and other limits of stream %s, and for who purges it; then %s (docs/operations.md, \"Ledger and events stream have diverged\")",
		why, queue.EventsStream(a.Name), RefillAdvice)
}

// probeLedger looks whether the ledger's file is still there and whole, and notes its newest row.
func (a probes) probeLedger(ctx context.Context) error {
	if err := a.unusable(); err != nil {
		return err
	}
	if head, _, err := a.Ledger().Head(ctx); err == nil {
		a.lastRow.Store(max(a.lastRow.Load(), head))
	}
	return nil
}

// probeSettings compares the settings of the account's streams and consumers, which an
// administrator may have changed, with what they must be. What does not answer is found
// by probeStreams.
func (a probes) probeSettings(ctx context.Context) {
	var wrong error
	if a.role() == roleActive {
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

// onStream is the newest row of which this runner knows that the events stream has
// acknowledged it; 0 where it knows of none, as when the ledger cannot be read.
func (a probes) onStream(ctx context.Context) uint64 {
	outbox := a.snapshot().outbox
	switch {
	case a.role() == roleStandby || outbox == nil:
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

// probeDisk writes a small file beside the ledgers and syncs it.
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

// writeProbe writes a page beside the one of the last time: a full disk takes an
// empty file, and a page in the place of one that it has.
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

// heal restarts an embedded server that has stopped storing because of its disk,
// once the disk works again.
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

// probeEvents looks whether facts go out: a head that is ahead of the stream for a
// while means that they do not, whatever the stream says.
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

// checks looks at everything that the account depends on, notes since when it is
// as it is, and logs what changed.
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
		if c.OK == a.warned[c.Name] && (started || c.Name != needsAccount) { // a start that is on its way is no fault
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

// look says of each thing that the account depends on what is wrong with it.
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
	if standby { // what the runner last heard of the provider is another one's by now
		return append(out, check{Name: needsProvider, Detail: a.proof.refusal()})
	}
	if runner != nil && a.role() == roleActive {
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

// unusable says that an error is of a ledger file that is gone or damaged, or of a directory that another
// process has: a check
// of its own says so, and when it has ended.
func unusable(err error) bool {
	_, lost := errors.AsType[*ledger.LostError](err)
	_, damaged := errors.AsType[*ledger.DamagedError](err)
	return lost || damaged || errors.Is(err, datadir.ErrLocked)
}

// notReady is why the account does not work, a line for each reason; "" when it does.
func (a *account) notReady() string {
	var lines []string
	for _, c := range a.checks() {
		if !c.OK {
			lines = append(lines, c.Detail)
		}
	}
	return strings.Join(lines, "\n")
}

// role is active while the runner may append to the account's history, else standby.
func (a *account) role() string {
	if a.host.Embedded == nil && a.snapshot().leading == nil {
		return roleStandby
	}
	return roleActive
}

// The roles of a runner for an account.
const (
	roleActive  = "active"
	roleStandby = "standby"
)

func pausedText(all []ledger.Pause) string {
	lines := make([]string, 0, len(all))
	for _, x := range all {
		text := fmt.Sprintf("paused (%s, %s) since %s: %s", x.Scope, x.Cause, x.Since.UTC().Format(time.RFC3339), x.Detail)
		lines = append(lines, text+UntilText(x))
	}
	return strings.Join(lines, "\n")
}

// UntilText says when a pause ends automatically, "" when it does not.
func UntilText(x ledger.Pause) string {
	if x.Until == nil {
		return ""
	}
	return ", until " + x.Until.UTC().Format(time.RFC3339)
}
