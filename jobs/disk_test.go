package jobs

import (
	"database/sql"
	"testing"

	"github.com/sirupsen/logrus"

	"perennial/ledger"
)

// failures hears of every error that the runner logs.
type failures chan string

func (failures) Levels() []logrus.Level { return []logrus.Level{logrus.ErrorLevel} }

func (f failures) Fire(e *logrus.Entry) error {
	select {
	case f <- e.Message:
	default:
	}
	return nil
}

// TestNothingIsSentThatTheLedgerCannotHold: while somebody else holds the file's
// lock, as on a full disk, no intent is durable and so nothing is sent; reads go
// on, and afterwards everything does.
func TestNothingIsSentThatTheLedgerCannotHold(t *testing.T) {
	h := idleHouse(t)
	heard, log := make(failures, 16), quiet()
	log.AddHook(heard)
	h.bind(func(c *Config) { c.Log = logrus.NewEntry(log) })
	h.start()
	h.until("it has started", func() bool { return len(h.facts("runner.started")) == 1 })
	shell, err := sql.Open("sqlite3", "file:"+h.path)
	check(t, err)
	defer func() { _ = shell.Close() }()
	shell.SetMaxOpenConns(1)
	_, err = shell.Exec("BEGIN IMMEDIATE")
	check(t, err)
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	<-heard
	if h.ledger.Failing() == nil {
		t.Error("the ledger does not say that it cannot be written")
	}
	if charges, err := h.server.Charges(); err != nil || len(charges) != 0 {
		t.Errorf("%v was charged without a durable intent: %v", charges, err)
	}
	if _, err := h.ledger.Balance(t.Context(), "main"); err != nil {
		t.Errorf("reads do not go on: %v", err)
	}
	_, err = shell.Exec("ROLLBACK")
	check(t, err)
	h.await("keep", ledger.StateCompleted)
	h.settled(300, 0)
}
