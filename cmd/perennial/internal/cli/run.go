// `perennial run`: the runner's process and its ready line.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
)

func (a setupCommands) runCommand() *cobra.Command {
	var data, natsListen, http, metricsToken string
	var refill bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Start the runner",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(a.configFile)
			if err != nil {
				return err
			}
			if err := c.CheckLists(""); err != nil {
				return err
			}
			c.DataDir = cmp.Or(data, c.DataDir)
			c.NATS.Listen = cmp.Or(natsListen, c.NATS.Listen)
			c.HTTP.Listen = cmp.Or(http, c.HTTP.Listen)
			if metricsToken != "" {
				if c.HTTP.MetricsTokenFile, err = filepath.Abs(metricsToken); err != nil {
					return err
				}
			}
			c.RefillEvents = refill
			return a.run(cmd.Context(), c)
		},
	}
	c.Flags().StringVar(&data, "data", "", "data directory (default: data_dir of the configuration, else perennial-data)")
	c.Flags().StringVar(&natsListen, "nats-listen", "", "address of the embedded NATS server; port 0 chooses a free port")
	c.Flags().StringVar(&http, "http", "", "address of the HTTP server for health, metrics and the web UI; port 0 chooses a free port")
	c.Flags().StringVar(&metricsToken, "metrics-token-file", "", "file with the token that /metrics requires, mode 0600")
	c.Flags().BoolVar(&refill, "refill-events", false, "publish the whole ledger again, to an events stream that is empty or has lost rows")
	return c
}

// run serves until ctx ends, then drains and returns nil.
func (a setupCommands) run(ctx context.Context, c *config.Config) error {
	ctx, stop := serving(ctx)
	defer stop()
	log := a.logger()
	if !a.verbose {
		log.SetLevel(logrus.InfoLevel)
	}
	log.WithFields(logrus.Fields{"version": config.Version, "commit": config.Commit(), "config": c.File, "data_dir": c.DataDir}).Info("perennial starts")
	h, err := daemon.Start(ctx, c, log)
	if err != nil {
		return err
	}
	defer log.Info("perennial has stopped")
	defer h.Close()
	defer context.AfterFunc(ctx, func() { log.Info("perennial stops: operations in progress are finished first") })()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	h.WaitStarted(ctx)
	line := h.Ready()
	if err := a.announce(line, banner(line)); err != nil {
		cancel()
		return errors.Join(err, <-done)
	}
	return <-done
}

func banner(l daemon.ReadyLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Perennial runs. Stop it with Ctrl-C: it drains first.\n\n")
	fmt.Fprintf(&b, "  commands, events  %s  (account %s)\n", l.NATS, strings.Join(l.Accounts, ", "))
	fmt.Fprintf(&b, "  pages             %s  (`perennial web login` prints a link that opens them)\n  data              %s\n", l.HTTP, l.Data)
	if l.Sandbox != "" {
		fmt.Fprintf(&b, "  sandbox           %s  (nothing is configured: no real money is spent)\n", l.Sandbox)
	}
	return b.String()
}
