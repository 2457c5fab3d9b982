// Corrections of answers to reviews.

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// reviewCorrect returns the CLI command that corrects an answer: it reverses the answer's
// charge, or books the difference.
func (a reviewCommands) reviewCorrect() *cobra.Command {
	x := desk.Recording{}
	var charge, refund, confirm int64
	c := &cobra.Command{
		Use: "correct OPERATION", Short: "Correct an operator's earlier answer to a review", Args: cobra.ExactArgs(1),
		Long: "Books a correcting entry that is linked to the earlier answer to the review. Nothing is deleted.\n" +
			"Without an amount, the entry reverses the whole charge of that answer.",
		RunE: func(cmd *cobra.Command, args []string) error {
			charged, refunded := cmd.Flags().Changed("charge"), cmd.Flags().Changed("refund")
			switch {
			case charged && refunded:
				return usage("--charge and --refund exclude each other")
			case charged && charge == 0, refunded && refund == 0:
				return usage("--charge and --refund take an amount over 0: leave them out to take the whole charge back")
			case x.Reason == "":
				return usage("say why: --reason TEXT is kept with your name")
			case charged:
				x.Kind, x.Cents = fact.MovementCharge, charge
			case refunded:
				x.Kind, x.Cents = fact.MovementRefund, refund
			}
			if cmd.Flags().Changed("confirm-amount") {
				x.ConfirmCents = &confirm
			}
			err := a.withLedger(func(ctx context.Context, l *ledger.Ledger, _ string) (err error) {
				x.CorrectsSeq, err = answerOf(ctx, l, args[0], x.ProxyID)
				return err
			})(cmd, args)
			if err != nil {
				return err
			}
			return a.record(cmd.Context(), x, func(r verbs.RecordAnswer) string {
				back := "--charge"
				if r.Kind == fact.MovementCharge {
					back = "--refund"
				}
				line := ""
				if x.ProxyID != "" {
					line = " --line " + x.ProxyID
				}
				return fmt.Sprintf("reviews correct %s%s %s %s", args[0], line, back, fact.Amount(r.Cents, ""))
			})
		},
	}
	f := c.Flags()
	amountVar(f, &charge, "charge", "the provider charged this much more than the answer says, in cents (640) or in dollars with a decimal point (6.40)")
	amountVar(f, &refund, "refund", "the provider charged this much less than the answer says; without --charge or --refund the whole charge is reversed")
	amountVar(f, &confirm, "confirm-amount", "repeat the amount of --charge; required if the total would exceed both the expected amount and the earlier answer, if --charge exceeds the wallet, or if no amount is expected")
	f.StringVar(&x.ProxyID, "line", "", "the proxy of the renewal whose answer is corrected")
	f.StringVar(&x.ID, "id", "", "id of this correction; corrections with the same id are booked once (default: a random id)")
	signed(c, &x.By, &x.Reason, "who says so", "")
	return c
}

// answerOf returns the journal row of an operation's only answer or, if line is set, of the
// last answer for that line. id may also be the id of a command with one operation.
func answerOf(ctx context.Context, l *ledger.Ledger, id, line string) (seq int64, err error) {
	if id, err = operationOf(ctx, l, id); err != nil {
		return 0, err
	}
	rows, err := l.RowsOf(ctx, id)
	if err != nil {
		return 0, err
	}
	answers := 0
	for _, row := range rows {
		decoded, err := fact.Decode(row.Type, []byte(row.Data))
		if err != nil {
			return 0, err
		}
		if answer, ok := decoded.(fact.OperationResolved); ok && (line == "" || answer.ProxyID == line || answer.ProxyID == "") {
			seq, answers = row.Seq, answers+1
		}
	}
	switch {
	case answers == 0 && line != "":
		return 0, fmt.Errorf("no answer for %s of %s was booked: `perennial audit` lists the answers", line, id)
	case answers == 0:
		return 0, fmt.Errorf("no answer to a review of %q was booked: `perennial audit` lists the answers", id)
	case answers > 1 && line == "":
		return 0, usage("%s was answered line by line: use --line PROXY", id)
	}
	return seq, nil
}

// operationOf returns the id of an operation. id may be that of a command with one
// operation.
func operationOf(ctx context.Context, l *ledger.Ledger, id string) (string, error) {
	status, err := inspect.Brief(ctx, l, id, "")
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return "", fmt.Errorf("there is no command or operation %q: `perennial audit` lists the answers", id)
	case err == nil && id == status.CommandID && len(status.Operations) == 1:
		id = status.Operations[0].OperationID
	}
	return id, err
}
