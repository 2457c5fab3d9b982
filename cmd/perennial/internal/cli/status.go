// `perennial status`, `watch`, `retry`, `cancel` and `release`.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/jobs/inspect"
	"perennial/ledger"
)

func (a *app) statusCommand() *cobra.Command {
	var q verbs.ListRequest
	var since time.Duration
	var as string
	c := &cobra.Command{
		Use:   "status [ID]",
		Short: "Show operations, or one command in full",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				of, err := idOf(as)
				if err != nil {
					return err
				}
				return a.showStatus(cmd.Context(), args[0], of)
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
	asFlag(c, &as)
	return c
}

// readStatus asks the runner, and reads the ledger itself when none answers.
func (a *app) readStatus(ctx context.Context, id string, as inspect.As) (inspect.CommandStatus, error) {
	s, answered, err := askRunning(ctx, a, verbs.Status, verbs.OperatorRequest{}.Named(id, as))
	if answered {
		return s, err
	}
	l, _, ledgerErr := a.openLedger(ctx)
	if ledgerErr != nil {
		return s, errors.Join(err, ledgerErr)
	}
	defer func() { _ = l.Close() }()
	s, err = inspect.StatusAs(ctx, l, id, as)
	if errors.Is(err, ledger.ErrNotFound) {
		return s, &notFoundError{fmt.Sprintf("there is no command or operation %q", id)}
	}
	return s, err
}

// showStatus prints the command of an id, in whichever account has it.
func (a *app) showStatus(ctx context.Context, id string, as inspect.As) error {
	type hit struct {
		account string
		status  inspect.CommandStatus
	}
	var hits []hit
	var missing error
	err := a.eachAccount(ctx, func(one *app, account string) error {
		s, err := one.readStatus(ctx, id, as)
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
func (a *app) listOperations(ctx context.Context, q verbs.ListRequest) error {
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
		list, err := ask(ctx, r, verbs.List, q)
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
