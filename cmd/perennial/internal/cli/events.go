package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/queue/events"
)

func (a eventCommands) eventsCommand() *cobra.Command {
	var from uint64
	var types []string
	var stored bool
	var c *cobra.Command
	c = newCommand("events", "Stream events as they happen", func(ctx context.Context, _ []string) error {
		if err := checkTypes(types); err != nil {
			return err
		}
		r, err := a.connect()
		if err != nil {
			return err
		}
		defer r.Close()
		currency := a.currencyAt(ctx, r)
		if stored {
			return a.printStored(ctx, r, events.From{Seq: from, Types: types}, currency)
		}
		for event, err := range events.Of(r.JetStream(), r.account).Follow(ctx, events.From{Seq: from, New: !c.Flags().Changed("from"), Types: types}) {
			if err != nil {
				return err
			}
			if err := a.printEvent(event, currency); err != nil {
				return err
			}
		}
		return nil
	})
	c.Aliases = []string{"event", "watch"}
	c.Flags().StringSliceVar(&types, "type", nil, "only events of these types, such as order.delivered or renewal.*")
	wholeVar(c.Flags(), &from, "from", 0, "start at this journal sequence instead of now")
	c.Flags().BoolVar(&stored, "stored", false, "print the events that the stream holds, from its first event or from --from, and exit")
	return c
}

// printStored prints the events that are stored now. The stream can report its last event, but
// not the last event of several types. printStored therefore reads all events and filters them
// itself.
func (a eventCommands) printStored(ctx context.Context, r *remote, from events.From, currency string) error {
	state, err := events.Of(r.JetStream(), r.account).State(ctx)
	if err != nil {
		return err
	}
	types := from.Types
	from.Types = nil
	if state.Messages == 0 || from.Seq > state.Last {
		return nil
	}
	for event, err := range events.Of(r.JetStream(), r.account).Follow(ctx, from) {
		if err != nil {
			return err
		}
		if event.StreamSeq > state.Last {
			return nil
		}
		if len(types) == 0 || slices.ContainsFunc(types, func(t string) bool { return isOfType(event.Type, t) }) {
			if err := a.printEvent(event, currency); err != nil {
				return err
			}
		}
		if event.StreamSeq == state.Last {
			return nil
		}
	}
	return nil
}

func isOfType(kind, text string) bool {
	match, err := path.Match(text, kind)
	return err == nil && match || text == ">"
}

// checkTypes refuses a type that no event has, because the command would wait indefinitely.
func checkTypes(types []string) error {
	known := slices.Sorted(maps.Keys(fact.Types()))
	for _, text := range types {
		if slices.ContainsFunc(known, func(k string) bool { return isOfType(k, text) }) {
			continue
		}
		near := config.Nearest(text, known, len(text))
		if near != "" {
			near = ", did you mean " + near + "?"
		}
		return usage("--type %s is no type of event%s\nuse one such as order.delivered, or renewal.* (docs/events has all)", text, near)
	}
	return nil
}

// currencyTimeout limits the wait for the currency. If the currency is not available, amounts
// are shown without a currency, because the user may be permitted to read only events.
const currencyTimeout = 2 * time.Second

// currencyAt asks the account's runner for the currency. It returns "" if no runner answers. It
// also returns "" for JSON output, which has no currency.
func (a eventCommands) currencyAt(ctx context.Context, r *remote) string {
	if a.output == "json" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, currencyTimeout)
	defer cancel()
	v, _ := ask(ctx, r, verbs.Show, struct{}{})
	return v.Currency
}

func (a eventCommands) printEvent(e events.Event, currency string) error {
	if a.output == "json" {
		_, err := fmt.Fprintf(a.stdout, "%s\n", e.Data)
		return err
	}
	_, err := fmt.Fprintln(a.stdout, eventLine(e, currency))
	return err
}

// eventLine formats an event for people: sequence, time, type, subject and amount.
func eventLine(e events.Event, currency string) string {
	var event chain.CloudEvent
	var data struct {
		Charged  int64    `json:"charged_cents"`
		Refunded int64    `json:"refunded_cents"`
		Reason   string   `json:"reason"`
		Detail   string   `json:"detail"` // set for a pause
		By       string   `json:"by"`
		User     string   `json:"user"`
		ProxyID  string   `json:"proxy_id"`
		ProxyIDs []string `json:"proxy_ids"`
		Schedule string   `json:"schedule"`
		Skipped  skipped  `json:"skipped"`
		Items    []struct {
			ProxyID string `json:"proxy_id"`
		} `json:"items"`
		Settlement struct {
			Charged int64 `json:"charged_cents"`
		} `json:"settlement"`
	}
	if json.Unmarshal(e.Data, &event) != nil || json.Unmarshal(event.Data, &data) != nil {
		return fmt.Sprintf("%6d  %s", e.Seq, e.Type)
	}
	ids := data.ProxyIDs
	if data.ProxyID != "" {
		ids = append(ids, data.ProxyID)
	}
	for _, x := range data.Items {
		ids = append(ids, x.ProxyID)
	}
	for _, x := range data.Skipped {
		ids = append(ids, x.ProxyIDs...)
	}
	line := fmt.Sprintf("%6d  %s  %-18s %s", e.Seq, event.Time.Format("15:04:05.000"), e.Type, event.Subject)
	charged, refunded, by := "", "", ""
	if data.Charged != 0 {
		charged = "charged " + money(data.Charged, currency)
	}
	if data.Refunded != 0 {
		refunded = "refunded " + money(data.Refunded, currency)
	}
	if data.By != "" {
		by = "by " + printable(fact.Signed(data.By, data.User))
	}
	return joined("  ", line, printable(data.Schedule), printable(daemon.FirstFew(ids)), charged, refunded, by, printable(data.Reason+data.Detail+data.Skipped.reason()))
}

type skipped []fact.SkippedFor

func (s skipped) reason() string {
	switch len(s) {
	case 0:
		return ""
	case 1:
		return s[0].Reason
	}
	return fmt.Sprintf("%s, and %d more", s[0].Reason, len(s)-1)
}
