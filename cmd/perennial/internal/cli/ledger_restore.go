// `perennial ledger restore`, and the exclusive use of an account that it needs.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/ledger"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/lease"
	"perennial/upstream/sandbox"
)

func (a ledgerCommands) ledgerRestore() *cobra.Command {
	var from string
	var fromEvents, replace, without bool
	c := &cobra.Command{
		Use: "restore", Short: "Restore the ledger from a backup or from events", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (from == "") != fromEvents {
				return usage("say either --from FILE, a backup, or --from-events")
			}
			if without && fromEvents {
				return usage("--without-events is for --from FILE")
			}
			return a.locked(func(c *config.Config, account string) error {
				return a.restore(cmd.Context(), c, account, from, replace, without)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&from, "from", "", "a backup file; later events are added if the stream can be reached")
	f.BoolVar(&fromEvents, "from-events", false, "rebuild the whole ledger from the events stream, without a backup")
	f.BoolVar(&without, "without-events", false, "restore although the events stream cannot be reached; events after the backup are lost")
	f.BoolVar(&replace, "replace", false, "move the current ledger aside, to <file>.replaced-<time>")
	return c
}

// restore restores the ledger. The caller has the lock of the data directory. On an external
// NATS, restore also takes the account's lease, because a runner may be on another machine.
func (a ledgerCommands) restore(ctx context.Context, c *config.Config, account, from string, replace, without bool) error {
	x := ledger.Restore{Path: c.LedgerPath(account), From: from, Clock: time.Now, AppID: appIDOf(c, account), Replace: replace}
	h, unreached := a.openHistoryLocked(c, account)
	if unreached == nil {
		defer h.close()
		release, err := h.alone(ctx, "restore")
		if err != nil {
			return err
		}
		defer release()
		switch err := h.add(ctx, &x); {
		case errors.Is(err, queue.ErrNoAccount):
			unreached = err
		case err != nil:
			return err
		}
	}
	if unreached != nil {
		if err := a.withoutEvents(x, without, unreached); err != nil {
			return err
		}
	}
	out, err := x.Run(ctx)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: a ledger is never overwritten\nuse --replace to move it aside first", err)
	}
	if err == nil && out.Proven { // otherwise an operator must decide which rows to publish
		err = h.publishOwn(ctx, x.Path)
	}
	if err != nil {
		return a.broken(err)
	}
	return a.printRestored(account, out)
}

// add adds the stream's events to a restore, and its snapshot if there is no backup. It
// returns [queue.ErrNoAccount] if the stream does not exist.
func (h *history) add(ctx context.Context, x *ledger.Restore) error {
	_, _, err := events.Of(h.queue.JetStream(), h.account).Last(ctx)
	if err != nil {
		return err
	}
	if x.From == "" {
		if x.Snapshot, x.Content, err = h.snapshot(ctx); err != nil {
			return err
		}
	}
	x.Events = func(first int64) iter.Seq2[[]byte, error] { return h.events(ctx, first) }
	return nil
}

// withoutEvents returns an error if a restore without the stream may lose events that only
// the stream or the current ledger contains. asked means that the operator accepts the loss.
func (a ledgerCommands) withoutEvents(x ledger.Restore, asked bool, unreached error) error {
	if x.From == "" {
		return unreached
	}
	if x.Replace && !asked && config.Exists(x.Path) {
		return &exitError{ExitUnreachable, fmt.Errorf("the events stream cannot be reached, and %s may be newer than %s; nothing was changed: %w\n"+
			"let it be reached and say the same again, or add --without-events: what was published after the backup is lost then", x.Path, x.From, unreached)}
	}
	a.logger().WithError(unreached).Warn("the events stream cannot be reached: the ledger ends where the backup does")
	return nil
}

// appIDOf returns the account's configured App ID.
func appIDOf(c *config.Config, account string) string {
	if c.Embedded {
		return sandbox.DemoSandboxAppID
	}
	return c.Accounts[account].AppID
}

// alone ensures that no runner leads the account until release is called. what is the CLI
// command, for error texts.
func (h *history) alone(ctx context.Context, what string) (release func(), err error) {
	if h.embedded != nil {
		h.confirm = func(context.Context) error { return nil }
		return func() {}, nil // no lease is necessary, because the caller has the data directory's lock
	}
	taken, err := lease.New(h.queue.JetStream(), 1).TryAcquire(ctx, h.account, what+"-"+cluster.ProcessHolder(), cluster.LeaseTTL)
	if held, ok := errors.AsType[*lease.HeldError](err); ok {
		return nil, fmt.Errorf("%w: it works with the ledger\nstop that runner first, then %s again; if that runner is lost, its lease expires within ten seconds", held, what)
	}
	if err != nil {
		return nil, fmt.Errorf("account %s: make sure that no runner has it: %w", h.account, err)
	}
	h.confirm = taken.Confirm
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
		defer cancel()
		_ = taken.Release(ctx)
	}, nil
}

// releaseWithin limits the return of a lease, which runs out by itself.
const releaseWithin = 5 * time.Second

// borrow is like alone, for a command that does not replace the ledger. A runner on another
// machine hands over the account, and leads it again after release.
func (h *history) borrow(ctx context.Context, what string) (release func(), err error) {
	if h.embedded != nil {
		return h.alone(ctx, what)
	}
	b := &cluster.Borrower{Queue: h.queue, Account: h.account, Name: what + "-" + cluster.ProcessHolder()}
	lease, giveBack, err := b.Borrow(ctx)
	if err != nil {
		return nil, fmt.Errorf("account %s: %s has to have it for itself: %w", h.account, what, err)
	}
	h.confirm = lease.Confirm
	return func() { giveBack(context.WithoutCancel(ctx)) }, nil
}

func (a ledgerCommands) printRestored(account string, out ledger.Restored) error {
	if a.output == "json" {
		return printJSON(a.stdout, out)
	}
	fmt.Fprintf(a.stdout, "account %s: restored %d rows of the backup and %d of the events stream; head %s\n",
		account, out.Rows, out.Events, out.Head)
	if out.Snapshot != nil {
		fmt.Fprintf(a.stdout, "It begins after row %d, with the snapshot that was stored beside the stream; what is before is in the archives.\n", out.Snapshot.Seq)
	}
	if out.Replaced != "" {
		fmt.Fprintf(a.stdout, "The ledger that was there is now %s\n", out.Replaced)
	}
	if !out.Proven {
		fmt.Fprintln(a.stdout, "What was published after it, if anything, is not known.")
	}
	_, err := fmt.Fprintln(a.stdout, "The account starts paused (restored) until the provider's lists hold nothing that the ledger does not know: see `perennial accounts show`.")
	return err
}
