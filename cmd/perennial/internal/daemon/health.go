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
	"perennial/cmd/perennial/internal/web"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/queue/lease"
	"perennial/queue/outbox"
	"perennial/queue/streams"
)

type probes struct{ *account }

type check = web.Check

// Names of checks, as /readyz?verbose and the metrics show them.
const (
	checkNATS     = "nats"
	checkStreams  = "streams"
	checkSettings = "settings" // reported under the name streams
	checkEvents   = "events"
	checkDisk     = "disk"
	checkLedger   = "ledger"
	checkAccount  = "account"
	checkProvider = "provider"
	checkPaused   = "paused"
	checkRestored = "restored"
	checkSweeps   = "sweeps"
	checkBooks    = "books"
)

// Intervals and timeouts of the probes. /readyz may be outdated by one interval plus one
// timeout.
const (
	probeEvery    = time.Second
	probeTimeout  = 3 * time.Second
	behindAfter   = 5 * time.Second  // longest time that an event may be unpublished
	healAgain     = 10 * time.Second // shortest time between two restarts of the embedded server
	settingsEvery = 10 * time.Second // interval between comparisons of the settings of streams and consumers
)

// probed stores the result of each probe by name. The result is an error text, or "" if the
// dependency is healthy.
type probed struct {
	mu      sync.Mutex
	found   map[string]string
	writing time.Time // start of a disk probe that has not returned; zero if every probe has returned
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
	if name == checkDisk && !p.writing.IsZero() && time.Since(p.writing) > probeTimeout {
		return "the disk has not answered since " + p.writing.UTC().Format(time.RFC3339)
	}
	return p.found[name]
}

