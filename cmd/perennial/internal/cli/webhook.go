// `perennial webhooks`: list, test, replay and remove webhooks.

package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/queue"
)

func (a *app) webhooksCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "webhooks", Aliases: []string{"webhook"}, Short: "List, test, replay and remove webhooks"},
		a.webhookList(), a.webhookTest(), a.webhookReplay(), a.webhookRemove())
}

// States of a webhook, as `webhooks list` shows them.
const (
	webhookNew        = "new"        // the runner has not begun with it
	webhookDelivering = "delivering" // nothing fails
	webhookRetrying   = "retrying"   // an event waits for its next attempt
	webhookStopped    = "stopped"    // its endpoint said 410
	webhookOrphaned   = "removable"  // it is not configured, and keeps events from `ledger archive`
)

// webhookLine is a webhook as `webhooks list -o json` prints it.
type webhookLine struct {
	Name        string     `json:"name"`
	Account     string     `json:"account"`
	URL         string     `json:"url"` // scheme and host
	State       string     `json:"state"`
	Seq         uint64     `json:"seq"`         // everything up to it is delivered
	Behind      uint64     `json:"behind"`      // events that are not
	Undelivered int        `json:"undelivered"` // of them, those that were read
	LastError   string     `json:"last_error,omitempty"`
	NextAttempt *time.Time `json:"next_attempt,omitempty"`
}

func (a *app) webhookList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List webhooks with their position and last error", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(a.configFile)
			if err != nil {
				return err
			}
			accounts, err := c.PickAll(a.account)
			if err != nil {
				return err
			}
			list := a.listing("NAME", "ACCOUNT", "URL", "STATE", "SEQ", "BEHIND", "NEXT ATTEMPT", "LAST ERROR")
			err = a.withEvents(c, accounts[0], func(q *queue.Queue) error {
				for _, account := range accounts {
					if err := addWebhooks(cmd.Context(), list, c, q, account); err != nil {
						return err
					}
				}
				return nil
			})
			if errors.Is(err, errNoStore) {
				err = addNewWebhooks(list, c, accounts)
			}
			return list.end(err)
		},
	}
}

// withEvents runs do on the NATS of the accounts, with or without a running `run`.
func (a *app) withEvents(c *config.Config, account string, do func(*queue.Queue) error) error {
	one := *a
	one.account = account
	h, err := one.openHistory(c, account)
	if err != nil {
		return err
	}
	defer h.close()
	return do(h.queue)
}

func addWebhooks(ctx context.Context, list *listing, c *config.Config, q *queue.Queue, account string) error {
	positions, err := q.WebhookPositions(ctx, account)
	if err != nil {
		return err
	}
	state, err := q.EventsState(ctx, account)
	if errors.Is(err, queue.ErrNoAccount) {
		return addNewWebhooks(list, c, []string{account})
	}
	if err != nil {
		return err
	}
	lines := make([]webhookLine, 0, len(positions))
	for name, p := range positions {
		lines = append(lines, lineOfWebhook(c, account, name, p, state.Last))
	}
	for _, w := range c.WebhooksOf(account) {
		if _, begun := positions[w.Name]; !begun {
			lines = append(lines, newWebhook(account, w))
		}
	}
	return addWebhookLines(list, lines)
}

// addNewWebhooks lists the webhooks of accounts that no runner has begun with.
func addNewWebhooks(list *listing, c *config.Config, accounts []string) error {
	for _, account := range accounts {
		var lines []webhookLine
		for _, w := range c.WebhooksOf(account) {
			lines = append(lines, newWebhook(account, w))
		}
		if err := addWebhookLines(list, lines); err != nil {
			return err
		}
	}
	return nil
}

func newWebhook(account string, w config.Webhook) webhookLine {
	return webhookLine{Name: w.Name, Account: account, URL: webhook.Host(w.URL), State: webhookNew}
}

func addWebhookLines(list *listing, lines []webhookLine) error {
	slices.SortFunc(lines, func(a, b webhookLine) int { return strings.Compare(a.Name, b.Name) })
	for _, l := range lines {
		row := []string{l.Name, l.Account, l.URL, l.State, strconv.FormatUint(l.Seq, 10), strconv.FormatUint(l.Behind, 10), stamp(l.NextAttempt), l.LastError}
		if err := list.add("", l, row...); err != nil {
			return err
		}
	}
	return nil
}

