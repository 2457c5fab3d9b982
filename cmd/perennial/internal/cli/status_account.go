// `perennial status` without an id, which shows a summary of each account and the latest
// operations.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/inspect"
	"perennial/queue/service"
)

// lastShown is the number of operations that are shown after the accounts.
const lastShown = 10

// showAccounts prints a summary of every selected account, then the latest operations. If no
// runner answers, it shows what the ledger contains, and the error has the exit code
// ExitUnreachable.
func (a statusCommands) showAccounts(ctx context.Context) error {
	var last operationRows
	latest := verbs.ListRequest{All: true, Limit: lastShown}
	err := a.eachAccount(ctx, func(one *app, account string) error {
		v, answered, err := askRunning(ctx, one, verbs.AtAGlance, verbs.SummaryRequest{})
		if _, wrong := errors.AsType[*config.NotConfiguredError](err); wrong {
			return err
		}
		if !answered {
			silent := &exitError{ExitUnreachable, cmp.Or(err, service.ErrNoRunner)}
			if v, err = (statusCommands{one}).summaryOfLedger(ctx); err != nil {
				return silent
			}
			v.NotReady = "no runner answers"
			err = a.printSummary(v)
			if a.output != "json" {
				err = errors.Join(err, last.readLedger(ctx, one, account, latest))
			}
			return errors.Join(err, silent)
		}
		if err == nil {
			err = a.printSummary(v)
		}
		if err != nil || a.output == "json" {
			return err
		}
		return last.read(ctx, one, account, latest)
	})
	if len(last) == 0 {
		return err
	}
	_, blank := fmt.Fprintln(a.stdout)
	return errors.Join(blank, a.printOperations(last, lastShown), err)
}

// summaryOfLedger returns the account's summary from its ledger file.
func (a statusCommands) summaryOfLedger(ctx context.Context) (verbs.Summary, error) {
	l, account, err := a.openLedger(ctx)
	if err != nil {
		return verbs.Summary{}, err
	}
	defer func() { _ = l.Close() }()
	return daemon.Summarize(ctx, l, account, time.Now())
}

// printSummary prints an account's state, operator tasks, expiring proxies, runway and
// books.
func (a statusCommands) printSummary(v verbs.Summary) error {
	if a.output == "json" {
		return printJSON(a.stdout, v)
	}
	state := "ready"
	if v.Role != "" {
		state += ", " + v.Role
	}
	if !v.Ready {
		state = "NOT READY: " + strings.ReplaceAll(v.NotReady, "\n", "; ")
	}
	rows := [][]string{{"state", state}}
	if v.ConfigChanged != "" {
		rows = append(rows, []string{"configuration", v.ConfigChanged})
	}
	for _, p := range v.Paused {
		rows = append(rows, []string{"paused", inspect.PauseText(p)})
	}
	rows = append(rows, []string{"needs you", needsText(v.Needs)}, []string{"expiring", expiringText(v.Expiring, v.Schedules)}, []string{"runway", runwayText(v)}, []string{"books", booksText(v.Books, time.Now())})
	return a.table([]string{"ACCOUNT", v.Account}, rows)
}

// needsText lists what needs an operator. Each entry has the CLI command that shows it.
func needsText(n verbs.Needs) string {
	all := n.Parts()
	parts := make([]string, 0, len(all))
	for _, p := range all {
		parts = append(parts, fmt.Sprintf("%s (perennial %s)", p.Text(), p.Command))
	}
	switch {
	case len(parts) > 0 && n.Plans == nil:
		return fmt.Sprintf("%s: %s; plans, skipped proxies and proxies in no schedule are not known without a runner", humanize.Comma(n.Total), strings.Join(parts, ", "))
	case len(parts) > 0:
		return fmt.Sprintf("%s: %s", humanize.Comma(n.Total), strings.Join(parts, ", "))
	case n.Plans == nil:
		return "not known without a runner; the ledger has no operation in review or on hold"
	}
	return "nothing"
}

func expiringText(e *verbs.Expiring, schedules *int64) string {
	if e == nil {
		return "not known: no listing of the proxies is complete yet"
	}
	text := fmt.Sprintf("%s within 24 h, %s within 72 h, %s within 7 days, of %s", humanize.Comma(e.Day), humanize.Comma(e.ThreeDays), humanize.Comma(e.Week), humanize.Comma(e.All))
	if e.Expired > 0 {
		text += fmt.Sprintf("; %s expired", humanize.Comma(e.Expired))
	}
	if e.Unreadable > 0 {
		text += fmt.Sprintf("; %s cannot be read (perennial schedules plan SCHEDULE)", humanize.Comma(e.Unreadable))
	}
	if schedules != nil && *schedules == 0 && e.All > 0 {
		text += "; NO SCHEDULE RENEWS THEM: add one to the configuration, or see `perennial renew --help`"
	}
	return text
}

func runwayText(v verbs.Summary) string {
	r := v.Runway
	basis := map[string]string{"forecast": "by the schedules' forecast", "spending": "as spent in the last 7 days"}
	switch {
	case r == nil && v.Role == "":
		return "not known without a runner"
	case r == nil:
		return "not known: too little was spent to tell, or prices are not known"
	case r.More:
		return fmt.Sprintf("more than %d days (%s)", r.Days, basis[r.Basis])
	}
	text := english.Plural(r.Days, "day", "")
	if r.RunsOutOn != "" {
		text += ", until " + r.RunsOutOn
	}
	if r.Unpriced > 0 {
		text += fmt.Sprintf(", earlier with %s of unknown price", english.Plural(r.Unpriced, "renewal", ""))
	}
	return text + " (" + basis[r.Basis] + ")"
}

func booksText(b verbs.Books, now time.Time) string {
	text := "wallet " + money(b.WalletCents, b.Currency)
	if b.SuspenseCents != 0 {
		text += ", and " + money(b.SuspenseCents, b.Currency) + " in suspense"
	}
	switch {
	case b.ComparedAt == nil:
		return text + "; no comparison with the provider is known"
	case b.Agree == nil:
		text += "; could not be compared to the cent"
	case *b.Agree && b.ChangedSince:
		text += "; agreed with the provider, and has changed since"
	case *b.Agree:
		text += "; agrees with the provider"
	case b.ChangedSince:
		text += "; DIFFERED from the provider, and has changed since: `perennial ledger reconcile` compares again"
	default:
		text += "; DIFFERS from the provider"
	}
	return text + ", compared " + humanize.RelTime(*b.ComparedAt, now, "ago", "from now")
}
