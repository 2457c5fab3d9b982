package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/journal"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/jobs/command"
	"perennial/jobs/desk"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

func (a ledgerCommands) ledgerReconcile() *cobra.Command {
	return newCommand("reconcile", "Compare the books with the provider", func(ctx context.Context, _ []string) error {
		x, err := a.reconcileNow(ctx)
		if err != nil {
			return err
		}
		if err := a.printReconciliation(x); err != nil {
			return err
		}
		switch {
		case x.Agrees():
			return nil
		case x.OK == nil && a.output == "json":
			return &exitError{ExitPerson, errors.New(uncompared(x))}
		case x.OK == nil:
			return &exitError{code: ExitPerson}
		}
		return &exitError{code: ExitFailed}
	})
}

const reconcileNotice = "comparing: the provider's wallet, orders and renewed proxies are read one by one, within rate_per_second; it may take minutes"

// reconcileNow asks the runner to reconcile. If no runner answers, it reconciles itself.
func (a ledgerCommands) reconcileNow(ctx context.Context) (reconcile.Reconciliation, error) {
	ctx, cancel := context.WithTimeout(ctx, daemon.ReconcileTimeout)
	defer cancel()
	defer a.sayWhatTakesTime(reconcileNotice)()
	if x, answered, err := askRunning(ctx, a.app, verbs.Reconcile, struct{}{}); answered {
		return x, err
	}
	return a.reconcileAlone(ctx)
}

// reconcileAlone reconciles without a runner. It opens the ledger for reading, and reads the
// provider with the configured credentials. It writes nothing.
func (a ledgerCommands) reconcileAlone(ctx context.Context) (x reconcile.Reconciliation, err error) {
	l, account, err := a.openLedger(ctx)
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	c, err := config.Load(a.configFile)
	if err != nil {
		return x, err
	}
	if c.Embedded {
		return x, &exitError{ExitUnreachable, errors.New("no `perennial run` answers, and its embedded sandbox is only there while it runs\nstart `perennial run`")}
	}
	client, err := a.provider()
	if err != nil {
		return x, err
	}
	defer client.Close()
	binding, err := l.Binding(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		return x, errors.New("the ledger is not opened yet: its opening balance is booked by the first `perennial run`")
	}
	if err != nil {
		return x, err
	}
	if err := sameAccount(ctx, client, binding); err != nil {
		return x, err
	}
	share := rate.NewLimiter(rate.Limit(c.Accounts[account].RatePerSecond), 1)
	x, err = reconcile.NewReconciler(reconcile.ReconcilerConfig{
		Account: account, Ledger: l, Statements: client, Binding: binding, Clock: time.Now, Pass: share.Wait,
	}).Reconcile(ctx, nil)
	if err != nil {
		return x, fmt.Errorf("%w: no `perennial run` answers, and the provider could not be asked either: %w", errUnreachable, err)
	}
	x.Notes = append(x.Notes, "no `perennial run` answers: this saw one moment from outside, and nothing was recorded of it")
	return x, nil
}

func sameAccount(ctx context.Context, client jobs.Provider, b fact.Binding) error {
	account, err := client.Account(ctx)
	if err != nil {
		return fmt.Errorf("%w: no `perennial run` answers, and the provider could not be asked either: %w", errUnreachable, err)
	}
	if account.AccountID != b.AccountID || string(client.Environment()) != b.Environment {
		return fmt.Errorf("the ledger belongs to account %s of %s, the credentials to %s of %s\ncheck app_id and secret", b.AccountID, b.Environment, account.AccountID, client.Environment())
	}
	return nil
}

