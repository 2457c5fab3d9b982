package daemon

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/journal"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/intake"
	"perennial/queue/letters"
	"perennial/queue/objects"
	"perennial/queue/outbox"
	"perennial/queue/positions"
	"perennial/queue/streams"
	"perennial/schedules"
	"perennial/upstream"
)

type account struct {
	Name   string
	host   *Host
	config *config.Account
	log    *logrus.Entry
	ledger atomic.Pointer[ledger.Ledger]
	Client *upstream.Client
	meter  *meter
	recent jobs.ProviderWindow // outcomes of the requests in the last minutes

	webhooks    []*webhook.Sink
	oneLetter   sync.Mutex // held while a request handles a dead letter
	corrections sync.Mutex // held while a page corrects a dead letter, so that a second correction finds no letter

	started chan struct{} // closed when the account works, or has reported why it does not work
	once    sync.Once

	mu sync.Mutex // guards current
	current

	outdated outdated

	finishes       finishes
	waitingInboxes waitingInboxes

	wanted fact.Binding // the provider account to which the ledger will be bound; guarded by host.binding

	checked sync.Mutex
	last    map[string]check // by name
	warned  map[string]bool  // the checks that were logged as not ready, by name

	lastRow atomic.Int64 // newest ledger row that a probe has seen

	file *ledgerFile

	probedStreams time.Time // last run of probeStreams; only probeStreams uses it

	publishedLast uint64 // only probeEvents uses it
	publishedBy   *outbox.Outbox
	publishedAt   time.Time
}

type current struct {
	state      string // why the account is not ready; "" if it is
	runner     *jobs.Runner
	sweeper    *schedules.Sweeper
	outbox     *outbox.Outbox
	leading    *leading // nil unless this runner is the leader
	holding    holding
	standby    standbyState
	unfollowed string // why a standby cannot follow the events; "" if it can
	unbound    string // why the leader could not read the provider's account; "" if it could
	access     access
}

func (a *account) snapshot() current {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current
}

func (a *account) update(change func(*current)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.current)
}

// newAccountHost returns the account with an open ledger. If NATS is reachable, it also
// creates the streams, so that producers can publish commands before the account works.
func newAccountHost(ctx context.Context, h *Host, name string) (*account, error) {
	a := &account{Name: name, host: h, config: h.Config.Accounts[name], log: h.log.WithField("account", name), current: current{state: "starting"}, started: make(chan struct{}), last: map[string]check{}, warned: map[string]bool{}}
	a.file = &ledgerFile{account: a}
	secret, err := h.Config.SecretOf(name)
	if err != nil {
		return nil, err
	}
	a.meter = newMeter(h.registry, name)
	a.meter.tracer = h.tracer
	for _, s := range h.Config.SchedulesOf(name) {
		a.meter.schedule(s.Name)
	}
	if a.Client, err = h.Config.Client(name, secret, time.Now, a.exchanged); err != nil {
		return nil, err
	}
	a.newWebhooks()
	if h.Queue.Down() == "" {
		if err := a.ensureStreams(ctx); err != nil && ctx.Err() == nil {
			a.log.WithError(err).Warn("the account's streams are not as they should be; the account starts when they are")
		}
	}
	if err := a.file.openLedger(ctx); err != nil {
		return nil, &unopenedError{err}
	}
	return a, nil
}

// unopenedError means that an account's ledger cannot be opened.
type unopenedError struct{ err error }

func (e *unopenedError) Error() string { return e.err.Error() }
func (e *unopenedError) Unwrap() error { return e.err }

// Ledger returns the account's ledger. After a rebuild from the events, it returns the new
// ledger. The earlier ledger is closed.
func (a *account) Ledger() *ledger.Ledger { return a.ledger.Load() }

var errTwoNames = errors.New("one provider account has two names")

// mayBind refuses a provider account that another account of this process uses. Otherwise each
// of the two would report the other's spending as unexplained. The runner calls mayBind before
// it binds the ledger to a provider account. If both ledgers are already bound, only the
// alphabetically later account is refused.
func (a *lifecycle) mayBind(ctx context.Context, want fact.Binding) error {
	a.host.binding.Lock()
	defer a.host.binding.Unlock()
	_, err := a.Ledger().Binding(ctx)
	bound := err == nil
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	for _, other := range a.host.Accounts {
		if other == a.account || bound && a.Name < other.Name {
			continue
		}
		b, err := other.Ledger().Binding(ctx)
		if err != nil { // the other account has not bound its ledger yet, or it cannot be read
			b = other.wanted
		}
		if b.AccountID == want.AccountID && b.Environment == want.Environment {
			return fmt.Errorf("%w: accounts %s and %s are both account %s, %s\nremove one of them from the configuration", errTwoNames, other.Name, a.Name, want.AccountID, want.Environment)
		}
	}
	a.wanted = want
	return nil
}

