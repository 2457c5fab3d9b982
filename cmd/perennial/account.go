package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/jobs"
	"perennial/ledger"
	"perennial/queue"
	"perennial/schedules"
	"perennial/upstream"
)

// leaseTTL is for how long a runner that died blocks an account on an external
// NATS.
const leaseTTL = 15 * time.Second

// accountHost is one account with everything that serves it.
type accountHost struct {
	name   string
	host   *host
	config *accountConfig
	log    *logrus.Entry
	ledger *ledger.Ledger
	client *upstream.Client

	started chan struct{} // closed when it works, or is known not to for now
	once    sync.Once

	mu      sync.Mutex
	state   string // why it is not ready; "" when it is
	runner  *jobs.Runner
	sweeper *schedules.Sweeper
	relay   *queue.Relay

	checked sync.Mutex
	last    map[string]check // by name

	acknowledged uint64 // the newest row that the stream ever had in this process; of run alone
	refilled     bool   // what `run --refill-events` asked for is done; of run alone

	publishedLast uint64 // of probeEvents alone
	publishedBy   *queue.Relay
	publishedAt   time.Time
}

// newAccountHost opens the ledger and makes the streams, so that commands can be
// published from the first moment.
func newAccountHost(ctx context.Context, h *host, name string) (*accountHost, error) {
	a := &accountHost{name: name, host: h, config: h.config.Accounts[name], log: h.log.WithField("account", name), state: "starting", started: make(chan struct{}), last: map[string]check{}}
	secret, err := h.config.secretOf(name)
	if err != nil {
		return nil, err
	}
	if a.client, err = h.config.client(name, secret, time.Now); err != nil {
		return nil, err
	}
	if h.queue.Down() == "" {
		if err := a.ensureStreams(ctx); err != nil {
			a.log.WithError(err).Warn("the account's streams are not as they should be; it is taken up when they are")
		}
	}
	if a.ledger, err = ledger.Open(ctx, ledger.Config{Path: h.config.ledgerPath(name), Clock: time.Now, Reached: reached}); err != nil {
		return nil, err
	}
	return a, nil
}

// errTwoNames: one provider account stands twice in the configuration.
var errTwoNames = errors.New("one provider account has two names")

// distinctBindings refuses two accounts whose ledgers belong to one provider
// account: each would think that the other's spending is unexplained.
func distinctBindings(ctx context.Context, accounts []*accountHost) error {
	seen := map[string]string{}
	for _, a := range accounts {
		b, err := a.ledger.Binding(ctx)
		if errors.Is(err, ledger.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		key := b.AccountID + " " + b.Environment + " " + b.BaseURL
		if other := seen[key]; other != "" {
			return fmt.Errorf("%w: accounts %s and %s are both account %s at %s\nremove one of them from the configuration", errTwoNames, other, a.name, b.AccountID, b.BaseURL)
		}
		seen[key] = a.name
	}
	return nil
}

func (a *accountHost) close() {
	if a.client != nil {
		a.client.Close()
	}
	if a.ledger != nil {
		if err := a.ledger.Close(); err != nil {
			a.log.WithError(err).Warn("the ledger did not close cleanly")
		}
	}
}

func (a *accountHost) setState(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state = why
}

func (a *accountHost) hasStarted() { a.once.Do(func() { close(a.started) }) }