func (a ledgerCommands) printReconciliation(x reconcile.Reconciliation) error {
	if a.output == "json" {
		return printJSON(a.stdout, x)
	}
	w := x.Wallet
	fmt.Fprintf(a.stdout, "wallet    provider %s, book %s, %s\n", money(w.ProviderCents, x.Currency), money(w.BookCents, x.Currency), boundsText(x))
	fmt.Fprintf(a.stdout, "compared  orders: %d; renewals (operations): %d; renewed proxies whose new expiry was read: %d; orders made elsewhere: %d; left to the next pass: %d\n",
		x.Compared.Orders, x.Compared.Renewals, x.Compared.Expiries, x.Compared.Outside, x.Compared.Left)
	const shown = 5
	for i, n := range x.Notes {
		if i == shown {
			fmt.Fprintf(a.stdout, "note      and %d more of the kind: -o json has them\n", len(x.Notes)-shown)
			break
		}
		fmt.Fprintf(a.stdout, "note      %s\n", printable(n))
	}
	switch {
	case x.Agrees():
		_, err := fmt.Fprintln(a.stdout, "books and provider agree")
		return err
	case x.OK == nil:
		_, err := fmt.Fprintln(a.stdout, uncompared(x))
		return err
	}
	rows := make([][]string, 0, len(x.Findings))
	for _, f := range x.Findings {
		rows = append(rows, []string{f.Kind, f.Amount(x.Currency), joined(" ", f.OrderNo, f.OperationID, f.ProxyID), f.Explanation})
	}
	return a.table([]string{"FINDING", "AMOUNT", "ABOUT", "EXPLANATION"}, rows)
}

func uncompared(x reconcile.Reconciliation) string {
	if !x.Wallet.Late {
		return "not compared: the cost of " + daemon.FirstFew(x.Wallet.Unknown) + " is not known, so nothing can be said of the wallet\nanswer what needs review: perennial reviews list"
	}
	off := x.Wallet.ProviderCents - x.Wallet.BookCents
	text := fmt.Sprintf("not compared: the provider's wallet is %s off, but money was booked in the last ten minutes, which it may not show yet: compare again in ten minutes; a top-up is recorded with `perennial ledger record --kind top-up`",
		money(off, x.Currency))
	if len(x.Wallet.Answers) > 0 {
		text += "\nif an answer is wrong, correct it with `perennial reviews correct ID`: " + reconcile.AnswersText(x.Wallet.Answers)
	}
	return text
}

// boundsText says how far the wallet differs from the books. While operations are in
// progress, it gives the range in which the wallet may be.
func boundsText(x reconcile.Reconciliation) string {
	if off := x.Wallet.ProviderCents - x.Wallet.BookCents; x.Quiet && off != 0 {
		return "they differ by " + money(off, x.Currency)
	}
	if x.Quiet {
		return "to the cent"
	}
	return fmt.Sprintf("between %s and %s: %s in progress",
		moneyOr("any", x.Wallet.LowCents, x.Currency), moneyOr("any", x.Wallet.HighCents, x.Currency), english.Plural(len(x.Wallet.UnderWay), "operation", ""))
}

func (a ledgerCommands) ledgerRecord() *cobra.Command {
	var x desk.Recording
	c := newCommand("record", "Record a payment that the provider did not report: a top-up, outside spending, a charge or a refund", func(ctx context.Context, _ []string) error {
		if strings.TrimSpace(x.Reason) == "" {
			return usage("say why: --reason TEXT is kept with your name")
		}
		return a.record(ctx, x, func(_ context.Context, r verbs.RecordAnswer) ([]string, error) {
			return []string{takeBack(r.Seq, fmt.Sprintf("ledger record --corrects %d", r.Seq))}, nil
		})
	})
	f := c.Flags()
	f.StringVar(&x.Kind, "kind", "", "top-up, external (spent outside Perennial), charge or refund (of an operation or order)")
	f.Var(amountFlag{&x.Cents}, "cents", "how much, in cents (640) or in dollars with a decimal point (6.40); above 0")
	f.StringVar(&x.ID, "id", "", "id of this record; records with the same id are booked once (default: a random id)")
	f.StringVar(&x.OrderNo, "order", "", "the order that was charged or refunded")
	f.StringVar(&x.OperationID, "operation", "", "the operation that was charged or refunded, if it has no order")
	f.StringVar(&x.ProxyID, "line", "", "the proxy of a renewal that was charged or refunded")
	wholeVar(f, &x.CorrectsSeq, "corrects", 0, "the journal row to reverse, which is either a record or an answer to a review; without --kind and --cents, its whole amount is reversed")
	f.Var(givenAmount{&x.ConfirmCents}, "confirm-amount", "with --corrects and --kind charge: repeat --cents when asked")
	return signed(c, &x.By, &x.Reason, "")
}

func takeBack(row int64, command string) string {
	return fmt.Sprintf("row %d of the journal; to take it back: perennial %s --reason TEXT", row, command)
}

