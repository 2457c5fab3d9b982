// `perennial proxies retire`, which excludes proxies from all schedules, so that they expire.

package cli

import (
	"fmt"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/verbs"
)

func (a providerCommands) proxiesRetire() *cobra.Command {
	var q verbs.RetireRequest
	c := &cobra.Command{
		Use: "retire ID…", Short: "Stop renewing proxies", Args: cobra.RangeArgs(1, verbs.MaxRetired),
		Long: "Takes proxies out of every schedule. Nothing else changes: the proxies work until they expire, and a command that lists a retired proxy still renews it. --undo lets schedules renew the proxies again.",
		RunE: func(cmd *cobra.Command, args []string) error {
			q.ProxyIDs = args
			changed, err := askOnce(cmd.Context(), a.app, verbs.Retire, q)
			done := "schedules let %s expire"
			if q.Undo {
				done = "schedules renew %s again"
			}
			return a.printChange(changed, fmt.Sprintf(done, english.Plural(changed.Changed, "more proxy", "more proxies")), err)
		},
	}
	signed(c, &q.By, &q.Reason, "who does it", askedFor)
	c.Flags().BoolVar(&q.Undo, "undo", false, "let schedules renew them again")
	return c
}
