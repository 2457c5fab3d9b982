// `perennial ledger`: opening the file, the balance, totals and entries.

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

func (a ledgerCommands) ledgerCommand() *cobra.Command {
	c := &cobra.Command{Use: "ledger", Short: "Balances, entries, statements and reconciliation"}
	c.AddCommand(a.ledgerBalance(), a.ledgerEntries(), a.ledgerVerify(), a.ledgerExport(), a.ledgerStatement(),
		a.ledgerReconcile(), a.ledgerRecord(), a.ledgerRebuild(), a.ledgerBackup(), a.ledgerRestore(), a.ledgerArchive())
	return c
}

// openLedger opens the account's ledger file for reading. A runner may be using the ledger.
func (a *app) openLedger(ctx context.Context) (*ledger.Ledger, string, error) {
	return a.openLedgerAs(ctx, checkedSchema)
}

// schemaMode determines whether a ledger file with a changed schema is accepted.
type schemaMode bool

const (
	checkedSchema schemaMode = false
	anySchema     schemaMode = true // accepts any schema, to inspect the file
)

// openLedgerAs is like openLedger, but the caller selects which schemas are accepted.
func (a *app) openLedgerAs(ctx context.Context, mode schemaMode) (*ledger.Ledger, string, error) {
	c, account, err := a.configured()
	if err != nil {
		return nil, "", err
	}
	l, err := ledger.Open(ctx, ledger.Config{Path: c.LedgerPath(account), Clock: time.Now, ReadOnly: true, Inspect: bool(mode), Follows: c.NATS.External()})
	return l, account, err
}

// withLedger returns a function that calls do with the account's ledger.
func (a *app) withLedger(do func(ctx context.Context, l *ledger.Ledger, account string) error) func(*cobra.Command, []string) error {
	return a.withLedgerAs(checkedSchema, do)
}

// eachLedger calls do with the ledger of every selected account. If only one account is
// selected, it passes "" as account.
func (a *app) eachLedger(ctx context.Context, do func(ctx context.Context, l *ledger.Ledger, account string) error) error {
	return a.eachAccount(ctx, func(one *app, account string) (err error) {
		l, _, err := one.openLedger(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		return do(ctx, l, account)
	})
}

// withLedgerAs is like withLedger, but the caller selects which schemas are accepted.
func (a *app) withLedgerAs(mode schemaMode, do func(ctx context.Context, l *ledger.Ledger, account string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) (err error) {
		l, account, err := a.openLedgerAs(cmd.Context(), mode)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		return do(cmd.Context(), l, account)
	}
}

func (a ledgerCommands) ledgerBalance() *cobra.Command {
	var by string
	var limit int
	c := &cobra.Command{
		Use: "balance", Short: "Show wallet, charges, refunds, and suspense (charges whose result is unknown)", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, known := countedBy[by]; by != "" && !known {
				return usage("--by %s: use order, renewal, ip, label or day", by)
			}
			if by != "" {
				return a.listTotals(cmd.Context(), by, limit)
			}
			return a.eachAccount(cmd.Context(), func(one *app, _ string) error {
				return one.withLedger(func(ctx context.Context, l *ledger.Ledger, account string) error {
					p, err := l.Money.Position(ctx, account)
					if err != nil {
						return err
					}
					return a.printBalance(p.WithUnbooked())
				})(cmd, nil)
			})
		},
	}
	c.Flags().StringVar(&by, "by", "", "break spending down: by order, renewal, ip, label or day")
	limitFlag(c, &limit, 1000, "with --by: how many")
	return c
}

// countedBy maps each grouping to what tables.BookTotal counts for it, as a table heading.
var countedBy = map[string]string{"order": "PROXIES", "renewal": "PROXIES", "ip": "RENEWALS", "label": "COMMANDS", "day": "CHARGES"}