// record books money that an operator records. It prints the result and the CLI commands that
// reverse it. The undo function returns their lines.
func (a *app) record(ctx context.Context, x desk.Recording, undo func(context.Context, verbs.RecordAnswer) ([]string, error)) error {
	if err := x.Check(); err != nil {
		return usage("%w", err)
	}
	if x.IDMade = x.ID == ""; x.IDMade {
		x.ID = "cli-" + strings.ToLower(rand.Text())
	}
	done, err := a.recordNow(ctx, x)
	if err != nil {
		return err
	}
	if a.output == "json" {
		return printJSON(a.stdout, verbs.Changed{Changed: done.Changed, Warning: done.Warning, Record: done.Record})
	}
	if done.Warning != "" {
		fmt.Fprintln(a.stderr, "warning: "+done.Warning)
	}
	r := done.Record
	if r == nil { // runners of earlier versions return no record
		r = &verbs.RecordAnswer{Kind: x.Kind, Cents: x.Cents}
	}
	what := "recorded"
	if r.Kind == fact.MovementRefund || r.Kind == fact.MovementCharge {
		what = "booked"
	}
	var lines []string
	if done.Changed == 0 {
		what = "was recorded before under this id, and is not booked again"
	} else if r.Seq > 0 {
		lines, err = undo(ctx, *r)
	}
	kind := r.Kind
	if back := (fact.LedgerRecorded{Movement: r.Kind, Account: r.Account}).TakesBack(); back != "" && what == "recorded" {
		what, kind = "taken back", back
	}
	first := fmt.Sprintf("%s: %s %s", what, kind, money(r.Cents, done.Currency))
	if done.Changed > 0 && done.WalletCents != nil {
		first += "; the ledger's wallet has " + money(*done.WalletCents, done.Currency)
	}
	fmt.Fprintln(a.stdout, strings.Join(append([]string{first}, lines...), "\n"))
	return err
}

// recordNow asks the runner to book a record. If no runner answers, it writes to the ledger
// file itself. It locks the data directory first, so that there is only one writer.
func (a *app) recordNow(ctx context.Context, x desk.Recording) (done verbs.Changed, err error) {
	if done, answered, err := askRunning(ctx, a, verbs.Record, x); answered {
		return done, perhapsRecorded(err, x.ID)
	}
	c, account, err := a.configured()
	if err != nil {
		return done, err
	}
	if !config.Exists(c.LedgerPath(account)) {
		return done, fmt.Errorf("there is no ledger in %s\nis --config or the data directory right? the first `perennial run` makes it", filepath.Dir(c.LedgerPath(account)))
	}
	unlock, err := lockData(c, account)
	if refused, ok := errors.AsType[*exitError](err); ok {
		return done, refused
	}
	if err != nil {
		return done, &exitError{ExitUnreachable, fmt.Errorf("no `perennial run` answers, and the ledger cannot be written beside one: %w", err)}
	}
	defer func() { err = errors.Join(err, unlock()) }()
	alone := &journal.Alone{Path: c.LedgerPath(account), Account: account}
	if a.externalNATS(c) {
		h, err := a.openHistoryLocked(c, account)
		if err != nil {
			return done, err
		}
		defer h.close()
		release, err := h.alone(ctx, "record")
		if err != nil {
			return done, err
		}
		defer release()
		alone = h.writes(alone.Path)
	}
	l, err := alone.Open(ctx)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, alone.Close()) }()
	done, err = daemon.Record(ctx, l, x, func(ctx context.Context, no string) (upstream.Order, error) {
		client, err := a.provider()
		if err != nil {
			return upstream.Order{}, err
		}
		defer client.Close()
		return client.Order(ctx, no)
	})
	return done, perhapsRecorded(err, x.ID)
}

// perhapsRecorded handles an error after which the record may or may not be booked. It adds how
// to try again without booking the record twice. A refusal stays unchanged, because it contains
// its own advice.
func perhapsRecorded(err error, id string) error {
	_, answered := errors.AsType[*exitError](err)
	refused, ok := errors.AsType[*command.RefusedError](err)
	if ok && refused.Unconfirmed {
		return &exitError{ExitUsage, err}
	}
	if err == nil || answered || ok {
		return err
	}
	return &unsureError{fmt.Errorf("%w\nto try again without booking twice: the same command with --id %s", err, id)}
}
