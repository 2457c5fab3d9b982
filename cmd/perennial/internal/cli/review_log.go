// `perennial audit`, which shows what operators changed and why.

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/report"
)

// auditCommand returns the command `audit list`, or its older form `reviews log`.
func (a reviewCommands) auditCommand(name string) *cobra.Command {
	var from, to string
	var since time.Duration
	c := &cobra.Command{
		Use: name, Short: "List who changed what, and why", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			list := a.listing("TIME", "WHO", "WHAT", "ABOUT", "REASON")
			err = a.eachLedger(cmd.Context(), func(ctx context.Context, l *ledger.Ledger, account string) error {
				currency, err := l.Currency(ctx)
				if err != nil {
					return err
				}
				return l.Report().Decisions(ctx, p, func(d report.Decision) error {
					what := []string{d.Fact, d.Outcome}
					if d.Cents != nil {
						what = append(what, money(*d.Cents, currency))
					}
					return list.add(account, d, d.Time.UTC().Format(time.RFC3339), fact.Signed(d.By, d.User), strings.Join(strings.Fields(strings.Join(what, " ")), " "), d.About, d.Reason)
				})
			})
			return list.end(err)
		},
	}
	c.Flags().StringVar(&from, "from", "", "first day, such as 2026-11-01, or a time (default: the first entry)")
	c.Flags().Var(span{&since}, "since", "only entries no older than this, such as 1d or 12h")
	c.Flags().StringVar(&to, "to", "", "end of the period, exclusive: a day or a time (default: after the last entry)")
	return c
}