func lineOfWebhook(c *config.Config, account, name string, p queue.WebhookPosition, last uint64) webhookLine {
	l := webhookLine{
		Name: name, Account: account, State: webhookDelivering, Seq: p.Seq, Behind: p.Behind(last), Undelivered: len(p.Undelivered),
		LastError: p.LastError, NextAttempt: p.NextAttempt,
	}
	w, configured := c.Webhook(name)
	if configured = configured && w.Account == account; configured {
		l.URL = webhook.Host(w.URL)
	}
	switch {
	case !configured:
		l.State = webhookOrphaned
	case p.Stopped != "":
		l.State, l.LastError = webhookStopped, p.Stopped
	case p.LastError != "":
		l.State = webhookRetrying
	}
	return l
}

// webhookTested is what `webhooks test -o json` prints.
type webhookTested struct {
	Name    string `json:"name"`
	URL     string `json:"url"` // scheme and host
	EventID string `json:"event_id"`
	Outcome string `json:"outcome"`
	Status  int    `json:"status"` // of HTTP; 0 where there was no reply
	Reason  string `json:"reason"`
	TookMS  int64  `json:"took_ms"`
}

func (a *app) webhookTest() *cobra.Command {
	return &cobra.Command{
		Use: "test NAME", Short: "Send one signed test event", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, w, err := a.namedWebhook(args[0])
			if err != nil {
				return err
			}
			endpoint, err := c.Endpoint(w)
			if err != nil {
				return err
			}
			defer endpoint.Close()
			event, id, err := testEvent(w, endpoint.Clock())
			if err != nil {
				return err
			}
			r := endpoint.Send(cmd.Context(), id, event)
			if err := a.printTested(webhookTested{w.Name, endpoint.Host(), id, string(r.Outcome), r.Status, r.Reason, r.Took.Milliseconds()}); err != nil {
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
		},
	}
}

// namedWebhook is a webhook of the configuration.
func (a *app) namedWebhook(name string) (c *config.Config, w config.Webhook, err error) {
	if c, err = config.Load(a.configFile); err != nil {
		return nil, w, err
	}
	w, ok := c.Webhook(name)
	if !ok {
		return nil, w, usage("no webhook %q is configured\n`perennial webhooks list` shows those that are", name)
	}
	return c, w, nil
}

// testEvent is a CloudEvent that is no fact of the journal.
func testEvent(w config.Webhook, at time.Time) (event []byte, id string, err error) {
	id = w.Account + "/test/" + rand.Text()
	event, err = json.Marshal(map[string]any{
		"specversion": "1.0", "id": id, "source": "perennial/" + w.Account, "type": "perennial.webhook.test.v1",
		"time": at.UTC().Format("2006-01-02T15:04:05.000000Z"), "datacontenttype": "application/json", "data": map[string]string{"webhook": w.Name},
	})
	return event, id, err
}

func (a *app) printTested(t webhookTested) error {
	if a.output == "json" {
		return printJSON(a.stdout, t)
	}
	_, err := fmt.Fprintf(a.stdout, "webhook %s, %s: %s, %s after %d ms\n", t.Name, t.URL, t.Outcome, t.Reason, t.TookMS)
	return err
}

func (a *app) webhookRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Aliases: []string{"delete"}, Short: "Delete the position of a webhook that was removed", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := config.Load(a.configFile)
			if err != nil {
				return err
			}
			name := args[0]
			accounts, err := c.PickAll(a.account)
			if err != nil {
				return err
			}
			if w, configured := c.Webhook(name); configured && slices.Contains(accounts, w.Account) {
				return usage("webhook %s is configured for account %s\ntake it out of the configuration and start the runner again, then remove it", name, w.Account)
			}
			return a.withEvents(c, accounts[0], func(q *queue.Queue) error { return a.removeWebhook(cmd.Context(), q, accounts, name) })
		},
	}
}

func (a *app) removeWebhook(ctx context.Context, q *queue.Queue, accounts []string, name string) error {
	for _, account := range accounts {
		_, revision, err := q.WebhookPosition(ctx, account, name)
		if err == nil && revision > 0 {
			if err = q.RemoveWebhook(ctx, account, name); err == nil {
				fmt.Fprintf(a.stderr, "webhook %s of account %s is removed\n", name, account)
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	return errors.New("no webhook " + name + " has begun\n`perennial webhooks list` shows those that have")
}
