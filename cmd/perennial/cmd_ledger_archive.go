package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"perennial/ledger"
)

func (a *app) ledgerArchive() *cobra.Command {
	var before, dir string
	c := &cobra.Command{
		Use: "archive", Short: "Move old journal rows into a file of their own; needs the runner stopped", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := dayOrInstant("--before", before)
			if err != nil {
				return err
			}
			if at.IsZero() {
				return usage("say --before DAY: facts of that day and later stay")
			}
			return a.locked(func(c *config, account string) error {
				return a.archive(cmd.Context(), c, account, ledger.Archive{Before: at, Dir: dir, Clock: time.Now})
			})
		},
	}
	c.Flags().StringVar(&before, "before", "", "the first day, as 2025-01-01 (UTC), or instant, that stays")
	c.Flags().StringVar(&dir, "to", "", "directory for the archive (default: beside the ledger, where its rows can still be read)")
	return c
}

// archive works alone, as restore does. What the events stream does not hold is
// not archived: the relay could not publish it any more.
func (a *app) archive(ctx context.Context, c *config, account string, x ledger.Archive) error {
	h, err := a.openHistory(c, account, true)
	if err != nil {
		return err
	}
	defer h.close()
	release, err := h.alone(ctx, "archive")
	if err != nil {
		return err
	}
	defer release()
	last, found, err := h.queue.LastEvent(ctx, account)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("account %s: the events stream is empty, and what is not published stays in the ledger\nstart the runner and let it publish first", account)
	}
	x.Path, x.Published = c.ledgerPath(account), ledger.Head{Seq: int64(last.Seq), Hash: last.Hash}
	out, err := x.Run(ctx)
	if err != nil {
		return a.broken(err)
	}
	return a.printArchived(account, x.Before, out)
}

func (a *app) printArchived(account string, before time.Time, out ledger.Archived) error {
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
		fmt.Fprintf(a.stdout, "Older rows stay because %s has not ended: see `perennial status` and `perennial review list`.\n", out.HeldBy)
	}
	return nil
}
