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
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/report"
	"perennial/ledger/tables"
)

func (a reviewCommands) reviewsCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "reviews", Aliases: []string{"review"}, Short: "List, show, resolve and correct operations with an unknown outcome"},
		a.reviewList(), a.reviewShow(), a.reviewResolve(), a.reviewCorrect(), hidden(a.auditCommand("log")))
}

func (a reviewCommands) reviewList() *cobra.Command {
	return newCommand("list", "List operations, and proxies of renewals, whose outcome is unknown", func(ctx context.Context, _ []string) error {
		list := a.listing("no reviews", "OPERATION", "LINE", "SINCE", "EXPOSURE", "REASON", "TRACE ID")
		err := a.eachLedger(ctx, func(ctx context.Context, l *ledger.Ledger, account string) error {
			currency, err := l.Currency(ctx)
			if err != nil {
				return err
			}
			reviews, err := inspect.Reviews(ctx, l, -1)
			if err != nil {
				return err
			}
			for _, x := range reviews {
				list.add(account, x, x.OperationID, x.ProxyID, ago(&x.Since), atStake(x, currency), x.Reason, x.TraceID)
			}
			return nil
		})
		return list.end(err)
	})
}

func (a reviewCommands) reviewShow() *cobra.Command {
	return newCommand("show ID", "Show the evidence and the possible resolutions", func(ctx context.Context, args []string) error {
		e, err := a.readEvidence(ctx, args[0])
		if err != nil {
			return err
		}
		return a.printEvidence(e)
	})
}

func (a reviewCommands) reviewResolve() *cobra.Command {
	var x desk.Resolution
	var cents *int64
	var notCharged bool
	c := newCommand("resolve ID", "Record whether the provider charged", func(ctx context.Context, args []string) error {
		charged := cents != nil
		x.ID, x.Charged = args[0], &charged
		switch {
		case charged && notCharged:
			return usage("--charged and --not-charged exclude each other")
		case !charged && !notCharged:
			return usage("say what happened: --charged AMOUNT, or --not-charged (and --send-again)")
		case x.Reason == "":
			return usage("say why: --reason TEXT is kept with your name")
		case charged:
			x.ChargedCents = *cents
		}
		return a.sendResolution(ctx, x)
	})
	f := c.Flags()
	f.Var(givenAmount{&cents}, "charged", "what the provider charged, in cents (640) or in dollars with a decimal point (6.40): the total of an order, or of all unresolved proxies of a renewal; with --line, of that proxy")
	f.Var(givenAmount{&x.ConfirmCents}, "confirm-amount", "repeat the amount of --charged; required if the amount exceeds the wallet, is more than twice or less than half the expected amount, or if no amount is expected")
	f.BoolVar(&x.AgainstEvidence, "against-evidence", false, "with --not-charged: the provider confirmed that nothing was charged, although an expiry moved or an order appeared")
	f.BoolVar(&notCharged, "not-charged", false, "the provider charged nothing")
	f.StringVar(&x.OrderNo, "order", "", "with --charged: the provider's number of the order that was made")
	f.StringVar(&x.ProxyID, "line", "", "answer only for this proxy of the renewal")
	f.BoolVar(&x.SendAgain, "send-again", false, "with --not-charged: send the request again with a new idempotency key")
	return signed(c, &x.By, &x.Reason, "")
}

func (a reviewCommands) sendResolution(ctx context.Context, x desk.Resolution) error {
	changed, err := askOnce(ctx, a.app, verbs.Resolve, x)
	if err != nil || a.output == "json" || changed.WalletCents == nil {
		return a.printChange(changed, "answered "+x.ID, err)
	}
	_, err = fmt.Fprintln(a.stdout, answeredText(x, changed))
	return err
}

func answeredText(x desk.Resolution, changed verbs.Changed) string {
	booked, undo, lines := "nothing charged", " --charge AMOUNT", ", with --line PROXY_ID for each of several proxies"
	if *x.Charged {
		booked, undo, lines = money(x.ChargedCents, changed.Currency)+" charged", "", ""
	}
	if x.ProxyID != "" {
		undo, lines = " --line "+x.ProxyID+undo, ""
	}
	return fmt.Sprintf("answered %s: %s; the ledger's wallet has %s; `perennial reviews correct %s%s --reason TEXT` corrects it%s",
		x.ID, booked, money(*changed.WalletCents, changed.Currency), x.ID, undo, lines)
}

// readEvidence asks the runner for the evidence, which the runner reads from the ledger and
// the provider. If no runner answers, the evidence comes from the ledger alone.
func (a reviewCommands) readEvidence(ctx context.Context, id string) (inspect.Evidence, error) {
	asking, cancel := context.WithTimeout(ctx, daemon.EvidenceTimeout+10*time.Second)
	defer cancel()
	e, answered, err := askRunning(asking, a.app, verbs.Evidence, verbs.OperatorRequest{ID: id})
	if none, ok := errors.AsType[*notFoundError](err); ok && none.Error() == daemon.NothingOfID {
		err = noOperation(id)
	}
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
		err = noOperation(id)
	}
	return e, err
}

