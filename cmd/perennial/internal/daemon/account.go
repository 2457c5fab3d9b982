// One account of a process: its ledger, its streams and its state.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue/outbox"
	"perennial/schedules"
	"perennial/upstream"
)

// account is one configured account, with its ledger, its streams and its state.
type account struct {
	Name   string
	host   *Host
	config *config.Account
	log    *logrus.Entry
	ledger atomic.Pointer[ledger.Ledger]
	Client *upstream.Client
	counts *counts
	recent jobs.ProviderWindow // outcomes of the requests in the last minutes

	webhooks    []*webhook.Sink
	oneLetter   sync.Mutex // held while a request handles a dead letter
	corrections sync.Mutex // held while a page corrects a dead letter, so that a second correction finds no letter

	started chan struct{} // closed when the account works, or has reported why it does not work
	once    sync.Once

	mu sync.Mutex // guards current
	current

	standby  standbyState
	outdated outdated
	access   access

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

// current is the account's working state, and the reason if the account does not work.
type current struct {
	state      string // why the account is not ready; "" if it is
	runner     *jobs.Runner
	sweeper    *schedules.Sweeper
	outbox     *outbox.Outbox
	leading    *leading // nil unless this runner is the leader
	holding    holding
	unfollowed string // why a standby cannot follow the events; "" if it can
	unbound    string // why the leader could not read the provider's account; "" if it could
}

// snapshot returns a copy of current.
func (a *account) snapshot() current {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current
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
	a.counts = h.meter.of(name)
	a.counts.tracer = h.tracer
	for _, s := range h.Config.SchedulesOf(name) {
		a.counts.schedule(s.Name)
	}
	if a.Client, err = h.Config.Client(name, secret, time.Now, a.exchanged); err != nil {
		return nil, err
	}
	a.newWebhooks()
	if h.Queue.Down() == "" {
		if err := a.ensureStreams(ctx); err != nil {
			a.log.WithError(err).Warn("the account's streams are not as they should be; the account starts when they are")
		}
	}
	if err := a.file.openLedger(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// Ledger returns the account's ledger. After a rebuild from the events, it returns the new
// ledger. The earlier ledger is closed.
func (a *account) Ledger() *ledger.Ledger { return a.ledger.Load() }

// errTwoNames means that the configuration has one provider account under two names.
var errTwoNames = errors.New("one provider account has two names")

// mayBind refuses a provider account that another account of this process uses, because each
// account would report the spending of the other as unexplained. The runner calls mayBind
// before it binds the ledger to a provider account. If both ledgers are already bound, only
// the alphabetically later account is refused.
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != why {
		a.host.announce()
		if why == waitsForLease {
			a.log.Info(why)
		}
	}
	a.state = why
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

// exchanged counts a request to the provider. The client calls it after each request.
func (a *account) exchanged(x upstream.Exchange) {
	a.counts.request(x)
	a.recent.Add(x, time.Now())
}

// providerRecent summarizes the provider's replies in the last minutes.
func (a *account) providerRecent() jobs.ProviderRecent {
	r := a.recent.Recent(time.Now())
	if skew, heard := a.clockSkew(); heard {
		ms := skew.Milliseconds()
		r.SkewMillis = &ms
	}
	return r
}
