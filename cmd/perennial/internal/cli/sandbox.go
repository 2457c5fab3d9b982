// `perennial sandbox`, which serves the customer API locally.

package cli

import (
	"time"

	"github.com/spf13/cobra"

	"perennial/upstream/sandbox"
)

// SandboxReadyLine is the JSON line that `sandbox` prints when it is ready.
type SandboxReadyLine struct {
	Sandbox    string `json:"sandbox"`
	Production string `json:"production"`
	Control    string `json:"control"`
}

func (a developCommands) sandboxCommand() *cobra.Command {
	var o sandbox.Options
	var fixture string
	c := &cobra.Command{
		Use:   "sandbox",
		Short: "Run a local copy of the provider's API",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := serving(cmd.Context())
			defer stop()
			o.Fixture = sandbox.DefaultFixture()
			if fixture != "" {
				var err error
				if o.Fixture, err = sandbox.LoadFixture(fixture); err != nil {
					return &exitError{ExitUsage, err}
				}
			}
			o.Clock, o.Log = time.Now, a.logger()
			server, err := sandbox.Start(ctx, o)
			if err != nil {
				return err
			}
			keys := ""
			if fixture == "" {
				keys = "\n  App ID      " + sandbox.DemoSandboxAppID + ", API Secret " + sandbox.DemoSandboxSecret + "  (of the demonstration account; `perennial init --sandbox` writes them)"
			}
			line := SandboxReadyLine{Sandbox: server.SandboxURL(), Production: server.ProductionURL(), Control: server.ControlURL()}
			err = a.announce(line, "The sandbox serves the customer API.\n\n  sandbox     "+line.Sandbox+"\n  production  "+line.Production+
				"  (a local copy: no real money)\n  control     "+line.Control+keys)
			if err == nil {
				<-ctx.Done()
			}
			return server.Close()
		},
	}
	f := c.Flags()
	f.StringVar(&o.Listen, "listen", "127.0.0.1:0", "address of the sandbox environment")
	f.StringVar(&o.ListenProduction, "listen-production", "127.0.0.1:0", "address of the production environment")
	f.StringVar(&o.Control, "control", "127.0.0.1:0", "address of the control interface, on loopback")
	f.StringVar(&o.DB, "db", ":memory:", "where to keep the state: a file, or :memory:")
	f.StringVar(&fixture, "fixture", "", "YAML or JSON file with accounts, offers and proxies (default: a demonstration account)")
	f.StringVar(&o.Charges, "charges", "", "the charge log: a file to which each charge and refund is appended before the reply is sent")
	f.Float64Var(&o.RequestsPerSecond, "rate", 0, "requests per second that each key may send; more are rate_limited, with Retry-After (default: no limit)")
	wholeVar(f, &o.MaxConnections, "max-connections", 0, "open connections of each environment; above this number the longest idle connection is closed (default 4096)")
	f.BoolVar(&o.RefuseScriptAgents, "refuse-script-agents", false, "refuse requests without a User-Agent or with the default User-Agent of a scripting tool, as a security policy may")
	f.StringSliceVar(&o.Moods, "moods", nil, "quirks that the API document permits: all, or names from docs/sandbox.md (default: none)")
	f.DurationVar(&o.AsyncDelay, "async-delay", time.Second, "delivery time of an order that is not delivered immediately")
	f.DurationVar(&o.DelayedDelay, "delayed-delay", 2*time.Second, "delivery time of an order with --scenario delayed")
	wholeVar(f, &o.MoodSeed, "mood-seed", 0, "random seed of the moods")
	f.BoolVar(&o.ChargesNoSync, "charges-nosync", false, "do not sync the charge log (for benchmarks)")
	return c
}
