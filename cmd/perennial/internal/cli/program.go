package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"perennial/cmd/perennial/internal/config"
	"perennial/queue"
	"perennial/queue/publish"
	"perennial/queue/service"
)

// Exit codes (docs/cli.md).
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitPartly      = 3
	ExitPerson      = 4
	ExitUnreachable = 5
	ExitInterrupted = 130
)

// exitError is an error that sets the exit code of the process. If err is nil, nothing is
// printed, because the output already contains the result.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// app is what all CLI commands share: the standard streams and the root command's flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	configFile string
	natsURL    string
	account    string
	output     string
	json       bool
	verbose    bool
}

// Program is one call of `perennial`, with its arguments and streams.
type Program struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Main runs the program and returns its exit code. The first SIGINT or SIGTERM cancels the
// context, and work in progress drains. The second signal ends the process immediately.
func (p Program) Main(ctx context.Context) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	stdlog.SetFlags(0)
	stdlog.SetOutput(libraryLog{(&app{stderr: p.Stderr}).logger()})
	err := p.run(ctx)
	code := exitCode(ctx, err)
	_, unsure := errors.AsType[*unsureError](err)
	if err != nil && err.Error() != "" && (code != ExitInterrupted || unsure) {
		fmt.Fprintln(p.Stderr, errorLine(p.Args, code, err))
	}
	return code
}

// serving returns the context of a CLI command that keeps running (trap 74). If nothing reads
// its output any more, for example after journald restarts, the command continues and the output
// is lost. A closed terminal sends SIGHUP, which ends the context as SIGTERM does. Under nohup,
// SIGHUP is ignored.
func serving(ctx context.Context) (context.Context, context.CancelFunc) {
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	end := func() { signal.Stop(pipes) }
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, end
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	return ctx, func() { stop(); end() }
}

func errorLine(args []string, code int, err error) string {
	if !wantsJSON(args) {
		return errorText(err)
	}
	text, marshalErr := json.Marshal(map[string]any{"error": strings.TrimPrefix(errorText(err), "perennial: "), "exit_code": code})
	if marshalErr != nil {
		return errorText(err)
	}
	return string(text)
}

// wantsJSON reports whether the arguments contain -o json. It does not rely on parsed flags,
// because an error may precede parsing.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		switch {
		case arg == "--json", arg == "-ojson", arg == "-o=json", arg == "--output=json":
			return true
		case (arg == "-o" || arg == "--output") && i+1 < len(args) && args[i+1] == "json":
			return true
		}
	}
	return false
}

func (p Program) run(ctx context.Context) error {
	a := &app{stdin: p.Stdin, stdout: plainText{p.Stdout}, stderr: plainText{p.Stderr}}
	root := a.root()
	strictHelp(root)
	root.SetArgs(p.Args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	return inAGroup(root, root.ExecuteContext(ctx))
}

func (a *app) root() *cobra.Command {
	setUpCobra()
	root := &cobra.Command{
		Use:           "perennial",
		Version:       config.Version,
		Short:         "Keeps a fleet of rented proxy IPs alive",
		Long:          "Perennial buys and renews proxy IPs, pays for each command at most once, and keeps the books.",
		SilenceErrors: true, SilenceUsage: true,
		SuggestionsMinimumDistance: 1, // with a larger distance, cobra would suggest `run` for `buy`
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.configFile, "config", "", "configuration file (default: ./perennial.yaml if it exists, else embedded defaults)")
	flags.StringVar(&a.natsURL, "nats", "", "NATS `address` of a running perennial (env PERENNIAL_NATS; default: the address in the configuration, or in ./perennial-data)")
	flags.StringVarP(&a.account, "account", "a", "", "account (default: the only account; if there are several, commands that change something require the flag)")
	flags.StringVarP(&a.output, "output", "o", "table", "table or json")
	flags.BoolVar(&a.json, "json", false, "same as -o json; long-running commands print their addresses as JSON when they are ready")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "log more")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		a.natsURL = cmp.Or(a.natsURL, os.Getenv("PERENNIAL_NATS")) // not the flag's default, because the help would print a password in the address
		if a.json && cmd.Flags().Changed("output") && a.output != "json" {
			return usage("--json and -o %s exclude each other", a.output)
		}
		if a.json {
			a.output = "json"
		}
		if a.output != "table" && a.output != "json" {
			return usage("-o %s is not known: use table or json", a.output)
		}
		return nil
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return &exitError{ExitUsage, plainFlag(c, err)} })
	root.SetUsageTemplate(usageLayout.Replace(root.UsageTemplate()))
	a.tree(root)
	addExamples(root)
	completionCommands{a}.addCompletions(root)
	for _, c := range root.Commands() {
		strict(c)
	}
	return root
}