func noOperation(id string) error {
	return &exitError{ExitFailed, fmt.Errorf("there is no operation %q: `perennial reviews list` shows those that need review", id)}
}

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
		e.OperationID, e.Kind, e.StateText(), e.Reason, cmp.Or(e.Code, "none"), e.IdempotencyKey, e.TraceID, e.Attempts, unknownOutcomes(e.Attempts, e.Ambiguous))
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
		{[]string{"LINE", "STATE", "EXPIRY BEFORE", "EXPIRY NOW", "MOVED"}, expiryRows(e.Expiries)},
		{[]string{"UNMATCHED ORDER", "CREATED", "NET"}, orderRows(e.Orders, e.Currency)},
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

// unknownOutcomes says how many of the attempts had an unknown outcome. An attempt more than were made
// is presumed after a restore.
func unknownOutcomes(attempts, n int64) (text string) {
	if known := min(attempts, n); known > 0 {
		text = fmt.Sprintf(", of which %d had an unknown outcome", known)
	}
	if n > attempts {
		text += "; another one may have been made before the ledger was restored"
	}
	return text
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
	if others := e.OthersSince(); others != 0 {
		known[0] += fmt.Sprintf(" (since then %s booked for other operations)", money(others, e.Currency))
	}
	if x := e.WalletNow; x != nil {
		known = append(known, fmt.Sprintf("now %s at the provider and %s in the ledger%s, read %s", money(x.ProviderCents, e.Currency), money(x.LedgerCents, e.Currency), apartText(x.ProviderCents-x.LedgerCents, e.Currency)+suspenseText(e), humanize.RelTime(x.At, now, "ago", "from now")))
	}
	return cmp.Or(strings.Join(known, ", "), "not known")
}

func apartText(cents int64, currency string) string {
	switch {
	case cents < 0:
		return ": " + money(-cents, currency) + " less at the provider"
	case cents > 0:
		return ": " + money(cents, currency) + " more at the provider"
	}
	return ": the same"
}

// suspenseText says how much the ledger has booked as charged for an operation with an unknown
// outcome. It returns "" if nothing is booked.
func suspenseText(e inspect.Evidence) string {
	cents := e.Suspense()
	if cents == 0 {
		return ""
	}
	return " (the ledger has booked " + money(cents, e.Currency) + " of this review as charged)"
}

func expiryRows(all []inspect.ExpiryEvidence) (rows [][]string) {
	for _, x := range all {
		rows = append(rows, []string{x.ProxyID, x.State, stamp(x.Before), stamp(x.Now), x.MovedText()})
	}
	return rows
}

func orderRows(all []inspect.OrderEvidence, currency string) (rows [][]string) {
	for _, x := range all {
		rows = append(rows, []string{x.OrderNo, x.CreatedAt.UTC().Format(time.RFC3339), centsOrUnknown(x.NetCents, currency)})
	}
	return rows
}

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

// reviewCorrect returns the CLI command that corrects an answer: it reverses the answer's
// charge, or books the difference.
func (a reviewCommands) reviewCorrect() *cobra.Command {
	x := desk.Recording{}
	var charge, refund *int64
	c := newCommand("correct OPERATION", "Correct an operator's earlier answer to a review", func(ctx context.Context, args []string) error {
		switch {
		case charge != nil && refund != nil:
			return usage("--charge and --refund exclude each other")
		case charge != nil && *charge == 0, refund != nil && *refund == 0:
			return usage("--charge and --refund take an amount over 0: leave them out to take the whole charge back")
		case x.Reason == "":
			return usage("say why: --reason TEXT is kept with your name")
		case charge != nil:
			x.Kind, x.Cents = fact.MovementCharge, *charge
		case refund != nil:
			x.Kind, x.Cents = fact.MovementRefund, *refund
		}
		var last int64
		err := a.withLedger(func(ctx context.Context, l *ledger.Ledger, _ string) (err error) {
			x.CorrectsSeq, last, err = answerOf(ctx, l, args[0], x.ProxyID)
			return err
		})(ctx, args)
		if err != nil {
			return err
		}
		return a.record(ctx, x, func(ctx context.Context, _ verbs.RecordAnswer) (undo []string, err error) {
			err = a.withLedger(func(ctx context.Context, l *ledger.Ledger, _ string) (err error) {
				undo, err = takeBacks(ctx, l, args[0], x.CorrectsSeq, last)
				return err
			})(ctx, args)
			return undo, err
		})
	})
	c.Long = "Books a correcting entry that is linked to the earlier answer to the review. Nothing is deleted.\n" +
		"Without an amount, it reverses the whole charge of that answer: for all its proxies, or with --line for that proxy only."
	f := c.Flags()
	f.Var(givenAmount{&charge}, "charge", "the provider charged this much more than the answer says, in cents (640) or in dollars with a decimal point (6.40)")
	f.Var(givenAmount{&refund}, "refund", "the provider charged this much less than the answer says; without --charge or --refund the whole charge is reversed")
	f.Var(givenAmount{&x.ConfirmCents}, "confirm-amount", "repeat the amount of --charge; required if the total would exceed both the expected amount and the earlier answer, if --charge exceeds the wallet, or if no amount is expected")
	f.StringVar(&x.ProxyID, "line", "", "correct only the answer for this proxy of the renewal")
	f.StringVar(&x.ID, "id", "", "id of this correction; corrections with the same id are booked once (default: a random id)")
	return signed(c, &x.By, &x.Reason, "")
}

