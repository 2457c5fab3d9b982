// `perennial ledger archive`, which moves old journal rows to a separate file.

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/failpoint"
	"perennial/queue/events"
)

func (a ledgerCommands) ledgerArchive() *cobra.Command {
	var before, dir string
	var e eventsChoice
	c := &cobra.Command{
		Use: "archive", Short: "Move old rows to an archive file (runner must be stopped)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := dayOrInstant("--before", before)
			if err != nil {
				return err
			}
			if at.IsZero() {
				return usage("use --before DAY: facts of that day and later stay")
			}
			x := ledger.Archive{Before: at, Dir: dir, Clock: time.Now, Keep: failpoint.Size(cmd.Context(), "archive.keep", 0)}
			if err := x.Check(); err != nil { // checked before a runner is asked to hand over the account
				return err
			}
			return a.locked(func(c *config.Config, account string) error {
				return a.archive(cmd.Context(), c, account, x, e)
			})
		},
	}
	c.Flags().StringVar(&before, "before", "", "archive rows from before this day, such as 2025-01-01 (UTC), or this time; later rows stay")
	c.Flags().StringVar(&dir, "to", "", "directory for the archive (default: the directory of the ledger, where commands still find the archived rows)")
	c.Flags().BoolVar(&e.keep, "keep-events", false, "keep every event on the events stream")
	c.Flags().StringArrayVar(&e.mayLose, "may-lose", nil, "a durable consumer of the events stream, or 'webhook NAME', that may lose events it has not acknowledged; may be repeated")
	return c
}

// eventsChoice says what the operator wants to happen to the events of archived rows.
type eventsChoice struct {
	keep    bool
	mayLose []string
}

// ArchiveResult is the JSON output of `ledger archive`.
type ArchiveResult struct {
	ledger.Archived

	Events *boundedEvents `json:"events,omitempty"`
}

// archive archives rows while no runner leads the account. Rows that the events stream lacks
// stay in the ledger, because the outbox cannot publish rows from an archive.
func (a ledgerCommands) archive(ctx context.Context, c *config.Config, account string, x ledger.Archive, e eventsChoice) error {
	h, err := a.openHistoryLocked(c, account)
	if err != nil {
		return err
	}
	defer h.close()
	release, err := h.borrow(ctx, "archive")
	if err != nil {
		return err
	}
	defer release()
	if config.Exists(c.LedgerPath(account)) { // applies the rows of runners on other machines, which must happen first
		if err := h.publishOwn(ctx, c.LedgerPath(account)); err != nil {
			return a.broken(err)
		}
	}
	last, found, err := events.Of(h.queue.JetStream(), account).Last(ctx)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("account %s: the events stream is empty, and what is not published stays in the ledger\nstart the runner and let it publish first", account)
	}
	x.Path, x.Published = c.LedgerPath(account), chain.Head{Seq: int64(last.Seq), Hash: last.Hash}
	var out ArchiveResult
	if out.Archived, err = x.Run(ctx); err != nil {
		return a.broken(err)
	}
	if e.keep {
		err = h.publishOwn(ctx, x.Path)
	}
	if err != nil {
		return a.broken(err)
	}
	if !e.keep {
		b := bounding{history: h, account: account, replicas: c.Accounts[account].Replicas, webhooks: c.WebhooksOf(account), mayLose: e.mayLose, log: a.logger()}
		if out.Events, err = b.run(ctx, x.Path); err != nil {
			if out.File != "" {
				err = fmt.Errorf("the ledger is archived (rows %d to %d are in %s), and the events stream is not bounded: %w\ncorrect that, then run the same command again", out.FirstSeq, out.LastSeq, out.File, err)
			}
			return a.broken(err)
		}
		out.Head = out.Events.head
	}
	return a.printArchived(account, x.Before, out)
}

func (a ledgerCommands) printArchived(account string, before time.Time, out ArchiveResult) error {
	if a.output == "json" {
		return printJSON(a.stdout, out)
	}
	if out.File == "" {
		fmt.Fprintf(a.stdout, "account %s: nothing to archive before %s\n", account, before.Format(time.RFC3339))
	} else {
		fmt.Fprintf(a.stdout, "account %s: rows %d to %d are in %s, verified; the ledger has %s instead of %s; head %s\n", account, out.FirstSeq, out.LastSeq,
			out.File, humanize.IBytes(uint64(out.BytesAfter)), humanize.IBytes(uint64(out.BytesBefore)), out.Head)
	}
	if out.HeldBy != "" {
		fmt.Fprintf(a.stdout, "Older rows stay because %s has not ended: see `perennial operations list` and `perennial reviews list`.\n", out.HeldBy)
	}
	if out.Events == nil {
		return nil
	}
	return a.printBounded(*out.Events)
}

func (a ledgerCommands) printBounded(e boundedEvents) error {
	if e.FirstSeq > e.WasFirstSeq {
		fmt.Fprintf(a.stdout, "The events stream begins with event %d instead of %d and has %s instead of %s; snapshot %s is in bucket %s.\n",
			e.FirstSeq, e.WasFirstSeq, humanize.IBytes(e.BytesAfter), humanize.IBytes(e.BytesBefore), e.Object, e.Bucket)
	}
	if e.HeldBy == "" {
		return nil
	}
	if name := events.WebhookOf(e.HeldBy); name != "" {
		_, err := fmt.Fprintf(a.stdout, "Events from %d on stay because webhook %s has not delivered them.\n"+
			"Let it deliver and say the same again; where it is not needed any more, take it out of the configuration and say `perennial webhooks remove %s`; or use --may-lose '%s'.\n", e.FirstSeq, name, name, e.HeldBy)
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "Events from %d on stay because the durable consumer %s has not acknowledged them.\n"+
		"Let it read and say the same again, or remove it (`nats consumer rm %s %s`), or use --may-lose %s.\n", e.FirstSeq, e.HeldBy, e.stream, e.HeldBy, e.HeldBy)
	return err
}