// usageLayout shortens cobra's usage text. The root command shows its groups without blank lines
// and without flags. Other commands show the global flags on one line.
var usageLayout = strings.NewReplacer(
	"{{else}}{{range $group := .Groups}}\n\n{{.Title}}", "{{else}}\n{{range $group := .Groups}}\n{{.Title}}",
	"{{if .HasAvailableLocalFlags}}", "{{if and .HasParent .HasAvailableLocalFlags}}",
	"Global Flags:\n{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}", "Global flags: {{range $i, $f := globalFlags .}}{{if $i}}, {{end}}--{{$f}}{{end}} (see `perennial options`)",
	`Use "{{.CommandPath}} [command] --help" for more information about a command.`, `Use "{{.CommandPath}} COMMAND --help" for a command{{if not .HasParent}}, and "perennial options" for the flags that every command has{{end}}.`,
)

// setUpCobra changes cobra's global settings.
var setUpCobra = sync.OnceFunc(func() {
	cobra.EnableCommandSorting = false
	cobra.AddTemplateFunc("globalFlags", globalFlags)
})

func globalFlags(c *cobra.Command) (names []string) {
	c.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// optionsCommand returns the command that describes the global flags.
func (a developCommands) optionsCommand() *cobra.Command {
	return hidden(&cobra.Command{Use: "options", Short: "Describe the flags that every command has", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := fmt.Fprintf(a.stdout, "Flags that every command has:\n%s", cmd.Root().PersistentFlags().FlagUsages())
		return err
	}})
}

// strict turns two mistakes into usage errors: a command group without a subcommand, and a
// wrong number of arguments.
func strict(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				if words := strings.Fields(cmd.Use); len(args) == 0 && len(words) > 1 && cmd.HasExample() {
					return usage("%s: %s is missing, as in `%s`", spoken(cmd), strings.TrimSuffix(words[1], "…"), strings.TrimSpace(cmd.Example))
				}
				return usage("%s: %w (see `%s --help`)", spoken(cmd), plainArgs(err, args), cmd.CommandPath())
			}
			return nil
		}
	}
	if c.HasSubCommands() && c.RunE == nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				cmd.SetOut(cmd.ErrOrStderr())
				return errors.Join(cmd.Help(), &exitError{code: ExitUsage})
			}
			return noSubcommand(cmd, args)
		}
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}

func noSubcommand(group *cobra.Command, args []string) error {
	var names []string
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usage("%s has no command %q\nit has %s (see `%s --help`)", spoken(group), args[0], strings.Join(names, ", "), group.CommandPath())
}

func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Run, help.RunE = nil, func(_ *cobra.Command, args []string) error {
		about, rest, err := root.Find(args)
		switch {
		case err != nil:
			return usage("%w", err)
		case len(rest) > 0 && about.HasSubCommands():
			return noSubcommand(about, rest)
		}
		about.InitDefaultHelpFlag()
		return about.Help()
	}
}