// answerOf returns the journal row of an answer to an operation's review. If line is "", the
// operation must have only one answer. Otherwise line is a proxy's id, and the row is that of
// the last answer that covers this proxy. last is the operation's last row. id may also be the id of a
// command with one operation.
func answerOf(ctx context.Context, l *ledger.Ledger, id, line string) (seq, last int64, err error) {
	if id, err = operationOf(ctx, l, id); err != nil {
		return 0, 0, err
	}
	rows, err := l.RowsOf(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	answers := 0
	for _, row := range rows {
		decoded, err := fact.Decode(row.Type, []byte(row.Data))
		if err != nil {
			return 0, 0, err
		}
		if answer, ok := decoded.(fact.OperationResolved); ok && (line == "" || answer.ProxyID == line || answer.ProxyID == "") {
			seq, answers = row.Seq, answers+1
		}
		last = row.Seq
	}
	switch {
	case answers == 0 && line != "":
		return 0, 0, fmt.Errorf("no answer for %s of %s was booked: `perennial audit` lists the answers", line, id)
	case answers == 0:
		return 0, 0, fmt.Errorf("no answer to a review of %q was booked: `perennial audit` lists the answers", id)
	case answers > 1 && line == "":
		return 0, 0, usage("%s was answered line by line: use --line PROXY", id)
	}
	return seq, last, nil
}

// takeBacks returns the commands that take back the corrections of an answer that follow a row: one for
// each proxy.
func takeBacks(ctx context.Context, l *ledger.Ledger, id string, answer, after int64) (undo []string, err error) {
	of, err := operationOf(ctx, l, id)
	if err != nil {
		return nil, err
	}
	rows, err := l.RowsOf(ctx, of)
	for _, row := range rows {
		if row.Seq <= after {
			continue
		}
		decoded, err := fact.Decode(row.Type, []byte(row.Data))
		if err != nil {
			return nil, err
		}
		f, ok := decoded.(fact.LedgerRecorded)
		if !ok || f.Corrects != answer {
			continue
		}
		command := "reviews correct " + id
		if f.ProxyID != "" {
			command += " --line " + f.ProxyID
		}
		back := " --charge "
		if f.Movement == fact.MovementCharge {
			back = " --refund "
		}
		undo = append(undo, takeBack(row.Seq, command+back+fact.Decimal(f.AmountCents)))
	}
	return undo, err
}

// operationOf returns the id of an operation. The given id may also be the id of a command with
// one operation.
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

// auditCommand returns the command `audit list`, or its older form `reviews log`.
func (a reviewCommands) auditCommand(name string) *cobra.Command {
	var from, to string
	var since time.Duration
	c := newCommand(name, "List who changed what, and why", func(ctx context.Context, _ []string) error {
		p, err := period(from, to)
		if err != nil {
			return err
		}
		if since > 0 {
			if from != "" {
				return usage("--since and --from exclude each other")
			}
			p.From = time.Now().Add(-since)
		}
		list := a.listing("no entries", "TIME", "WHO", "WHAT", "ABOUT", "REASON")
		err = a.eachLedger(ctx, func(ctx context.Context, l *ledger.Ledger, account string) error {
			currency, err := l.Currency(ctx)
			if err != nil {
				return err
			}
			return l.Report().Decisions(ctx, p, func(d report.Decision) error {
				list.add(account, d, d.Time.UTC().Format(time.RFC3339), fact.Signed(d.By, d.User), joined(" ", d.What(), moneyOr("", d.Cents, currency)), d.About, d.Reason)
				return list.err
			})
		})
		return list.end(err)
	})
	c.Flags().StringVar(&from, "from", "", "first day, such as 2026-11-01, or a time (default: the first entry)")
	c.Flags().Var(span{&since}, "since", "only entries no older than this, such as 1d or 12h")
	c.Flags().StringVar(&to, "to", "", "end of the period, exclusive: a day or a time (default: after the last entry)")
	return c
}
