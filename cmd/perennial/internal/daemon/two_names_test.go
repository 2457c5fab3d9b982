package daemon

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream/sandbox"
)

// If two names have the same provider account, the second is refused and its ledger is not opened.
// A third name with another provider account works, also after a restart.
func TestTwoNamesOfOneProviderAccountStopNoThird(t *testing.T) {
	t.Parallel()
	fixture := sandbox.DefaultFixture()
	fixture.Accounts = append(fixture.Accounts, sandbox.FixtureAccount{
		AccountID: "acc_other", Email: "other@example.com", Wallet: sandbox.FixtureWallet{Currency: "USD", SandboxCents: 500},
		Keys: []sandbox.FixtureKey{{AppID: "sbx_app_other", Secret: "other-secret"}},
	})
	server, err := sandbox.Start(t.Context(), sandbox.Options{Fixture: fixture})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	log := logrus.New()
	log.SetOutput(io.Discard)
	dir := t.TempDir()
	for range 2 {
		c := &config.Config{DataDir: dir, NATS: config.NATS{Listen: "127.0.0.1:0"}, HTTP: config.HTTP{Listen: "127.0.0.1:0"}, Accounts: map[string]*config.Account{}}
		for name, key := range map[string][2]string{
			"copy": {sandbox.DemoSandboxAppID, sandbox.DemoSandboxSecret}, "main": {sandbox.DemoSandboxAppID, sandbox.DemoSandboxSecret}, "third": {"sbx_app_other", "other-secret"},
		} {
			c.Accounts[name] = &config.Account{BaseURL: server.SandboxURL(), AppID: key[0], Secret: key[1], RatePerSecond: 1000, Concurrency: 1, Location: time.UTC, Replicas: 1}
		}
		c.Defaults()
		twoNames(t, c, log)
	}
}

func twoNames(t *testing.T, c *config.Config, log *logrus.Logger) {
	t.Helper()
	h, err := Start(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, stop := context.WithCancel(t.Context())
	refused, works := make(chan *account, 3), make(chan *account, 3)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Run(ctx)
	}()
	for _, a := range h.Accounts {
		go func() {
			<-a.started
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.state == "" {
				works <- a
			} else {
				refused <- a
			}
		}()
	}
	working := map[string]bool{(<-works).Name: true, (<-works).Name: true}
	if !working["third"] || working["main"] == working["copy"] {
		t.Errorf("%v work", working)
	}
	if _, err := (<-refused).Ledger().Binding(t.Context()); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the ledger of the second name was opened: %v", err)
	}
	stop()
	<-done
}

// hostOfTwo starts the accounts a and b.
func hostOfTwo(t *testing.T, before func(*config.Config)) *Host {
	t.Helper()
	_, accounts := threeAccounts(t, []string{"a", "b"})
	c := &config.Config{DataDir: t.TempDir(), NATS: config.NATS{Listen: "127.0.0.1:0"}, HTTP: config.HTTP{Listen: "127.0.0.1:0"}, Accounts: accounts}
	c.Defaults()
	before(c)
	log := logrus.New()
	log.SetOutput(io.Discard)
	h, err := Start(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// A directory stands for every ledger that cannot be opened, such as one that another user owns.
func TestALedgerThatCannotBeOpenedStopsNoOtherAccount(t *testing.T) {
	t.Parallel()
	h := hostOfTwo(t, func(c *config.Config) {
		if err := os.Mkdir(c.LedgerPath("a"), 0o700); err != nil {
			t.Fatal(err)
		}
	})
	if len(h.Accounts) != 1 || h.Accounts[0].Name != "b" || len(h.absent) != 1 || h.absent[0].check.Name != checkLedger {
		t.Errorf("%+v, absent %+v", h.Accounts, h.absent)
	}
}

// The check for two names of one provider account then leaves that ledger out.
func TestALedgerThatCannotBeReadStopsNoOtherAccount(t *testing.T) {
	t.Parallel()
	h := hostOfTwo(t, func(*config.Config) {})
	of := map[string]*account{}
	for _, a := range h.Accounts {
		of[a.Name] = a
	}
	want := fact.Binding{AccountID: "acc_one", Environment: "sandbox"}
	if err := (&lifecycle{account: of["a"]}).mayBind(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := of["a"].Ledger().Close(); err != nil {
		t.Fatal(err)
	}
	b := &lifecycle{account: of["b"]}
	if err := b.mayBind(t.Context(), want); !errors.Is(err, errTwoNames) {
		t.Errorf("the account that another one asked for: %v", err)
	}
	if err := b.mayBind(t.Context(), fact.Binding{AccountID: "acc_two", Environment: "sandbox"}); err != nil {
		t.Error(err)
	}
}

// Otherwise an account whose ledger could not be opened again at once would wait indefinitely.
func TestALedgerThatCouldNotBeOpenedAgainIsTriedAgain(t *testing.T) {
	t.Parallel()
	file := hostOfTwo(t, func(*config.Config) {}).Accounts[0].file
	if err := file.Ledger().Close(); err != nil {
		t.Fatal(err)
	}
	file.closed = true
	before := file.Ledger()
	if err := file.reopenReadOnly(t.Context()); err != nil || file.closed || file.Ledger() == before {
		t.Errorf("closed %t: %v", file.closed, err)
	}
}
