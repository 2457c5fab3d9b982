// `perennial status ID` and `operations`.

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

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/queue/service"
)

func (a statusCommands) statusCommand() *cobra.Command {
	var as string
	var f listFlags
	c := &cobra.Command{
		Use:   "status [ID]",
		Short: "Show the account's health, or one command",
		Long: `Show each account at a glance: whether it works, what needs you, what expires, how long
the wallet lasts, and whether the books agree with the provider. Then list the latest operations.
With an ID, show that command or operation in full.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				of, err := idOf(as)
				if err != nil {
					return err
				}
				return a.showStatus(cmd.Context(), args[0], of)
			}
			if f.given(cmd) { // older form of 'operations list'
				return a.listAsFlagged(cmd.Context(), &f)
			}
			return a.showAccounts(cmd.Context())
		},
	}
	f.add(c)
	for _, name := range listFlagNames {
		_ = c.Flags().MarkHidden(name)
	}
	asFlag(c, &as)
	return c
}

func (a statusCommands) operationsCommand() *cobra.Command {
	var as string
	show := &cobra.Command{
		Use: "show ID", Short: "Show a command or an operation in full", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := idOf(as)
			if err != nil {
				return err
			}
			return a.showStatus(cmd.Context(), args[0], of)
		},
	}
	asFlag(show, &as)
	var f listFlags
	list := &cobra.Command{
		Use: "list", Short: "List operations, most recently accepted first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listAsFlagged(cmd.Context(), &f) },
	}
	f.add(list)
	list.Flags().BoolVar(&f.open, "open", false, "only operations that have not ended")
	return noun(&cobra.Command{Use: "operations", Aliases: []string{"operation"}, Short: "List and show operations"}, list, show)
}

// listFlags are the flags that select operations.
type listFlags struct {
	q     verbs.ListRequest
	since time.Duration
	open  bool
}

var listFlagNames = []string{"all", "state", "kind", "label", "since", "limit"}

func (f *listFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.q.All, "all", true, "show operations that have ended too")
	_ = c.Flags().MarkHidden("all") // the default; the opposite of --open
	c.Flags().StringVar(&f.q.State, "state", "", "only operations in this state, such as review")
	c.Flags().StringVar(&f.q.Kind, "kind", "", fmt.Sprintf("only operations of this kind, one of %v", jobs.Kinds()))
	c.Flags().StringToStringVar(&f.q.Labels, "label", nil, "only operations of commands with this label, key=value; may be repeated")
	c.Flags().Var(span{&f.since}, "since", "only operations accepted within this time, such as 1d or 12h")
	limitFlag(c, &f.q.Limit, 50, "how many, most recently accepted first")
}

func (f *listFlags) given(c *cobra.Command) bool {
	return slices.ContainsFunc(listFlagNames, func(name string) bool { return c.Flags().Changed(name) })
}

func (a statusCommands) listAsFlagged(ctx context.Context, f *listFlags) error {
	q := f.q
	q.All = q.All && !f.open
	if err := checkList(q); err != nil {
		return err
	}
	if f.since > 0 {
		q.Since = time.Now().Add(-f.since)
	}
	return a.listOperations(ctx, q)
}

// readStatus asks the runner. If no runner answers, it reads the ledger, and answered is
// false.
func (a statusCommands) readStatus(ctx context.Context, id string, as inspect.As) (s inspect.CommandStatus, answered bool, err error) {
	s, answered, err = askRunning(ctx, a.app, verbs.Status, verbs.OperatorRequest{}.Named(id, as))
	if answered {
		return s, true, err
	}
	l, _, ledgerErr := a.openLedger(ctx)
	if ledgerErr != nil {
		return s, false, errors.Join(err, ledgerErr)
	}
	defer func() { _ = l.Close() }()
	s, err = inspect.StatusAs(ctx, l, id, as)
	if errors.Is(err, ledger.ErrNotFound) {
		return s, false, &notFoundError{daemon.NothingOfID}
	}
	return s, false, err
}

// showStatus prints the command with an id. If several accounts have the id, it returns an
// error.
func (a statusCommands) showStatus(ctx context.Context, id string, as inspect.As) error {
	type hit struct {
		account string
		status  inspect.CommandStatus
	}
	var hits []hit
	var missing error
	err := a.eachAccount(ctx, func(one *app, account string) error {
		s, answered, err := statusCommands{one}.readStatus(ctx, id, as)
		if _, ok := errors.AsType[*notFoundError](err); ok {
			if missing == nil || missing.Error() == daemon.NothingOfID {
				missing = err
			}
			return nil
		}
		if err == nil {
			hits = append(hits, hit{account, s})
			if !answered && a.output != "json" {
				fmt.Fprintln(a.stderr, "no runner answers: this is from the ledger, and nothing is sent until `perennial run` works")
			}
		}
		return err
	})
	switch len(hits) {
	case 0:
		if err == nil && missing != nil && missing.Error() != daemon.NothingOfID {
			return missing // the runner's error gives the state of the command
		}
		if err == nil && missing != nil {
			return &exitError{ExitFailed, &notFoundError{fmt.Sprintf("there is no command or operation %q: `perennial operations list` shows the latest", id)}}
		}
		return err
	case 1:
		return errors.Join(a.printStatus(hits[0].account, hits[0].status), err)
	}
	names := make([]string, 0, len(hits))
	for _, h := range hits {
		names = append(names, h.account)
	}
	return errors.Join(usage("%q is an id in several accounts (%s): say which with --account", id, strings.Join(names, ", ")), err)
}

type operationRows []operationRow

type operationRow struct {
	account   string
	operation inspect.OperationStatus
}

// read adds the operations of an account, and warns about the account's failing schedules.
// If no runner answers, it adds the operations in the ledger and returns an error.
func (rows *operationRows) read(ctx context.Context, a *app, account string, q verbs.ListRequest) error {
	list, answered, err := askRunning(ctx, a, verbs.List, q)
	if _, wrong := errors.AsType[*config.NotConfiguredError](err); !answered && !wrong {
		_ = rows.readLedger(ctx, a, account, q) // without a ledger, nothing can be shown
		return &exitError{ExitUnreachable, cmp.Or(err, service.ErrNoRunner)}
	}
	rows.add(account, list)
	if err != nil {
		return err
	}
	return a.warnOfSweeps(ctx, account)
}

func (rows *operationRows) add(account string, list []inspect.OperationStatus) {
	for _, o := range list {
		*rows = append(*rows, operationRow{account, o})
	}
}

// readLedger adds operations from the account's ledger file.
func (rows *operationRows) readLedger(ctx context.Context, a *app, account string, q verbs.ListRequest) error {
	l, _, err := a.openLedger(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	list, err := daemon.ListOperations(ctx, l, q)
	rows.add(account, list)
	return err
}

// listOperations prints the latest operations of all accounts together.
func (a statusCommands) listOperations(ctx context.Context, q verbs.ListRequest) error {
	var rows operationRows
	err := a.eachAccount(ctx, func(one *app, account string) error {
		if a.output != "json" {
			one.notePauses(ctx, account)
		}
		return rows.read(ctx, one, account, q)
	})
	if err != nil && len(rows) == 0 {
		return err
	}
	return errors.Join(a.printOperations(rows, q.Limit), err)
}

// notePauses prints an account's pauses to stderr. It prints nothing if no runner answers.
func (a *app) notePauses(ctx context.Context, account string) {
	v, err := askOnce(ctx, a, verbs.Show, struct{}{})
	if err != nil {
		return
	}
	for _, p := range v.Paused {
		fmt.Fprintln(a.stderr, strings.TrimPrefix(account+": ", ": ")+inspect.PauseText(p))
	}
}

// printOperations prints operations, newest first.
func (a statusCommands) printOperations(rows operationRows, limit int) error {
	slices.SortStableFunc(rows, func(x, y operationRow) int { return y.operation.AcceptedAt.Compare(x.operation.AcceptedAt) })
	list := a.listing("OPERATION", "KIND", "STATE", "ATTEMPTS", "CHARGED", "REFUNDED", "NET", "ACCEPTED", "REASON")
	for _, r := range rows[:min(len(rows), limit)] {
		o := r.operation
		if err := list.add(r.account, o, cmp.Or(o.OperationID, o.CommandID), string(o.Kind), string(o.State), strconv.FormatInt(o.Attempts, 10), o.ChargedText(),
			money(o.RefundedCents, o.Currency), o.NetOrCharged(), ago(&o.AcceptedAt), printable(o.Reason)); err != nil {
			return err
		}
	}
	return list.end(nil)
}
