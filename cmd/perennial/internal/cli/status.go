// `perennial status`, `watch`, `retry`, `cancel` and `release`.

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/jobs"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue"
)

func (a *app) statusCommand() *cobra.Command {
	var q daemon.ListRequest
	var since time.Duration
	c := &cobra.Command{
		Use:   "status [ID]",
		Short: "Show operations, or one command in full",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.showStatus(cmd.Context(), args[0])
			}
			if err := checkList(q); err != nil {
				return err
			}
			if since > 0 {
				q.Since = time.Now().Add(-since)
			}
			return a.listOperations(cmd.Context(), q)
		},
	}
	c.Flags().BoolVar(&q.All, "all", true, "show operations that have ended too")
	c.Flags().StringVar(&q.State, "state", "", "only operations in this state, such as review")
	c.Flags().StringVar(&q.Kind, "kind", "", fmt.Sprintf("only of this kind, one of %v", jobs.Kinds()))
	c.Flags().StringToStringVar(&q.Labels, "label", nil, "only of commands with this label, key=value; may be repeated")
	c.Flags().Var(span{&since}, "since", "only what was accepted within this time, such as 1d or 12h")
	limitFlag(c, &q.Limit, 50, "how many, the last accepted first")
	return c
}

// readStatus asks the runner, and reads the ledger itself when none answers.
func (a *app) readStatus(ctx context.Context, id string) (inspect.CommandStatus, error) {
	s, answered, err := askRunning[inspect.CommandStatus](ctx, a, daemon.VerbStatus, daemon.OperatorRequest{ID: id})
	if answered {
		return s, err
	}
	l, _, ledgerErr := a.openLedger(ctx)
	if ledgerErr != nil {
		return s, errors.Join(err, ledgerErr)
	}
	defer func() { _ = l.Close() }()
	s, err = inspect.Status(ctx, l, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return s, &notFoundError{fmt.Sprintf("there is no command or operation %q", id)}
	}
	return s, err
}

// showStatus prints the command of an id, in whichever account has it.
func (a *app) showStatus(ctx context.Context, id string) error {
	type hit struct {
		account string
		status  inspect.CommandStatus
	}
	var hits []hit
	var missing error
	err := a.eachAccount(ctx, func(one *app, account string) error {
		s, err := one.readStatus(ctx, id)
		if _, ok := errors.AsType[*notFoundError](err); ok {
			missing = err
			return nil
		}
		if err == nil {
			hits = append(hits, hit{account, s})
		}
		return err
	})
	switch len(hits) {
	case 0:
		return errors.Join(err, missing)
	case 1:
		return errors.Join(a.printStatus(hits[0].account, hits[0].status), err)
	}
	names := make([]string, 0, len(hits))
	for _, h := range hits {
		names = append(names, h.account)
	}
	return errors.Join(usage("%q is an id in several accounts (%s): say which with --account", id, strings.Join(names, ", ")), err)
}

// listOperations prints the operations that were accepted last, of all accounts
// together.
func (a *app) listOperations(ctx context.Context, q daemon.ListRequest) error {
	type row struct {
		account   string
		operation inspect.OperationStatus
	}
	var rows []row
	err := a.eachAccount(ctx, func(one *app, account string) error {
		r, err := one.connect()
		if err != nil {
			return err
		}
		defer r.Close()
		list, err := ask[[]inspect.OperationStatus](ctx, r, daemon.VerbList, q)
		for _, o := range list {
			rows = append(rows, row{account, o})
		}
		if err != nil {
			return err
		}
		return one.warnOfSweeps(ctx, r, account)
	})
	slices.SortStableFunc(rows, func(x, y row) int { return y.operation.AcceptedAt.Compare(x.operation.AcceptedAt) })
	list := a.listing("OPERATION", "KIND", "STATE", "ATTEMPTS", "CHARGED", "REFUNDED", "ACCEPTED", "REASON")
	for _, r := range rows[:min(len(rows), q.Limit)] {
		o := r.operation
		if err := list.add(r.account, o, cmp.Or(o.OperationID, o.CommandID), string(o.Kind), string(o.State), strconv.FormatInt(o.Attempts, 10), money(o.ChargedCents, o.Currency),
			money(o.RefundedCents, o.Currency), ago(&o.AcceptedAt), printable(o.Reason)); err != nil {
			return err
		}
	}
	return list.end(err)
}

