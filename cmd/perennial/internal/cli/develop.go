package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/schema"
	"perennial/upstream/conformance"
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
	c := newCommand("sandbox", "Run a local copy of the provider's API", func(ctx context.Context, _ []string) error {
		ctx, stop := serving(ctx)
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
	})
	f := c.Flags()
	f.StringVar(&o.Listen, "listen", "127.0.0.1:0", "address of the sandbox environment")
	f.StringVar(&o.ListenProduction, "listen-production", "127.0.0.1:0", "address of the production environment")
	f.StringVar(&o.Control, "control", "127.0.0.1:0", "address of the control interface, on loopback")
	f.StringVar(&o.DB, "db", ":memory:", "where to keep the state: a file, or :memory:")
	f.StringVar(&fixture, "fixture", "", "YAML or JSON file with accounts, offers and proxies (default: a demonstration account)")
	f.StringVar(&o.Charges, "charges", "", "the charge log: a file to which each charge and refund is appended before the reply is sent")
	f.Float64Var(&o.RequestsPerSecond, "rate", 0, "requests per second that each key may send; more are rate_limited, with Retry-After (default: no limit)")
	wholeVar(f, &o.MaxConnections, "max-connections", 0, "open connections of each environment; above this number the longest idle connection is closed (default 4096)")
	f.BoolVar(&o.RefuseScriptAgents, "refuse-script-agents", false, "refuse requests that have no User-Agent, or the default one of a scripting tool, as some providers do")
	f.StringSliceVar(&o.Moods, "moods", nil, "quirks that the API document permits: all, or names from docs/sandbox.md (default: none)")
	f.DurationVar(&o.AsyncDelay, "async-delay", time.Second, "delivery time of an order that is not delivered immediately")
	f.DurationVar(&o.DelayedDelay, "delayed-delay", 2*time.Second, "delivery time of an order with --scenario delayed")
	wholeVar(f, &o.MoodSeed, "mood-seed", 0, "random seed for the quirks of --moods")
	f.BoolVar(&o.ChargesNoSync, "charges-nosync", false, "do not sync the charge log (for benchmarks)")
	return c
}

func (a developCommands) schemaCommand() *cobra.Command {
	var dir string
	c := newCommand("schema [NAME]", "Print JSON Schemas and the AsyncAPI document", func(_ context.Context, args []string) error {
		if dir != "" {
			return a.outputs().writeSchemas(dir)
		}
		return a.printSchema(args)
	})
	c.Long = `Without a name, prints the AsyncAPI document, which contains every schema.
NAME is a kind of command (order.create), a type of event (order.delivered), a request to the service
(svc.status.request), an answer from it (svc.status.answer), or one of dead, inbox.finished, inbox.refused and svc.error.`
	c.Flags().StringVar(&dir, "dir", "", "write all schemas and the AsyncAPI document into this directory")
	return c
}

func (o outputs) writeSchemas(dir string) error {
	files, err := schema.Files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // schemas are for other people's programs
		return err
	}
	for name, text := range files {
		err := o.write(filepath.Join(dir, name), 0o644, func(w io.Writer) error { _, err := w.Write(text); return err })
		if err != nil {
			return err
		}
	}
	return nil
}

// printSchema prints one schema, or the whole AsyncAPI document if args is empty.
func (a developCommands) printSchema(args []string) error {
	if len(args) == 0 || args[0] == "asyncapi" {
		document, err := schema.Document()
		if err == nil {
			_, err = a.stdout.Write(document)
		}
		return err
	}
	all, err := schema.All()
	if err != nil {
		return err
	}
	text := all.Text(args[0])
	if text == "" {
		return usage("there is no schema of %.64q: %s", args[0], nearestSchema(all.Names(), args[0]))
	}
	_, err = io.WriteString(a.stdout, text)
	return err
}

