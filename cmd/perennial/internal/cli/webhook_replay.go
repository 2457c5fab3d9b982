// `perennial webhooks replay`: a webhook delivers again what it has delivered.

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/queue"
)

func (a *app) webhookReplay() *cobra.Command {
	var x daemon.Replay
	var since string
	c := &cobra.Command{
		Use: "replay NAME (--from-seq N | --from-time TIME)", Short: "Redeliver events to a webhook from a point in time", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (x.Seq == 0) == (since == "") {
				return usage("webhooks replay: use --from-seq N, or --from-time TIME")
			}
			if x.By == "" {
				return usage("webhook replay: say who asks for it, --by NAME")
			}
			var err error
			if x.Time, err = dayOrInstant("--from-time", since); err != nil {
				return err
			}
			c, w, err := a.namedWebhook(args[0])
			if err != nil {
				return err
			}
			return a.withEvents(c, w.Account, func(q *queue.Queue) error { return a.replayWebhook(cmd.Context(), q, w, x) })
		},
	}
	wholeVar(c.Flags(), &x.Seq, "from-seq", 0, "the first event to deliver again, by its sequence in the journal")
	c.Flags().StringVar(&since, "from-time", "", "the first day, as 2026-11-01 (UTC), or instant, whose events to deliver again")
	signed(c, &x.By, &x.Reason, "who asks for it", askedFor)
	return c
}

func (a *app) replayWebhook(ctx context.Context, q *queue.Queue, w config.Webhook, x daemon.Replay) error {
	r, err := daemon.ReplayWebhook(ctx, q, w, x)
	if refused, ok := errors.AsType[*daemon.ReplayError](err); ok {
		return usage("%w", refused)
	}
	if err != nil {
		return err
	}
	if a.output == "json" {
		return printJSON(a.stdout, r)
	}
	_, err = fmt.Fprintln(a.stdout, r)
	return err
}