func (a *account) close() {
	if a.Client != nil {
		a.Client.Close()
	}
	if l := a.Ledger(); l != nil && !a.file.closed {
		if err := l.Close(); err != nil {
			a.log.WithError(err).Warn("the ledger did not close cleanly")
		}
	}
}

func (a *account) setState(why string) {
	a.update(func(x *current) {
		if x.state != why {
			a.host.announce()
			if why == waitsForLease {
				a.log.Info(why)
			}
		}
		x.state = why
	})
}

func (a *account) report(why string) {
	a.setState(why)
	a.hasStarted()
}

func (a *account) isStarted() bool {
	select {
	case <-a.started:
		return true
	default:
		return false
	}
}

func (a *account) hasStarted() { a.once.Do(func() { close(a.started) }) }

func (a *account) exchanged(x upstream.Exchange) {
	a.meter.request(x)
	a.recent.Add(x, time.Now())
}

func (a *account) providerRecent() jobs.ProviderRecent {
	r := a.recent.Recent(time.Now())
	if skew, heard := a.clockSkew(); heard {
		ms := skew.Milliseconds()
		r.SkewMillis = &ms
	}
	return r
}

func (a *account) js() *queue.JetStream { return a.host.Queue.JetStream() }

func (a *account) events() events.Stream { return events.Of(a.js(), a.Name) }

func (a *account) letters() letters.Letters { return letters.Of(a.js(), a.Name) }

func (a *account) positions() positions.Positions { return positions.Of(a.js(), a.Name) }

// stored returns the NATS object store from which standbys load the last listing.
func (a *account) stored() objects.Fleet { return objects.FleetOf(a.js(), a.Name) }

func (a *account) streams() streams.Wanted {
	return streams.Wanted{Account: a.Name, Replicas: a.config.Replicas, Embedded: a.host.Embedded != nil}
}

func (a *lifecycle) takeCommands(ctx context.Context) (*intake.Intake, error) {
	return intake.Open(ctx, a.js(), a.Name)
}

type ledgerFile struct {
	*account

	closed bool // the ledger is closed and must be reopened or rebuilt; only the account's lifecycle uses it
}

// openLedger opens the account's ledger at the start. On an external NATS, it moves a damaged
// ledger aside. It also rebuilds a ledger that ends before the events stream begins. If the rebuild
// fails, prepare retries it.
func (a *ledgerFile) openLedger(ctx context.Context) error {
	l, err := ledger.Open(ctx, a.ledgerConfig())
	if damaged, is := errors.AsType[*ledger.DamagedError](err); is && a.host.Config.NATS.External() {
		if err = a.moveLedgerAside(fmt.Errorf("%w: %s is damaged: %w", errLedgerUnusable, damaged.Path, damaged.Err)); err == nil {
			l, err = ledger.Open(ctx, a.ledgerConfig())
		}
	}
	if err != nil {
		return err
	}
	a.ledger.Store(l)
	if a.host.Config.NATS.External() && a.host.Queue.Down() == "" {
		if err := a.rebuild(ctx); err != nil {
			a.log.WithError(err).Warn("the ledger ends before the events stream begins, and could not be made from the snapshot beside the stream; it is tried again")
		}
	}
	return nil
}

func (a *ledgerFile) ledgerConfig() ledger.Config {
	return ledger.Config{Path: a.host.Config.LedgerPath(a.Name), Clock: time.Now, Follows: a.host.Config.NATS.External(),
		Held: a.host.lock.Check, Turns: a.host.turns, Committed: a.meter.committed}
}

// rebuild rebuilds a ledger that ends before the events stream begins, such as an empty ledger.
// It uses a snapshot and the later events, and moves the old file aside. It changes nothing if
// the stream has every row that the ledger needs. It also changes nothing if no event on the
// stream contains the hash of a stored snapshot. During the call, no other goroutine may write
// the ledger.
func (a *ledgerFile) rebuild(ctx context.Context) error {
	if err := a.setAside(ctx); err != nil {
		return err
	}
	if err := a.reopen(ctx); err != nil {
		return err
	}
	head, missing, err := a.journal().Missing(ctx)
	if err != nil || !missing {
		return err
	}
	snapshot, content, err := journal.VouchedSnapshot(ctx, a.host.Queue, a.Name)
	if err != nil || snapshot == nil {
		return err
	}
	a.setState("making the ledger from the snapshot beside the events stream")
	bound, err := a.Ledger().Binding(ctx)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	c := a.ledgerConfig()
	out, err := ledger.Restore{
		Path: c.Path, Clock: c.Clock, Replace: true, Follows: true, Replaces: bound, Snapshot: snapshot, Content: content,
		Events: func(first int64) iter.Seq2[[]byte, error] {
			return journal.Bodies(a.events().History(ctx, uint64(max(first, 1))))
		},
		Replacing: func() error {
			a.closed = true
			return a.Ledger().Close()
		},
	}.Run(ctx)
	if err = errors.Join(err, a.reopen(ctx)); err != nil { // reopen even after a failure
		return fmt.Errorf("make the ledger: %w", err)
	}
	a.log.WithFields(logrus.Fields{"was_seq": head, "snapshot_seq": snapshot.Seq, "events": out.Events, "replaced": out.Replaced}).
		Info("the ledger ended before the events stream begins: it is made again from the snapshot beside the stream and the events after it")
	return nil
}

