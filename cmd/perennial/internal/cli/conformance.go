// `perennial conformance`: its flags, the announcement of what it may spend, its table and
// its JUnit report.

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/upstream/conformance"
)

const conformanceVariable = "PERENNIAL_CONFORMANCE_SECRET"

// conformanceFlags contains the flags of `conformance`.
type conformanceFlags struct {
	cfg        conformance.Config
	secretFile string
	keysFile   string
	junitFile  string
	maxCents   int64
	list       bool
	currency   string // currency of the amounts; "" until the plan is known
}

func (a conformanceCommand) conformanceCommand() *cobra.Command {
	var in conformanceFlags
	c := &cobra.Command{
		Use:   "conformance --base-url URL --app-id ID",
		Short: "Test a server against the API document",
		Long: "Tests a server of the customer API: compares its behaviour with each statement of the API document.\n" +
			"First prints the most that the run may spend. In production, without --max-cents, it sends only reads, and\n" +
			"requests that the server must refuse without a charge.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in.list {
				return a.listChecks()
			}
			if cmd.Flags().Changed("max-cents") {
				in.cfg.MaxCents = &in.maxCents
			}
			if err := in.read(); err != nil {
				return err
			}
			in.cfg.Announce = func(p conformance.Plan) {
				in.currency = p.Currency
				a.announcePlan(p)
			}
			if a.verbose {
				in.cfg.Progress = func(r conformance.Result) { fmt.Fprintf(a.stderr, "%s: %s: %s\n", r.ID, r.Verdict, r.Seen) }
			}
			return a.conformance(cmd, &in)
		},
	}
	f := c.Flags()
	f.StringVar(&in.cfg.BaseURL, "base-url", "", "address of the server")
	f.StringVar(&in.cfg.AppID, "app-id", "", "App ID of the key")
	f.StringVar(&in.secretFile, "secret-file", "", "file with the API Secret (default: env "+conformanceVariable+")")
	f.BoolVar(&in.cfg.Production, "production", false, "the server is production: only read, unless --max-cents allows spending")
	wholeVar(f, &in.maxCents, "max-cents", 0, "the most that the run may spend, in cents (default: what the checks need in a sandbox; nothing in production)")
	f.StringVar(&in.cfg.ControlURL, "control", "", "address of the control interface of a perennial sandbox, which sets its clock, faults and revoked keys")
	f.BoolVar(&in.cfg.SignPort, "sign-port", false, "include the port in the signed host")
	f.StringVar(&in.keysFile, "keys", "", "JSON file with more keys, to check scopes and keys of other accounts")
	f.StringVar(&in.cfg.OtherBaseURL, "other-base-url", "", "address of the other environment, to check that each environment refuses keys of the other")
	f.StringVar(&in.cfg.CIDRField, "cidr-field", "", "name of the field for an order line's CIDRs, which the document does not define")
	f.StringVar(&in.cfg.Section, "section", "", "only checks whose section or id begins with this text; separate several with commas")
	f.StringVar(&in.junitFile, "junit", "", "also write the results to this file as JUnit XML")
	f.BoolVar(&in.list, "list", false, "list the checks and exit")
	return c
}

// read completes in.cfg from files and the environment.
func (in *conformanceFlags) read() error {
	if in.cfg.BaseURL == "" || in.cfg.AppID == "" {
		return usage("--base-url and --app-id are required")
	}
	in.cfg.Clock, in.cfg.Secret = time.Now, os.Getenv(conformanceVariable)
	in.cfg.UserAgent = "perennial-conformance/" + config.Version
	var err error
	if in.secretFile != "" {
		if in.cfg.Secret, err = config.ReadSecret(in.secretFile); err != nil {
			return &exitError{ExitUsage, err}
		}
	}
	if in.cfg.Secret == "" {
		return usage("no secret: use --secret-file or %s", conformanceVariable)
	}
	if in.keysFile == "" {
		return nil
	}
	text, err := config.ReadPrivate(in.keysFile)
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in.cfg.Keys); err != nil {
		return usage("--keys %s: %w", in.keysFile, err)
	}
	return nil
}

// announcePlan prints how many checks will run and what they may spend, before they start.
func (a conformanceCommand) announcePlan(p conformance.Plan) {
	out := a.stdout
	if a.output == "json" {
		out = a.stderr // stdout contains only the report
	}
	fmt.Fprintf(out, "%d checks in %s; spends at most %s\n", p.Checks, p.Environment, money(p.MaxCents, p.Currency))
}

func (a conformanceCommand) conformance(cmd *cobra.Command, in *conformanceFlags) error {
	report, err := conformance.Run(cmd.Context(), in.cfg)
	switch {
	case errors.Is(err, conformance.ErrConfig):
		return &exitError{ExitUsage, err}
	case errors.Is(err, conformance.ErrUnreachable):
		return &exitError{ExitUnreachable, err}
	case err != nil && len(report.Results) == 0:
		return err
	}
	if printed := a.printReport(&report, in.currency); printed != nil {
		return printed
	}
	if in.junitFile != "" {
		// All users may read the report, because the build that runs the test needs it.
		if written := a.outputs().write(in.junitFile, 0o644, report.WriteJUnit); written != nil {
			return written
		}
	}
	if err == nil && report.Count(conformance.Differs) > 0 {
		return &exitError{code: ExitFailed}
	}
	return err
}

// printReport prints all results as a table by section, followed by the differences alone.
func (a conformanceCommand) printReport(report *conformance.Report, currency string) error {
	if a.output == "json" {
		return printJSON(a.stdout, report)
	}
	var rows, wrong [][]string
	for _, r := range report.Results {
		row := []string{r.Section, r.ID, string(r.Verdict), r.Seen}
		if rows = append(rows, row); r.Verdict == conformance.Differs {
			wrong = append(wrong, []string{r.Section, r.ID, r.Sentence, r.Seen})
		}
	}
	if err := a.table([]string{"SECTION", "CHECK", "VERDICT", "SEEN"}, rows); err != nil {
		return err
	}
	if len(wrong) > 0 {
		fmt.Fprintln(a.stdout)
		if err := a.table([]string{"DIFFERS IN", "CHECK", "SHOULD BE", "SEEN"}, wrong); err != nil {
			return err
		}
	}
	spent := "spent an unknown sum"
	if report.SpentCents >= 0 {
		spent = fmt.Sprintf("spent %s of at most %s", money(report.SpentCents, currency), money(report.MaxCents, currency))
	}
	_, err := fmt.Fprintf(a.stdout, "\n%d ok, %d differ, %d not shown, %d not run; %d requests; %s\n", report.Count(conformance.OK),
		report.Count(conformance.Differs), report.Count(conformance.NotShown), report.Count(conformance.NotRun), report.Requests, spent)
	return err
}

func (a conformanceCommand) listChecks() error {
	list := a.listing("SECTION", "CHECK", "SENTENCE")
	for _, c := range conformance.List() {
		if err := list.add("", c, c.Section, c.ID, c.Sentence); err != nil {
			return err
		}
	}
	return list.end(nil)
}
