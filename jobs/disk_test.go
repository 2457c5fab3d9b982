package jobs

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"perennial/ledger/fact"
)

// failures receives every error that the runner logs.
type failures chan string

func (failures) Levels() []logrus.Level { return []logrus.Level{logrus.ErrorLevel} }

func (f failures) Fire(e *logrus.Entry) error {
	select {
	case f <- e.Message:
	default:
	}
	return nil
}

// While another process locks the file, as with a full disk, no intent can be committed, so
// nothing is sent. Reads continue, and afterwards everything is sent.
func TestNothingIsSentThatTheLedgerCannotHold(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	heard, log := make(failures, 16), quiet()
	log.AddHook(heard)
	h.bind(func(c *Config) { c.Log = logrus.NewEntry(log) })
	h.start()
	h.until("it has started", func() bool { return len(h.facts("runner.started")) == 1 })
	unlock := h.lockLedger()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	<-heard
	if h.ledger.Failing() == nil {
		t.Error("the ledger does not say that it cannot be written")
	}
	if charges, err := h.server.Charges(); err != nil || len(charges) != 0 {
		t.Errorf("%v was charged without a durable intent: %v", charges, err)
	}
	if _, err := h.ledger.Money.Balance(t.Context(), "main"); err != nil {
		t.Errorf("reads do not go on: %v", err)
	}
	unlock()
	h.await("keep", fact.StateCompleted)
	h.settled(300, 0)
}

// lockLedger blocks the runner's writes until unlock.
func (h *rig) lockLedger() (unlock func()) {
	h.t.Helper()
	shell, err := sql.Open("sqlite3", "file:"+h.path)
	check(h.t, err)
	h.t.Cleanup(func() { _ = shell.Close() })
	shell.SetMaxOpenConns(1)
	_, err = shell.Exec("BEGIN IMMEDIATE")
	check(h.t, err)
	return func() {
		_, err := shell.Exec("ROLLBACK")
		check(h.t, err)
	}
}

// A pause that cannot be recorded is in force, reports the failure, and is recorded as soon as
// the ledger can be written. A restart must not end it.
func TestAPauseThatCouldNotBeRecordedIsRecordedLater(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} { // by a person who asks once more, or automatically
		h := idleRig(t)
		h.start()
		h.until("it has started", func() bool { return len(h.facts("runner.started")) == 1 })
		unlock := h.lockLedger()
		asked := fact.WithUser(t.Context(), "ops")
		if err := h.runner.PauseByHand(asked, "mo", "stop all"); err == nil || !strings.Contains(err.Error(), "is paused") {
			t.Errorf("%v", err)
		}
		if len(h.runner.Paused()) != 1 {
			t.Errorf("paused: %+v", h.runner.Paused())
		}
		unlock()
		if again {
			check(t, h.runner.PauseByHand(asked, "mo", "stop all"))
			if stored, err := h.ledger.Operations.Pauses(t.Context()); err != nil || len(stored) != 1 {
				t.Errorf("stored: %+v, %v", stored, err)
			}
		}
		h.awaitFact("account.paused")
		if f, _ := h.facts("account.paused")[0].(fact.AccountPaused); f.User != "ops" {
			t.Errorf("who asked is not known any more: %+v", f)
		}
		h.halt()
		h.start()
		h.until("it has started again", func() bool { return len(h.facts("runner.started")) == 2 })
		if len(h.runner.Paused()) != 1 || len(h.facts("account.paused")) != 1 {
			t.Errorf("behind a restart: %+v", h.runner.Paused())
		}
		h.renew(`{"id":"later","duration_days":30,"proxy_ids":["px_1"]}`)
		h.await("later", fact.StateAccepted)
		_, err := h.runner.ResumeByHand(t.Context(), "mo", "go on", false)
		check(t, err)
		h.await("later", fact.StateCompleted)
		h.settled(300, 0)
	}
}
