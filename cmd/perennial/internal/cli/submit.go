// `perennial submit`: its flags, and the publication of a batch.

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"perennial/jobs/command"
	"perennial/queue/publish"
	"perennial/upstream"
)

// submitting is the state of one call of submit.
type submitting struct {
	app     *app
	files   []string
	dryRun  bool
	rejects string
}

func (a sendCommands) submitCommand() *cobra.Command {
	s := &submitting{app: a.app}
	c := &cobra.Command{
		Use:   "submit FILE…",
		Short: "Publish commands from a CSV or JSON lines file",
		Long: "Publishes every command, waits until each has ended, and prints a summary.\n\n" +
			"Each JSON line is one command: a renewal if it has proxy_ids, else an order. A CSV file begins with a row of\n" +
			"column names. Orders need id, duration_days, offer_code and quantity. Renewals need id, duration_days and\n" +
			"proxy_ids, separated by spaces. The columns cidrs, max_total_cents, not_after, due_before and label.NAME are\n" +
			"optional. All files are read before anything is published. If any line is invalid, nothing is published.\n" +
			"Submitting a file again is harmless: commands with the same id are carried out once.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error { s.files = files; return s.run(cmd.Context()) },
	}
	c.Flags().BoolVar(&s.dryRun, "dry-run", false, "read and price all commands, and publish nothing")
	c.Flags().StringVar(&s.rejects, "rejects", "", "write rejected lines, with the reason, to this file as JSON lines")
	return c
}

func (s *submitting) run(ctx context.Context) error {
	if err := s.canWriteRejects(); err != nil {
		return err
	}
	b, err := newBatch(s.rules())
	if err != nil {
		return err
	}
	defer b.close()
	for _, name := range s.files {
		if err := b.readFile(ctx, s.app.stdin, name); err != nil {
			return &exitError{ExitUsage, err}
		}
	}
	if err := s.refuse(b); err != nil {
		return err
	}
	if s.dryRun {
		return s.price(ctx, b)
	}
	r, err := s.app.connect()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := s.publish(ctx, r, b); err != nil {
		return fmt.Errorf("not every command could be published: %w\nsubmit the same file again: what was published already is not done twice", err)
	}
	return s.followAll(ctx, r, b.entries)
}

// rules returns the rules of the account's configuration, so that submit refuses what the
// runner would refuse later. Without a configured App ID, it returns lenient rules.
func (s *submitting) rules() command.Rules {
	lenient := command.Rules{Environment: upstream.Sandbox, CIDRField: "-"}
	c, name, err := s.app.configured()
	if err != nil {
		return lenient
	}
	env, err := upstream.EnvironmentOf(c.Accounts[name].AppID)
	if err != nil { // the embedded sandbox has no App ID
		return lenient
	}
	return command.Rules{Environment: env, CIDRField: c.Accounts[name].CIDRField}
}

// badShown limits the invalid lines that are printed.
const badShown = 50

// refuse prints the invalid lines of a batch, and returns an error if there are any or if
// the batch is empty. It must be called before anything is published.
func (s *submitting) refuse(b *batch) error {
	if len(b.bad) == 0 {
		if len(b.entries) == 0 {
			return usage("there is no command in %s", strings.Join(s.files, ", "))
		}
		return nil
	}
	for i, bad := range b.bad {
		if i == badShown {
			fmt.Fprintf(s.app.stderr, "… and %d more\n", len(b.bad)-badShown)
			break
		}
		fmt.Fprintln(s.app.stderr, printable(bad.String()))
	}
	if err := s.writeRejects(b.bad); err != nil {
		return err
	}
	return usage("%d of %d lines cannot be submitted, so nothing was published: correct them and submit the file again", len(b.bad), b.lines)
}

// publishedAtOnce limits how many commands are in memory during publication.
const publishedAtOnce = 5000

func (s *submitting) publish(ctx context.Context, r *remote, b *batch) error {
	bar := s.bar(len(b.entries), "publishing")
	published := 0
	err := b.each(publishedAtOnce, func(out []publish.Outgoing) error {
		if err := persist(ctx, func() error { return publish.New(r.JetStream()).PublishCommands(ctx, r.account, out) }); err != nil {
			return err
		}
		published += len(out)
		return bar.Set(published)
	})
	_ = bar.Finish()
	return err
}

// bar returns a progress bar that is visible immediately.
func (s *submitting) bar(total int, what string) *progressbar.ProgressBar {
	bar := progressbar.NewOptions(total, progressbar.OptionSetWriter(s.app.stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(isTerminal(s.app.stderr)))
	_ = bar.RenderBlank()
	return bar
}