func exitCode(ctx context.Context, err error) int {
	var exit *exitError
	var wrongConfig *config.Error
	var notConfigured *config.NotConfiguredError
	switch {
	case err == nil:
		return ExitDone
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &wrongConfig), errors.As(err, &notConfigured):
		return ExitUsage
	case errors.Is(err, service.ErrNoRunner), errors.Is(err, queue.ErrStopping), errors.Is(err, queue.ErrDisconnected), errors.Is(err, queue.ErrNoAccount),
		errors.Is(err, publish.ErrNotTaken), errors.Is(err, publish.ErrUnacknowledged), errors.Is(err, errUnreachable):
		return ExitUnreachable
	case strings.HasPrefix(err.Error(), "unknown command"), strings.HasPrefix(err.Error(), "required flag"):
		return ExitUsage
	default:
		return ExitFailed
	}
}

// errorText formats an error for people. It shortens the text to three lines, unless the
// second line is indented, as in a list.
func errorText(err error) string {
	text := err.Error()
	if head, meant, ok := strings.Cut(text, "\n\nDid you mean this?\n"); ok { // cobra's layout of suggestions
		text = head + "\ndid you mean " + strings.Join(strings.Fields(meant), " or ") + "?"
	}
	lines := strings.SplitN(strings.TrimSpace(text), "\n", 4)
	if len(lines) > 3 && !strings.HasPrefix(lines[1], "  ") {
		lines = append(lines[:2], lines[2]+" …")
	}
	return "perennial: " + strings.Join(lines, "\n")
}

var (
	flagError = regexp.MustCompile(`^invalid argument (".*") for "(?:-\w, )?(--[\w-]+)" flag: (.*)$`)
	argsError = regexp.MustCompile(`^(accepts at most|requires at least|accepts) (\d+) arg\(s\), (?:only )?received (\d+)$`)
	argsWords = map[string]string{"accepts at most": "it takes at most", "requires at least": "it needs at least", "accepts": "it takes exactly"}
)

// spoken returns a command's name as users type it, such as "schedules plan".
func spoken(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), "perennial ") }

// plainFlag returns an error that says which value a flag expects, or that the command has no
// such flag.
func plainFlag(c *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && len(unknown.GetSpecifiedName()) > 1 {
		return fmt.Errorf("%s has no flag --%s%s (see `%s --help`)", spoken(c), unknown.GetSpecifiedName(), nearestFlag(c, unknown.GetSpecifiedName()), c.CommandPath())
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok && strings.Contains(c.Example, "--"+missing.GetSpecifiedName()+" ") {
		return fmt.Errorf("--%s needs a value, as in `%s`", missing.GetSpecifiedName(), strings.TrimSpace(c.Example))
	}
	m := flagError.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	why := m[3]
	switch {
	case strings.Contains(why, "ParseBool"):
		why = "true or false is expected"
	case strings.HasPrefix(why, "time: "):
		why = "a time is expected, such as 72h, 15m or 30s"
	case strings.Contains(why, "must be formatted as key=value"):
		why = "key=value is expected"
	}
	return fmt.Errorf("%s %s: %s", m[2], m[1], why)
}

// otherFlags maps flags that users may expect to those that exist.
var otherFlags = map[string]string{
	"order offer": "--item OFFER=QUANTITY", "order quantity": "--item OFFER=QUANTITY", "order duration": "--days", "renew duration": "--days",
	"events since": "--from with --stored", "ledger export month": "--from and --to",
}

// nearestFlag suggests a flag with a similar meaning or spelling. It returns "" if there is none.
func nearestFlag(c *cobra.Command, name string) (words string) {
	if other := otherFlags[spoken(c)+" "+name]; other != "" {
		return ", did you mean " + other + "?"
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := config.Nearest(name, names, min(3, len(name)/2)); near != "" {
		return ", did you mean --" + near + "?"
	}
	return ""
}

func plainArgs(err error, args []string) error {
	m := argsError.FindStringSubmatch(err.Error())
	if m == nil && strings.HasPrefix(err.Error(), "unknown command") {
		return fmt.Errorf("it takes no argument, and was given %q", strings.Join(args, " "))
	}
	if m == nil {
		return err
	}
	unit := "arguments"
	if m[2] == "1" {
		unit = "argument"
	}
	return fmt.Errorf("%s %s %s, and has %s", argsWords[m[1]], m[2], unit, m[3])
}