func (a ledgerCommands) listTotals(ctx context.Context, by string, limit int) error {
	heading := strings.ToUpper(by)
	if by == "day" {
		heading += " (UTC)"
	}
	list := a.listing(heading, countedBy[by], "CHARGED", "REFUNDED", "OUTSIDE", "NET")
	return list.end(a.eachLedger(ctx, func(ctx context.Context, l *ledger.Ledger, account string) error {
		currency, err := l.Currency(ctx)
		if err != nil {
			return err
		}
		totals, err := l.Money.TotalsBy(ctx, by, limit)
		if err != nil {
			return err
		}
		for _, x := range totals {
			if err := list.add(account, x, x.Subject, countText(x), money(x.ChargedCents, currency), money(x.RefundedCents, currency),
				money(x.RecordedCents, currency), money(x.NetCents, currency)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// countText returns the count of a total. It returns "" for the remainder, whose name
// includes the count. The count is not known for an order that an operator resolved, because
// no reply from the provider gave the number of proxies.
func countText(x tables.BookTotal) string {
	switch {
	case x.Rest:
		return ""
	case x.Count == 0 && x.ChargedCents > 0:
		return "not known"
	}
	return strconv.FormatInt(x.Count, 10)
}

func (a ledgerCommands) printBalance(b tables.Balance) error {
	if a.output == "json" {
		return printJSON(a.stdout, b)
	}
	rows := [][]string{
		{"funding", money(b.FundingCents, b.Currency)},
		{"external", money(b.ExternalCents, b.Currency)},
		{"charged (gross)", money(b.ChargedCents, b.Currency)},
		{"  of which suspense", money(b.SuspenseCents, b.Currency)},
		{"refunded", money(b.RefundedCents, b.Currency)},
		{"net spent", money(b.ChargedCents-b.RefundedCents, b.Currency)},
		{"wallet", money(b.WalletCents, b.Currency)},
		{"journal head", b.Head.String()},
	}
	if u := b.Unbooked; u != nil && u.Operations > 0 {
		rows = append(rows, []string{"not booked yet", unbookedText(*u, b.Currency)})
	}
	return a.table([]string{"ACCOUNT", b.Account}, rows)
}

// unbookedText formats the estimated cost of operations that are not booked yet. It never
// shows an unknown price as zero.
func unbookedText(u tables.Unbooked, currency string) string {
	return fmt.Sprintf("%s by %d operations (estimate)", fact.Sum{Cents: u.EstimateCents.Or(0), Lacks: u.Unknown}.Text(currency), u.Operations)
}

func (a ledgerCommands) ledgerEntries() *cobra.Command {
	var from int64
	var limit int
	c := &cobra.Command{
		Use: "entries", Short: "List postings in the order they were booked", Args: cobra.NoArgs,
		RunE: a.withLedger(func(ctx context.Context, l *ledger.Ledger, _ string) error {
			if a.output == "json" {
				out := bufio.NewWriter(a.stdout)
				next, err := l.Money.EachPosting(ctx, from, limit, func(p tables.Posting) error { return printJSON(out, p) })
				return errors.Join(err, out.Flush(), a.entriesContinue(next))
			}
			var entries []tables.Posting
			next, err := l.Money.EachPosting(ctx, from, limit, func(p tables.Posting) error {
				entries = append(entries, p)
				return nil
			})
			if err != nil {
				return err
			}
			currency, err := l.Currency(ctx)
			if err != nil {
				return err
			}
			return errors.Join(a.printPostings(entries, currency), a.entriesContinue(next))
		}),
	}
	wholeVar(c.Flags(), &from, "from", 0, "start at this journal sequence")
	limitFlag(c, &limit, 1000, "how many")
	return c
}

// entriesContinue prints how to continue a list after its limit. next is 0 if the list is
// complete.
func (a ledgerCommands) entriesContinue(next int64) error {
	if next == 0 {
		return nil
	}
	_, err := fmt.Fprintf(a.stderr, "there are more entries: continue with --from %d, or ask for more with --limit\n", next)
	return err
}

// kindText returns the kind of an entry and, for a correction, the row that it corrects.
func kindText(p tables.Posting) string {
	if p.CorrectsSeq == 0 {
		return p.Kind
	}
	return fmt.Sprintf("%s, corrects %d", p.Kind, p.CorrectsSeq)
}

func (a ledgerCommands) printPostings(entries []tables.Posting, currency string) error {
	rows := make([][]string, 0, len(entries))
	for _, p := range entries {
		about := p.OrderNo
		if p.ProxyID != "" {
			about = p.ProxyID
		}
		rows = append(rows, []string{
			strconv.FormatInt(p.Seq, 10), p.Time.Format(time.RFC3339), kindText(p), p.Account, money(p.AmountCents, currency), p.Operation, about,
			fact.Signed(p.By, p.User), p.Reason,
		})
	}
	return a.table([]string{"SEQ", "TIME", "KIND", "ACCOUNT", "AMOUNT", "OPERATION", "ABOUT", "BY", "REASON"}, rows)
}
