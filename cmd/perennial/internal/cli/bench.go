package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/bench"
	"perennial/cmd/perennial/internal/config"
	"perennial/queue"
)

func (a developCommands) benchCommand() *cobra.Command {
	o := bench.Options{Stderr: a.stderr, Write: func(path string, write func(io.Writer) error) error { return a.outputs().write(path, 0o600, write) }}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Benchmark the runner against a bare HTTP client",
		Long:  benchLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Log = a.logger()
			if cmd.Flags().Changed("nats") { // not PERENNIAL_NATS, which selects the server for commands rather than for a benchmark
				o.NATS = &config.NATS{URL: a.natsURL}
			}
			if err := o.Check(); err != nil {
				return &exitError{ExitUsage, err}
			}
			if o.NATS != nil {
				c, err := config.Load(a.configFile)
				if err != nil {
					return err
				}
				o.NATS.CredsFile = c.NATS.CredsFile
				if o.Queue, err = queue.Connect(queue.ConnectConfig{URL: a.natsURL, CredsFile: c.NATS.CredsFile, Name: bench.OuterAccount, Log: o.Log}); err != nil {
					return fmt.Errorf("%w: %w", errUnreachable, err)
				}
				defer o.Queue.Close()
			}
			out, err := bench.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := a.printBench(out); err != nil {
				return err
			}
			if !out.Agree() {
				return errors.New("the books do not agree with the provider's wallet")
			}
			return nil
		},
	}
	f := c.Flags()
	wholeVar(f, &o.Commands, "commands", 20000, "how many commands")
	f.StringVar(&o.Kind, "kind", "renew", "renew or order")
	wholeVar(f, &o.Concurrency, "concurrency", 64, "concurrent requests of an account, as in its configuration")
	f.Var(atLeastOne{&o.InFlight}, "in-flight", "maximum number of unfinished commands of an account (default 16 times the concurrency, at least 512)")
	f.BoolVar(&o.Drain, "drain", false, "also measure how fast the runner drains a queue that was full when it started")
	wholeVar(f, &o.Accounts, "accounts", 1, "accounts that share the commands, all on one runner")
	wholeVar(f, &o.Rows, "rows", 0, "rows that each journal has before the measurement")
	f.StringVar(&o.Profiles, "profile", "", "write profiles of the runner's parts to this directory: CPU, allocations, heap, mutexes")
	return c
}

func (a developCommands) printBench(out bench.Result) error {
	if a.output == "json" {
		return printJSON(a.stdout, out)
	}
	return a.table([]string{"BENCH", out.Kind}, out.Table())
}

// benchProcessCommand returns the hidden command that runs one process of `bench`.
func (a developCommands) benchProcessCommand() *cobra.Command {
	return &cobra.Command{
		Use: bench.Command + " TASK", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "A process of `bench`, which starts it",
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := bench.Serve(cmd.Context(), a.stdin, a.stdout, a.logger())
			if errors.Is(err, bench.ErrNoTask) {
				return usage("%s: %w", bench.Command, err)
			}
			return err
		},
	}
}

const benchLong = `Sends the same requests to a sandbox, first through a fixed reference client and then through
the runner, and checks the books. The sandbox runs in a separate process. The producer
of the commands and the consumer of the events share another process.

--in-flight 1 measures the latency of a single user. --drain measures the rate at which a
full queue drains. --accounts N measures N accounts together. --rows N measures the cost of
a long journal; each row needs about 2 kB in the temporary directory, and time to write.

With --nats URL the same commands run once more through that NATS server or cluster, with 3
replicas on a cluster of three or more servers. The results are printed beside those of the
embedded server. On the server at URL, bench works under an account name of its own, ` + bench.OuterAccount + `. If the
streams of that account exist, bench does not start. When it finishes, it removes its streams, consumers and lease.
bench puts a heavy load on the server: do not run it against production.`
