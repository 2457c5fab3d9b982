// The file of an account's ledger: opening the file, and rebuilding the ledger from the
// events.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/journal"
	"perennial/ledger"
	"perennial/ledger/sleep"
)

// ledgerFile opens the account's ledger, and rebuilds the ledger from the events if necessary.
type ledgerFile struct {
	*account

	closed bool // the ledger is closed and must be reopened or rebuilt; only the account's lifecycle uses it
}

// openLedger opens the account's ledger at the start. On an external NATS, it moves a damaged
// ledger aside. It also rebuilds a ledger that ends before the events stream begins. If the
// rebuild fails, the next phase that prepares the account retries it.
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
		Held: a.host.lock.Check, Turns: a.host.turns, Committed: a.counts.committed}
}

// rebuild rebuilds a ledger that ends before the events stream begins, such as an empty
// ledger. It uses a snapshot and the later events, and moves the old file aside. It changes
// nothing if the stream has every row that the ledger needs, or if no snapshot matches. No
// other goroutine may write the ledger meanwhile.
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

// unusable returns why the ledger cannot be used, or nil. On an external NATS, the error
// contains no advice, because the ledger is rebuilt automatically.
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

// watchLedger calls end with the reason when the ledger becomes unusable.
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

// reopen opens the ledger if it is closed.
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
