package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/queue"
	"perennial/queue/positions"
)

func (a operateCommands) webhooksCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "webhooks", Aliases: []string{"webhook"}, Short: "List, test, replay and remove webhooks"},
		a.webhookList(), a.webhookTest(), a.webhookReplay(), a.webhookRemove())
}

func (a operateCommands) webhookList() *cobra.Command {
	return newCommand("list", "List webhooks with their position and last error", func(ctx context.Context, _ []string) error {
		c, accounts, err := a.selected()
		if err != nil {
			return err
		}
		list := a.listing("no webhooks are configured", "NAME", "ACCOUNT", "URL", "STATE", "SEQ", "LAG", "NEXT ATTEMPT", "LAST ERROR")
		err = a.withEvents(c, accounts[0], func(q *queue.Queue) error {
			for _, account := range accounts {
				all, err := daemon.WebhooksOf(ctx, c, q, account)
				if addWebhooks(list, all); err != nil {
					return err
				}
			}
			return nil
		})
		if errors.Is(err, errNoStore) {
			err = nil
			for _, account := range accounts {
				addWebhooks(list, daemon.NewWebhooks(c, account))
			}
		}
		return list.end(err)
	})
}

// withEvents calls do with a connection to the account's NATS, whether or not a runner is
// running.
func (a operateCommands) withEvents(c *config.Config, account string, do func(*queue.Queue) error) error {
	h, err := a.of(account).openHistory(c, account)
	if err != nil {
		return err
	}
	defer h.close()
	return do(h.queue)
}

func addWebhooks(list *listing, all []webhook.Status) {
	for _, l := range all {
		list.add("", l, l.Name, l.Account, l.URL, l.State, strconv.FormatUint(l.Seq, 10), strconv.FormatUint(l.Lag, 10), stamp(l.NextAttempt), l.LastError)
	}
}

// webhookTested is the output of `webhooks test -o json`.
type webhookTested struct {
	Name    string `json:"name"`
	URL     string `json:"url"` // scheme and host
	EventID string `json:"event_id"`
	Outcome string `json:"outcome"`
	Status  int    `json:"status"` // HTTP status; 0 if there was no reply
	Reason  string `json:"reason"`
	TookMS  int64  `json:"took_ms"`
}

func (a operateCommands) webhookTest() *cobra.Command {
	return newCommand("test NAME", "Send one signed test event", func(ctx context.Context, args []string) error {
		c, w, err := a.namedWebhook(args[0])
		if err != nil {
			return err
		}
		r, host, id, err := daemon.TestWebhook(ctx, c, w)
		if err != nil {
			return err
		}
		t := webhookTested{w.Name, host, id, string(r.Outcome), r.Status, r.Reason, r.Took.Milliseconds()}
		if err := a.say(t, "webhook %s, %s: %s, %s after %d ms\n", t.Name, t.URL, t.Outcome, t.Reason, t.TookMS); err != nil {
			return err
		}
		switch r.Outcome {
		case webhook.Delivered:
			return nil
		case webhook.Unreachable:
			return &exitError{code: ExitUnreachable}
		case webhook.Refused, webhook.RateLimited, webhook.Failed, webhook.Gone:
		}
		return &exitError{code: ExitFailed}
	})
}

func (a operateCommands) namedWebhook(name string) (c *config.Config, w config.Webhook, err error) {
	if c, err = config.Load(a.configFile); err != nil {
		return nil, w, err
	}
	w, ok := c.Webhook(name)
	if !ok {
		return nil, w, usage("no webhook %q is configured\n`perennial webhooks list` shows those that are", name)
	}
	return c, w, nil
}

func (a operateCommands) webhookRemove() *cobra.Command {
	remove := newCommand("remove NAME", "Delete the stored position of a webhook that is no longer configured", func(ctx context.Context, args []string) error {
		c, accounts, err := a.selected()
		if err != nil {
			return err
		}
		name := args[0]
		if w, configured := c.Webhook(name); configured && slices.Contains(accounts, w.Account) {
			return usage("webhook %s is configured for account %s\ntake it out of the configuration and start the runner again, then remove it", name, w.Account)
		}
		return a.withEvents(c, accounts[0], func(q *queue.Queue) error { return a.removeWebhook(ctx, q, c, accounts, name) })
	})
	remove.Aliases = []string{"delete"}
	return remove
}

func (a operateCommands) removeWebhook(ctx context.Context, q *queue.Queue, c *config.Config, accounts []string, name string) error {
	for _, account := range accounts {
		_, revision, err := positions.Of(q.JetStream(), account).Read(ctx, name)
		if err == nil && revision > 0 {
			if err = positions.Of(q.JetStream(), account).Remove(ctx, name); err == nil {
				fmt.Fprintf(a.stderr, "webhook %s of account %s is removed\n", name, account)
				if err := os.Remove(c.PositionPath(account, name)); !errors.Is(err, fs.ErrNotExist) {
					return err
				}
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	return errors.New("no webhook " + name + " has begun\n`perennial webhooks list` shows those that have")
}

func (a operateCommands) webhookReplay() *cobra.Command {
	var x daemon.Replay
	var since string
	c := newCommand("replay NAME (--from-seq N | --from-time TIME)", "Redeliver events to a webhook, from an earlier sequence or time", func(ctx context.Context, args []string) error {
		if (x.Seq == 0) == (since == "") {
			return usage("webhooks replay: use --from-seq N, or --from-time TIME")
		}
		if x.By == "" {
			return usage("webhooks replay: give your name, --by NAME")
		}
		var err error
		if x.Time, err = dayOrInstant("--from-time", since); err != nil {
			return err
		}
		c, w, err := a.namedWebhook(args[0])
		if err != nil {
			return err
		}
		return a.withEvents(c, w.Account, func(q *queue.Queue) error { return a.replayWebhook(ctx, q, w, x) })
	})
	wholeVar(c.Flags(), &x.Seq, "from-seq", 0, "redeliver from this journal sequence")
	c.Flags().StringVar(&since, "from-time", "", "redeliver from this day, such as 2026-11-01 (UTC), or from this time")
	return signed(c, &x.By, &x.Reason, askedFor)
}

func (a operateCommands) replayWebhook(ctx context.Context, q *queue.Queue, w config.Webhook, x daemon.Replay) error {
	r, err := daemon.ReplayWebhook(ctx, q, w, x)
	if refused, ok := errors.AsType[*daemon.ReplayError](err); ok {
		return usage("%w", refused)
	}
	if err != nil {
		return err
	}
	return a.say(r, "%s\n", r)
}