func nearestSchema(names []string, name string) string {
	known := &cobra.Command{SuggestionsMinimumDistance: 3}
	for _, one := range names {
		known.AddCommand(&cobra.Command{Use: one, Run: func(*cobra.Command, []string) {}})
	}
	if near := known.SuggestionsFor(name); len(near) > 0 {
		return "did you mean " + strings.Join(near[:min(len(near), 5)], ", ") + "?"
	}
	return "names are such as order.create, order.delivered or svc.status.answer, and `perennial schema` has all of them"
}

func (a developCommands) versionCommand() *cobra.Command {
	return newCommand("version", "Print the version", func(context.Context, []string) error {
		built := runtime.Version()
		if commit := config.Commit(); commit != "" {
			built = "commit " + commit + ", " + built
		}
		return a.say(map[string]string{"version": config.Version, "commit": config.Commit(), "go": runtime.Version()}, "perennial %s (%s)\n", config.Version, built)
	})
}

func (a developCommands) manualCommand() *cobra.Command {
	var c *cobra.Command
	c = newCommand("manual DIRECTORY", "Write the manual pages into a directory", func(_ context.Context, args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // readable by every user, as manual pages usually are
			return fmt.Errorf("write the manual pages: %w", err)
		}
		root := c.Root()
		root.DisableAutoGenTag = true // so that the same program always writes the same pages
		walk(root, func(_ string, c *cobra.Command) {
			if by := c.Flags().Lookup("by"); by != nil && by.DefValue == operator() {
				by.DefValue = "" // the default would name the user who builds the pages
			}
		})
		header := &doc.GenManHeader{Title: "PERENNIAL", Section: "1", Source: "perennial " + config.Version, Manual: "Perennial"}
		if err := doc.GenManTree(root, header, args[0]); err != nil {
			return fmt.Errorf("write the manual pages: %w", err)
		}
		return nil
	})
	c.Hidden = true // only `make install` needs it
	return c
}

const conformanceVariable = "PERENNIAL_CONFORMANCE_SECRET"

type conformanceFlags struct {
	cfg        conformance.Config
	secretFile string
	keysFile   string
	junitFile  string
	maxCents   int64
	list       bool
	currency   string // currency of the amounts; "" until the plan is known
}

func (a developCommands) conformanceCommand() *cobra.Command {
	var in conformanceFlags
	var c *cobra.Command
	c = newCommand("conformance --base-url URL --app-id ID", "Test a server against the API document", func(ctx context.Context, _ []string) error {
		if in.list {
			return a.listChecks()
		}
		if c.Flags().Changed("max-cents") {
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
		return a.conformance(ctx, &in)
	})
	c.Long = "Tests a server of the customer API: compares its behaviour with each statement of the API document.\n" +
		"Before it starts, it prints the most that the run may spend. In production, without --max-cents, it sends only reads, and\n" +
		"requests that the server must refuse without a charge."
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

// read sets the fields of in.cfg that come from files and the environment.
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

func (a developCommands) announcePlan(p conformance.Plan) {
	out := a.stdout
	if a.output == "json" {
		out = a.stderr // stdout contains only the report
	}
	fmt.Fprintf(out, "%d checks in %s; spends at most %s\n", p.Checks, p.Environment, money(p.MaxCents, p.Currency))
}

func (a developCommands) conformance(ctx context.Context, in *conformanceFlags) error {
	report, err := conformance.Run(ctx, in.cfg)
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
		// All users may read the report, because the build that runs the test reads it.
		if written := a.outputs().write(in.junitFile, 0o644, report.WriteJUnit); written != nil {
			return written
		}
	}
	if err == nil && report.Count(conformance.Differs) > 0 {
		return &exitError{code: ExitFailed}
	}
	return err
}

func (a developCommands) printReport(report *conformance.Report, currency string) error {
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

func (a developCommands) listChecks() error {
	list := a.listing("no checks", "SECTION", "CHECK", "SENTENCE")
	for _, c := range conformance.List() {
		list.add("", c, c.Section, c.ID, c.Sentence)
	}
	return list.end(nil)
}
