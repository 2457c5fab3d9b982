// `perennial webhooks replay`: a webhook delivers again what it has delivered.

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/queue"
)

// replay is what `webhooks replay` is to do.
type replay struct {
	seq        uint64
	time       string
	by, reason string
}

func (a *app) webhookReplay() *cobra.Command {
	var x replay
	c := &cobra.Command{
		Use: "replay NAME (--from-seq N | --from-time TIME)", Short: "Redeliver events to a webhook from a point in time", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (x.seq == 0) == (x.time == "") {
				return usage("webhooks replay: use --from-seq N, or --from-time TIME")
			}
			if x.by == "" {
				return usage("webhook replay: say who asks for it, --by NAME")
			}
			at, err := dayOrInstant("--from-time", x.time)
			if err != nil {
				return err
			}
			c, w, err := a.namedWebhook(args[0])
			if err != nil {
				return err
			}
			return a.withEvents(c, w.Account, func(q *queue.Queue) error { return a.replayWebhook(cmd.Context(), q, w, x, at) })
		},
	}
	wholeVar(c.Flags(), &x.seq, "from-seq", 0, "the first event to deliver again, by its sequence in the journal")
	c.Flags().StringVar(&x.time, "from-time", "", "the first day, as 2026-11-01 (UTC), or instant, whose events to deliver again")
	c.Flags().StringVar(&x.by, "by", operator(), "who asks for it")
	c.Flags().StringVar(&x.reason, "reason", "asked for on the command line", "why")
	return c
}

// replayTries bounds how often a position is read that the runner writes at the same time.
const replayTries = 10

// Replayed is what `webhooks replay -o json` prints.
type Replayed struct {
	Name    string `json:"name"`
	FromSeq uint64 `json:"from_seq"`
	WasSeq  uint64 `json:"was_seq"` // up to which everything was delivered
}

func (a *app) replayWebhook(ctx context.Context, q *queue.Queue, w config.Webhook, x replay, at time.Time) (err error) {
	if !at.IsZero() {
		if x.seq, err = q.FirstEventSince(ctx, w.Account, at); err != nil {
			return err
		}
	}
	for range replayTries {
		p, revision, err := q.WebhookPosition(ctx, w.Account, w.Name)
		if err != nil {
			return err
		}
		if revision == 0 {
			return fmt.Errorf("webhook %s has not begun\nstart the runner; a webhook with `from: start` begins with the first event", w.Name)
		}
		moved, err := movedTo(ctx, q, w, p, x)
		if err != nil {
			return err
		}
		_, err = q.StoreWebhook(ctx, w.Account, w.Name, moved, revision)
		if err == nil {
			return a.printReplayed(Replayed{w.Name, x.seq, p.Seq})
		}
		if !errors.Is(err, queue.ErrWebhookMoved) {
			return err
		}
	}
	return fmt.Errorf("webhook %s: %w, %d times\ntry again", w.Name, queue.ErrWebhookMoved, replayTries)
}

// movedTo is the position from which an event is delivered, and what follows it. It never
// leaves out what is not delivered.
func movedTo(ctx context.Context, q *queue.Queue, w config.Webhook, p queue.WebhookPosition, x replay) (queue.WebhookPosition, error) {
	state, err := q.EventsState(ctx, w.Account)
	if err != nil {
		return p, err
	}
	if x.seq < state.First {
		return p, usage("event %d is not on the stream any more: it begins with event %d", x.seq, state.First)
	}
	if x.seq > p.Seq+1 {
		return p, usage("webhook %s has delivered everything up to event %d only, and event %d would leave out what lies between\na replay only goes back", w.Name, p.Seq, x.seq)
	}
	to := queue.EventMark{Seq: x.seq - 1}
	if to.Seq >= max(state.First, 1) { // else nothing names it
		before, _, err := q.EventAt(ctx, w.Account, to.Seq)
		if err != nil {
			return p, err
		}
		to.Hash = before.Hash
	}
	marks := slices.DeleteFunc(p.Marks, func(m queue.EventMark) bool { return m.Seq >= x.seq })
	return queue.WebhookPosition{EventMark: to, Read: to, Marks: marks, By: x.by, Reason: x.reason}, nil
}

func (a *app) printReplayed(r Replayed) error {
	if a.output == "json" {
		return printJSON(a.stdout, r)
	}
	_, err := fmt.Fprintf(a.stdout, "webhook %s delivers again from event %d on; it had delivered everything up to event %d\n", r.Name, r.FromSeq, r.WasSeq)
	return err
}
