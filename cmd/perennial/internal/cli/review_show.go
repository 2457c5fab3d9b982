// `perennial reviews show`, which prints the evidence for one operation.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/tables"
)

// readEvidence asks the runner for the evidence, which the runner reads from the ledger and
// the provider. If no runner answers, the evidence comes from the ledger alone.
func (a reviewCommands) readEvidence(ctx context.Context, id string) (inspect.Evidence, error) {
	asking, cancel := context.WithTimeout(ctx, daemon.EvidenceTimeout+10*time.Second)
	defer cancel()
	e, answered, err := askRunning(asking, a.app, verbs.Evidence, verbs.OperatorRequest{ID: id})
	if answered {
		return e, err
	}
	l, _, err := a.openLedger(ctx)
	if err != nil {
		return e, err
	}
	defer func() { _ = l.Close() }()
	of, err := daemon.OperationInReview(ctx, l, id, "")
	if err != nil {
		return e, err
	}
	e, err = inspect.CollectEvidence(ctx, l, nil, of)
	if errors.Is(err, ledger.ErrNotFound) {
		err = &exitError{ExitFailed, fmt.Errorf("there is no operation %q: see `perennial reviews list`", id)}
	}
	return e, err
}

// atStake formats the exposure of a review.
func atStake(x tables.Review, currency string) string {
	switch {
	case x.Ended:
		return "nothing"
	case !x.AtStakeCents.Known():
		return "unknown"
	}
	return money(x.AtStakeCents.Or(0), currency)
}

func (a reviewCommands) printEvidence(e inspect.Evidence) error {
	if a.output == "json" {
		return printJSON(a.stdout, e)
	}
	fmt.Fprintf(a.stdout, "operation %s  %s  %s\nreason    %s\nreply     %s\nkey       %s\ntrace id  %s\nattempts  %d%s\n",
		e.OperationID, e.Kind, e.StateText(), e.Reason, cmp.Or(e.Code, "none"), e.IdempotencyKey, e.TraceID, e.Attempts, unknownOutcomes(e.Ambiguous))
	if e.ChargedCents > 0 {
		fmt.Fprintf(a.stdout, "charged   %s, refunded %s, net %s\n", money(e.ChargedCents, e.Currency), money(e.RefundedCents, e.Currency), money(e.ChargedCents-e.RefundedCents, e.Currency))
	}
	for _, text := range e.Corrected {
		fmt.Fprintf(a.stdout, "corrected %s\n", printable(text))
	}
	if e.Verdict != nil {
		fmt.Fprintf(a.stdout, "verdict   %s\n", e.Verdict.Text)
	}
	fmt.Fprintf(a.stdout, "wallet    %s\n", walletsText(e, time.Now()))
	for _, n := range e.Notes {
		fmt.Fprintf(a.stdout, "note      %s\n", n)
	}
	fmt.Fprintln(a.stdout)
	rows := make([][]string, 0, len(e.History))
	for _, h := range e.History {
		reply := h.Code
		if h.HTTPStatus != 0 {
			reply = strings.TrimSpace(strconv.Itoa(h.HTTPStatus) + " " + h.Code)
		}
		rows = append(rows, []string{h.Time.Format(time.RFC3339), h.Type, attemptText(h.Attempt), reply, h.TraceID, h.Text})
	}
	tables := []struct {
		heading []string
		rows    [][]string
	}{
		{[]string{"TIME", "FACT", "ATTEMPT", "REPLY", "TRACE ID", ""}, rows},
		{[]string{"LINE", "STATE", "EXPIRED BEFORE", "EXPIRES NOW", "MOVED"}, expiryRows(e.Expiries)},
		{[]string{"UNKNOWN ORDER", "CREATED", "NET"}, orderRows(e.Orders, e.Currency)},
	}
	for _, t := range tables {
		if len(t.rows) == 0 {
			continue
		}
		if err := a.table(t.heading, t.rows); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout)
	}
	a.printAnswers(e)
	return nil
}

// unknownOutcomes says how many attempts got no usable reply.
func unknownOutcomes(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", of which %d had an unknown outcome", n)
}

func attemptText(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// walletsText returns the known wallet balances before the first attempt, after the last
// attempt, and now.
func walletsText(e inspect.Evidence, now time.Time) string {
	var known []string
	for _, x := range []struct {
		when string
		*tables.Reconciled
	}{{"before", e.WalletBefore}, {"after", e.WalletAfter}} {
		if x.Reconciled != nil {
			known = append(known, fmt.Sprintf("%s %s at %s", x.when, money(x.ProviderCents, e.Currency), x.At.Format(time.RFC3339)))
		}
	}
	if x := e.WalletNow; x != nil {
		known = append(known, fmt.Sprintf("now %s at the provider and %s in the ledger%s, read %s", money(x.ProviderCents, e.Currency), money(x.LedgerCents, e.Currency), apartText(x.ProviderCents-x.LedgerCents, e.Currency), humanize.RelTime(x.At, now, "ago", "from now")))
	}
	return cmp.Or(strings.Join(known, ", "), "not known")
}

// apartText formats by how much the provider's wallet exceeds the ledger balance. cents may
// be negative.
func apartText(cents int64, currency string) string {
	switch {
	case cents < 0:
		return ": " + money(-cents, currency) + " less at the provider"
	case cents > 0:
		return ": " + money(cents, currency) + " more at the provider"
	}
	return ": the same"
}

func expiryRows(all []inspect.ExpiryEvidence) (rows [][]string) {
	for _, x := range all {
		moved := "not known"
		if x.Moved != nil {
			moved = strconv.FormatBool(*x.Moved)
		}
		rows = append(rows, []string{x.ProxyID, x.State, stamp(x.Before), stamp(x.Now), moved})
	}
	return rows
}

func orderRows(all []inspect.OrderEvidence, currency string) (rows [][]string) {
	for _, x := range all {
		rows = append(rows, []string{x.OrderNo, x.CreatedAt.UTC().Format(time.RFC3339), centsOrUnknown(x.NetCents, currency)})
	}
	return rows
}

// printAnswers prints a CLI command for each possible answer, and what the answer does.
func (a reviewCommands) printAnswers(e inspect.Evidence) {
	if len(e.Answers) == 0 {
		return
	}
	fmt.Fprintln(a.stdout, "To resolve it, one of:")
	for _, x := range e.Answers {
		line := ""
		if x.ProxyID != "" && !strings.Contains(x.Say, "--line") {
			line = " --line " + x.ProxyID
		}
		fmt.Fprintf(a.stdout, "  perennial reviews resolve %s%s %s --reason TEXT\n    %s\n", printable(e.OperationID), printable(line), x.Say, answerText(x, e.Currency))
	}
}

// answerText says what an answer books, and whether it sends the request again.
func answerText(x inspect.Answer, currency string) string {
	books := make([]string, 0, len(x.Bookings))
	for _, b := range x.Bookings {
		books = append(books, fmt.Sprintf("%s %s from %s to %s", b.Kind, money(b.AmountCents, currency), b.Credit, b.Debit))
	}
	text := "books " + cmp.Or(strings.Join(books, ", "), "nothing")
	if x.AsksAmount() {
		text = "books the amount that was charged"
	}
	if x.NewKey != "" {
		text += ", and sends it again as " + x.NewOperation + " with the new key " + x.NewKey
	}
	return text
}