func (a *app) watchCommand() *cobra.Command {
	var from uint64
	var types []string
	c := &cobra.Command{
		Use:   "watch",
		Short: "Show events as they are published",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkTypes(types); err != nil {
				return err
			}
			r, err := a.connect()
			if err != nil {
				return err
			}
			defer r.Close()
			currency := a.currencyAt(cmd.Context(), r)
			for event, err := range r.Events(cmd.Context(), r.account, queue.WatchFrom{Seq: from, New: !cmd.Flags().Changed("from"), Types: types}) {
				if err != nil {
					return err
				}
				if err := a.printEvent(event, currency); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringSliceVar(&types, "type", nil, "only events of these types, such as order.delivered or renewal.*")
	wholeVar(c.Flags(), &from, "from", 0, "begin with this journal sequence instead of what comes now")
	return c
}

// checkTypes refuses a type that no event has: `watch` would wait for ever.
func checkTypes(types []string) error {
	known := slices.Sorted(maps.Keys(fact.Types()))
	for _, text := range types {
		if ok := slices.ContainsFunc(known, func(k string) bool { match, err := path.Match(text, k); return err == nil && match }); ok || text == ">" {
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

// currencyTimeout is how long `watch` waits for the currency, without which it
// shows amounts too: it may be allowed to read events alone.
const currencyTimeout = 2 * time.Second

// currencyAt is the currency of the account as its runner knows it; "" as JSON,
// which has cents, or when no runner answers.
func (a *app) currencyAt(ctx context.Context, r *remote) string {
	if a.output == "json" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, currencyTimeout)
	defer cancel()
	v, _ := ask[daemon.AccountView](ctx, r, daemon.VerbShow, struct{}{})
	return v.Currency
}

func (a *app) printEvent(e queue.ReceivedEvent, currency string) error {
	if a.output == "json" {
		_, err := fmt.Fprintf(a.stdout, "%s\n", e.Data)
		return err
	}
	_, err := fmt.Fprintln(a.stdout, eventLine(e, currency))
	return err
}

// eventLine is an event for people: when, what, about what, how much.
func eventLine(e queue.ReceivedEvent, currency string) string {
	var event ledger.CloudEvent
	var data struct {
		Charged  int64    `json:"charged_cents"`
		Refunded int64    `json:"refunded_cents"`
		Reason   string   `json:"reason"`
		Detail   string   `json:"detail"` // of a pause
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
	said := []string{line, printable(data.Schedule), printable(daemon.FirstFew(ids))}
	if data.Charged != 0 {
		said = append(said, "charged "+money(data.Charged, currency))
	}
	if data.Refunded != 0 {
		said = append(said, "refunded "+money(data.Refunded, currency))
	}
	if data.By != "" {
		said = append(said, "by "+printable(fact.Signed(data.By, data.User)))
	}
	said = append(said, printable(data.Reason+data.Detail+data.Skipped.reason()))
	return strings.Join(slices.DeleteFunc(said, func(text string) bool { return text == "" }), "  ")
}

func (a *app) retryCommand() *cobra.Command {
	return a.operatorCommand("retry ID", "Ask again for what ended with nothing charged", daemon.VerbRetry)
}

func (a *app) cancelCommand() *cobra.Command {
	return a.operatorCommand("cancel ID", "Withdraw what was surely not executed", daemon.VerbCancel)
}

func (a *app) releaseCommand() *cobra.Command {
	return a.operatorCommand("release ID", "Let go what was held", daemon.VerbRelease)
}

// operatorCommand is an operator's change of one command or operation.
func (a *app) operatorCommand(use, short, verb string) *cobra.Command {
	q := daemon.OperatorRequest{}
	c := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.ID = args[0]
			return a.sendChange(cmd.Context(), verb, q)
		},
	}
	c.Flags().StringVar(&q.By, "by", operator(), "who decides it")
	c.Flags().StringVar(&q.Reason, "reason", "asked for on the command line", "why")
	return c
}

func (a *app) sendChange(ctx context.Context, verb string, q any) error {
	changed, err := askOnce[daemon.ChangedAnswer](ctx, a, verb, q)
	if err != nil {
		return err
	}
	if a.output == "json" {
		return printJSON(a.stdout, changed)
	}
	_, err = fmt.Fprintf(a.stdout, "done: %d changed\n", changed.Changed)
	return err
}

// checkList refuses filters that nothing can match.
func checkList(q daemon.ListRequest) error {
	if q.Kind != "" && !slices.Contains(jobs.Kinds(), fact.Kind(q.Kind)) {
		return usage("--kind is %q: use one of %v", q.Kind, jobs.Kinds())
	}
	if q.State != "" && !slices.Contains(fact.States, fact.State(q.State)) {
		return usage("--state is %q: use one of %v", q.State, fact.States)
	}
	return nil
}