// errLedgerUnusable means that the ledger's file is lost or damaged, and must be rebuilt.
var errLedgerUnusable = errors.New("the ledger cannot be used, and is made again from the events stream")

// unusable returns why the ledger cannot be used. It returns nil if the ledger is usable. On an
// external NATS, the error contains no advice, because the ledger is rebuilt automatically.
func (a *account) unusable() error {
	err := a.Ledger().Unusable()
	if damaged, is := errors.AsType[*ledger.DamagedError](err); is && a.host.Embedded == nil {
		return fmt.Errorf("%w: %s is damaged: %w", errLedgerUnusable, damaged.Path, damaged.Err)
	}
	if lost, is := errors.AsType[*ledger.LostError](err); is && a.host.Embedded == nil {
		return fmt.Errorf("%w: %s was removed, or another file was put in its place", errLedgerUnusable, lost.Path)
	}
	return err
}

func (a *ledgerFile) watchLedger(ctx context.Context, end func(error)) {
	for sleep.For(ctx, probeEvery) == nil {
		if err := a.unusable(); err != nil {
			end(err)
			return
		}
	}
}

// setAside moves a lost or damaged ledger aside and closes it. The empty ledger that
// replaces it follows the events stream, which has every committed row. If the stream lost
// rows that this ledger had, setAside leaves the file for an operator.
func (a *ledgerFile) setAside(ctx context.Context) error {
	if a.closed {
		return nil
	}
	why := a.unusable()
	if why == nil {
		return nil
	}
	if !errors.Is(why, errLedgerUnusable) { // another process has locked the directory and uses the file
		return fmt.Errorf("the ledger is not touched: %w", why)
	}
	last, _, err := a.events().LastRow(ctx)
	if err != nil {
		return errors.Join(why, err)
	}
	if had := a.lastRow.Load(); int64(last.StreamSeq) < had {
		return fmt.Errorf("%w\nit is not made again automatically: the events stream ends with row %d, and this ledger had row %d. Keep the file, and start another runner whose ledger is longer", why, last.StreamSeq, had)
	}
	if err := a.moveLedgerAside(why); err != nil {
		return err
	}
	a.closed = true
	if err := a.Ledger().Close(); err != nil {
		a.log.WithError(err).Warn("the ledger that was moved aside did not close cleanly")
	}
	return nil
}

func (a *ledgerFile) moveLedgerAside(why error) error {
	aside, err := ledger.MoveAside(a.host.Config.LedgerPath(a.Name), time.Now())
	if err == nil {
		a.log.WithError(why).WithField("replaced", aside).Error("the ledger is moved aside and made again. Look at the disk, and at who may write to the directory")
	}
	return err
}

// reopenReadOnly opens a ledger again that SQLite has opened read-only. A lost ledger stays as it is:
// to open it would make an empty one.
func (a *ledgerFile) reopenReadOnly(ctx context.Context) error {
	if !a.closed && a.unusable() == nil && a.Ledger().ReadOnly() {
		a.closed = true
		if err := a.Ledger().Close(); err != nil {
			a.log.WithError(err).Warn("the ledger that was opened read-only did not close cleanly")
		}
	}
	return a.reopen(ctx)
}

func (a *ledgerFile) reopen(ctx context.Context) error {
	if !a.closed {
		return nil
	}
	l, err := ledger.Open(ctx, a.ledgerConfig())
	if err == nil {
		a.ledger.Store(l)
		a.closed = false
	}
	return err
}

// AwaitStored waits until every account works and its events stream has acknowledged the
// ledger's current rows. If ctx ends first, it returns ctx's error. On an external NATS it
// returns immediately, because each row is on the stream before it is in the ledger.
func (h *Host) AwaitStored(ctx context.Context) error {
	if h.Embedded == nil {
		return nil
	}
	for _, a := range h.Accounts {
		outbox, err := probes{a}.awaitOutbox(ctx)
		if err != nil {
			return err
		}
		seq, _, err := a.Ledger().Head(ctx)
		if err != nil {
			return err
		}
		if err := outbox.Wait(ctx, uint64(seq)); err != nil {
			return err
		}
	}
	return nil
}

func (a probes) awaitOutbox(ctx context.Context) (*outbox.Outbox, error) {
	for {
		outbox := a.snapshot().outbox
		if outbox != nil {
			return outbox, nil
		}
		if err := sleep.For(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
