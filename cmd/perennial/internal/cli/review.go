// `perennial reviews`, which shows and resolves operations with an unknown outcome, and the
// output of `accounts show`.

package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/cmd/perennial/internal/web"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/ledger"
)

func (a reviewCommands) reviewsCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "reviews", Aliases: []string{"review"}, Short: "List, show, resolve and correct operations with an unknown outcome"},
		a.reviewList(), a.reviewShow(), a.reviewResolve(), a.reviewCorrect(), hidden(a.auditCommand("log")))
}

func (a reviewCommands) reviewList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List operations, and proxies of renewals, whose outcome is unknown", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := a.listing("OPERATION", "LINE", "SINCE", "EXPOSURE", "REASON", "TRACE ID")
			err := a.eachLedger(cmd.Context(), func(ctx context.Context, l *ledger.Ledger, account string) error {
				currency, err := l.Currency(ctx)
				if err != nil {
					return err
				}
				reviews, err := l.Operations.Reviews(ctx)
				if err != nil {
					return err
				}
				for _, x := range reviews {
					if err := list.add(account, x, x.OperationID, x.ProxyID, ago(&x.Since), atStake(x, currency), x.Reason, x.TraceID); err != nil {
						return err
					}
				}
				return nil
			})
			return list.end(err)
		},
	}
}

func (a reviewCommands) reviewShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show the evidence and the possible resolutions", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := a.readEvidence(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.printEvidence(e)
		},
	}
}

func (a reviewCommands) reviewResolve() *cobra.Command {
	var x desk.Resolution
	var notCharged bool
	var confirm int64
	c := &cobra.Command{
		Use: "resolve ID", Short: "Record whether the provider charged", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			charged := cmd.Flags().Changed("charged")
			x.ID, x.Charged = args[0], &charged
			switch {
			case charged && notCharged:
				return usage("--charged and --not-charged exclude each other")
			case !charged && !notCharged:
				return usage("say what happened: --charged AMOUNT, or --not-charged (and --send-again)")
			}
			if x.Reason == "" {
				return usage("say why: --reason TEXT is kept with your name")
			}
			if cmd.Flags().Changed("confirm-amount") {
				x.ConfirmCents = &confirm
			}
			return a.sendResolution(cmd.Context(), x)
		},
	}
	f := c.Flags()
	amountVar(f, &x.ChargedCents, "charged", "the provider charged this much, in cents (640) or in dollars with a decimal point (6.40): the total of an order, or the cost of all unresolved proxies of a renewal, or of the --line proxy")
	amountVar(f, &confirm, "confirm-amount", "repeat the amount of --charged; required if the amount exceeds the wallet, is more than twice or less than half the expected amount, or if no amount is expected")
	f.BoolVar(&x.AgainstEvidence, "against-evidence", false, "with --not-charged: the provider confirmed that nothing was charged, although an expiry moved or an order appeared")
	f.BoolVar(&notCharged, "not-charged", false, "the provider charged nothing")
	f.StringVar(&x.OrderNo, "order", "", "with --charged: the provider's number of the order that was made")
	f.StringVar(&x.ProxyID, "line", "", "answer only for this proxy of the renewal")
	f.BoolVar(&x.SendAgain, "send-again", false, "with --not-charged: send the request again with a new idempotency key")
	signed(c, &x.By, &x.Reason, "who does it", "")
	return c
}

// sendResolution resolves a review, and prints the booked amount and the wallet balance.
func (a reviewCommands) sendResolution(ctx context.Context, x desk.Resolution) error {
	changed, err := askOnce(ctx, a.app, verbs.Resolve, x)
	if err != nil || a.output == "json" || changed.WalletCents == nil {
		return a.printChange(changed, "answered "+x.ID, err)
	}
	booked := "nothing charged"
	if *x.Charged {
		booked = money(x.ChargedCents, changed.Currency) + " charged"
	}
	_, err = fmt.Fprintf(a.stdout, "answered %s: %s; the wallet has %s; `perennial reviews correct %[1]s` corrects it\n", x.ID, booked, money(*changed.WalletCents, changed.Currency))
	return err
}

// nameAccount selects the account that an argument names.
func (a *app) nameAccount(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if a.account != "" && a.account != args[0] {
		return usage("account %s is named, and --account %s: name one", args[0], a.account)
	}
	a.account = args[0]
	return nil
}

// activeAccount is the only account status that needs no attention. The API document does
// not list the possible values.
const activeAccount = "active"

func (a *app) printAccount(v verbs.AccountView) error {
	if a.output == "json" {
		return printJSON(a.stdout, v)
	}
	status := v.Status
	if status != "" && status != activeAccount {
		status += "  (not " + activeAccount + ": ask the provider why)"
	}
	rows := [][]string{
		{"provider account", v.AccountID}, {"status", status}, {"e-mail", v.Email}, {"created", stamp(v.CreatedAt)}, {"environment", v.Environment}, {"address", v.BaseURL}, {"app id", v.AppID},
		{"journal head", strconv.FormatInt(v.Head.Seq, 10)}, {"published", strconv.FormatUint(v.Published, 10)},
	}
	if v.ShortOfMoney {
		rows = append(rows, []string{"short of money", "the wallet could not pay for the last operation: top it up"})
	}
	rows = append(rows, []string{"reconciled", web.ReconciledText(v.Reconciled, v.Currency)})
	for _, p := range v.Paused {
		rows = append(rows, []string{"paused", inspect.PauseText(p)})
	}
	return a.table([]string{"ACCOUNT", v.Account}, rows)
}