// watch probes the accounts' dependencies until ctx ends, and logs changes. Each probe has
// its own goroutine, so that a hanging probe does not delay the others.
func (h *Host) watch(ctx context.Context) {
	var loops sync.WaitGroup
	every := func(probe func(context.Context)) {
		loops.Go(func() {
			for sleep.For(ctx, probeEvery) == nil {
				probe(ctx)
			}
		})
	}
	every(func(ctx context.Context) { h.probe(ctx, checkNATS, h.Queue.Probe) })
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
			h.probe(ctx, checkLedger+a.Name, probes{a}.probeLedger)
		})
		every(func(context.Context) { a.checks() })
		if h.Embedded == nil {
			loops.Go(func() { standbyWatch{a}.watchStandby(ctx) })
			loops.Go(func() { accessTest{a}.keepAccess(ctx) })
			loops.Go(func() { listingSync{a}.syncListing(ctx) })
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

// probeStreams checks that the account's streams respond, and that the events stream still has
// the rows that it acknowledged. A standby checks less often, because an account has many
// standbys but only one leader.
func (a probes) probeStreams(ctx context.Context) {
	if a.role() == cluster.RoleStandby && time.Since(a.probedStreams) < standbyEvery {
		return
	}
	a.probedStreams = time.Now()
	a.host.probe(ctx, checkStreams+a.Name, func(ctx context.Context) error {
		if why := a.host.Queue.Down(); why != "" { // the connection failed, so the state of the streams is unknown
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

// lostFront returns a message if the events stream lacks its first events although they were not
// archived. Otherwise it returns "". It also returns "" if the ledger lacks rows of the stream,
// because a comparison is then impossible.
func (a probes) lostFront(ctx context.Context, first, last uint64) string {
	head, _, err := a.Ledger().Head(ctx)
	if err != nil || uint64(head) < last { // the ledger may still lack the row that records the archiving
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

// probeLedger checks that the ledger's file exists and is intact, and records its newest row.
func (a probes) probeLedger(ctx context.Context) error {
	if err := a.unusable(); err != nil {
		return err
	}
	if head, _, err := a.Ledger().Head(ctx); err == nil {
		a.lastRow.Store(max(a.lastRow.Load(), head))
	}
	if runner := a.snapshot().runner; runner != nil {
		if err := runner.Unqueued(); err != nil {
			return fmt.Errorf("operations are not carried out because they cannot be read from the ledger: %w", err)
		}
	}
	return nil
}

// probeSettings compares the settings of the account's streams and consumers with the required
// settings, because an administrator may have changed them. It ignores streams that do not
// respond, because probeStreams reports them.
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
	a.host.probed.set(checkSettings+a.Name, wrong)
}

// onStream returns the newest row that is known to be on the events stream. It returns 0 if no
// such row is known.
func (a probes) onStream(ctx context.Context) uint64 {
	outbox := a.snapshot().outbox
	switch {
	case a.role() == cluster.RoleStandby || outbox == nil:
		return 0
	case a.host.Embedded != nil:
		return outbox.Published()
	}
	head, _, err := a.Ledger().Head(ctx) // on an external NATS, a committed row is already on the stream
	if err != nil {
		return 0
	}
	return uint64(max(head, 0))
}

func (h *Host) probeDisk(context.Context) {
	h.probed.mu.Lock()
	h.probed.writing = time.Now()
	h.probed.mu.Unlock()
	err := writeProbe(filepath.Join(h.Config.DataDir, ".probe"))
	if err != nil {
		err = fmt.Errorf("the disk cannot be written: %w", err)
	}
	h.probed.set(checkDisk, err)
	h.probed.mu.Lock()
	h.probed.writing = time.Time{}
	h.probed.mu.Unlock()
}

// writeProbe writes 4 KiB to a new file, then renames it to path. A full disk would still
// accept an empty file, or new content in an existing page.
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

// heal restarts an embedded server that stopped storing messages because of a disk failure. It
// waits until the disk works again.
func (h *Host) heal(context.Context) {
	if h.Embedded == nil {
		return
	}
	failing := h.Embedded.Failing()
	h.probed.set("embedded", failing)
	if failing == nil || h.probed.get(checkDisk) != "" || time.Since(h.healed) < healAgain {
		return
	}
	h.healed = time.Now()
	h.log.WithError(failing).Warn("the embedded NATS is started again: the disk works")
	if err := h.Embedded.Restart(); err != nil {
		h.log.WithError(err).Error("the embedded NATS could not be started again; it is tried again")
	}
}

// probeEvents checks that facts are published. It reports an error if no event was published
// for behindAfter although the stream lacks rows of the ledger.
func (a probes) probeEvents(ctx context.Context) {
	outbox := a.snapshot().outbox
	if outbox == nil {
		a.host.probed.set(checkEvents+a.Name, nil)
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
	a.host.probed.set(checkEvents+a.Name, behind)
}

// checks returns the state of all dependencies of the account, with the time when each state
// began. It logs changes.
func (a *account) checks() []check {
	now := time.Now().UTC()
	started := a.isStarted()
	all := a.currentChecks()
	a.checked.Lock()
	defer a.checked.Unlock()
	for i := range all {
		c := &all[i]
		c.OK = c.Detail == ""
		last, known := a.last[c.Name]
		if c.Since = now; known && last.OK == c.OK {
			c.Since = last.Since
		}
		if c.OK == a.warned[c.Name] && (started || c.Name != checkAccount) { // an account that is still starting is not logged as a fault
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

func (a *account) currentChecks() []check {
	x := a.snapshot()
	state, runner, sweeper := x.state, x.runner, x.sweeper
	standby := state == waitsForLease
	if standby {
		outdated, _ := a.outdated.state()
		state = cmp.Or(outdated, x.unfollowed, x.standby.problem)
	}
	p := &a.host.probed
	out := []check{
		{Name: checkNATS, Detail: cmp.Or(a.host.Queue.Down(), p.get(checkNATS))},
		{Name: checkStreams, Detail: cmp.Or(p.get("embedded"), p.get(checkStreams+a.Name), p.get(checkSettings+a.Name))},
		{Name: checkEvents, Detail: cmp.Or(a.unacknowledged(), p.get(checkEvents+a.Name))},
		{Name: checkLedger, Detail: p.get(checkLedger + a.Name)},
		{Name: checkDisk, Detail: cmp.Or(a.ledgerFailing(), p.get(checkDisk))},
		{Name: checkAccount, Detail: state},
	}
	if standby { // a standby's last reply from the provider may be outdated
		return append(out, check{Name: checkProvider, Detail: x.access.refusal()})
	}
	if runner != nil && a.role() == cluster.RoleActive {
		out = append(out, check{Name: checkProvider, Detail: cmp.Or(runner.Silent(), runner.Unsettled())}, check{Name: checkPaused, Detail: pausedText(runner.Paused())},
			check{Name: checkRestored, Detail: runner.RestorePause()}, check{Name: checkBooks, Detail: runner.Unreconciled()})
	}
	if sweeper != nil {
		out = append(out, check{Name: checkSweeps, Detail: sweeper.NotReady()})
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

// unusable reports whether err means that the ledger's file is lost or damaged, or that another
// process has locked the directory. A separate check reports these errors.
func unusable(err error) bool {
	_, lost := errors.AsType[*ledger.LostError](err)
	_, damaged := errors.AsType[*ledger.DamagedError](err)
	return lost || damaged || errors.Is(err, datadir.ErrLocked)
}

// notReady returns why the account does not work, one line for each reason. It returns "" if
// the account works.
func (a *account) notReady() string {
	var lines []string
	for _, c := range a.checks() {
		if !c.OK {
			lines = append(lines, c.Detail)
		}
	}
	return strings.Join(lines, "\n")
}

// role returns active while this runner may append to the account's history, otherwise standby.
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
