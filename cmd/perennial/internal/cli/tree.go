package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/ledger/fact"
	"perennial/queue"
)

func (a *app) tree(root *cobra.Command) {
	setup, send, provider, review, operate, develop := setupCommands{a}, sendCommands{a}, providerCommands{a}, reviewCommands{a}, operateCommands{a}, developCommands{a}
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Get started", []*cobra.Command{setup.demoCommand(), setup.initCommand(), setup.doctorCommand(), setup.runCommand()}},
		{"Buy and renew", []*cobra.Command{
			send.orderCommand(), send.renewCommand(), send.submitCommand(),
			send.operatorCommand("cancel ID", "Cancel a command that was not sent to the provider", "cancelled %s", verbs.Cancel),
			send.retryCommand(), send.operatorCommand("release ID", "Release a command that is on hold", "released %s", verbs.Release),
		}},
		{"Watch", []*cobra.Command{statusCommands{a}.statusCommand(), statusCommands{a}.operationsCommand(), eventCommands{a}.eventsCommand(), provider.proxiesCommand()}},
		{"Needs attention", []*cobra.Command{review.reviewsCommand(), operate.deadLettersCommand()}},
		{"Schedules", []*cobra.Command{scheduleCommands{a}.schedulesCommand()}},
		{"Money", []*cobra.Command{ledgerCommands{a}.ledgerCommand(), noun(&cobra.Command{Use: "audit", Short: "List who changed what, and why"}, review.auditCommand("list"))}},
		{"Provider", []*cobra.Command{provider.walletCommand(), provider.offersCommand(), provider.ordersCommand()}},
		{"Operate", []*cobra.Command{operate.accountsCommand(), operate.runnersCommand(), ledgerCommands{a}.backupCommand(), operate.webhooksCommand(), setup.webCommand(), setup.configCommand(), setup.natsConfigCommand()}},
		{"Develop", []*cobra.Command{develop.sandboxCommand(), develop.schemaCommand(), develop.conformanceCommand(), develop.benchCommand(), develop.versionCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: strings.ToUpper(g.title)})
		for _, c := range g.commands {
			c.GroupID, c.SuggestFor = g.title, suggestedFor[c.Name()]
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("Develop")
	root.SetCompletionCommandGroupID("Develop")
	root.AddCommand(develop.benchProcessCommand(), develop.manualCommand(), develop.optionsCommand())
}

type action func(ctx context.Context, args []string) error

// newCommand returns a CLI command. The text use also declares the arguments, after the
// command's name. NAME means one argument, [NAME] at most one, NAME… one or more, and [NAME...]
// any number. If the name is alone or a flag follows it, the command takes no arguments.
func newCommand(use, short string, do action) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), args) }}
	switch words := strings.Fields(use); {
	case len(words) == 1, strings.HasPrefix(words[1], "-"):
		c.Args = cobra.NoArgs
	case strings.HasSuffix(words[1], "...]"):
		c.Args = cobra.ArbitraryArgs
	case strings.HasPrefix(words[1], "["):
		c.Args = cobra.MaximumNArgs(1)
	case strings.HasSuffix(words[1], "…"):
		c.Args = cobra.MinimumNArgs(1)
	default:
		c.Args = cobra.ExactArgs(1)
	}
	return c
}

// suggestedFor lists words that users may type instead of a command's name.
var suggestedFor = map[string][]string{
	"order": {"buy", "purchase"}, "renew": {"extend"}, "run": {"start", "serve", "up"}, "operations": {"ps", "list", "history"}, "events": {"logs", "tail", "follow"},
	"wallet": {"money"}, "config": {"validate"}, "doctor": {"check"},
}

var unknownCommand = regexp.MustCompile(`^unknown command "(.+?)" for "perennial"`)

// inAGroup extends an unknown-command error with the command groups that have a subcommand
// of this name.
func inAGroup(root *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	m := unknownCommand.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	var found []string
	for _, group := range root.Commands() {
		for _, c := range group.Commands() {
			if c.IsAvailableCommand() && verbAliases[c.Name()] == "" && (c.Name() == m[1] || slices.Contains(c.Aliases, m[1])) {
				found = append(found, group.Name()+" "+c.Name())
			}
		}
	}
	if len(found) == 0 {
		return err
	}
	return usage("%s\ndid you mean %s?", m[0], strings.Join(found, " or "))
}

// verbAliases maps the name of a subcommand to its alias.
var verbAliases = map[string]string{"list": "ls", "show": "get", "get": "show"}

// noun returns the command group for one kind of object, such as schedules. Without a
// subcommand, the group runs list, with the flags of list.
func noun(c, list *cobra.Command, more ...*cobra.Command) *cobra.Command {
	for _, sub := range append([]*cobra.Command{list}, more...) {
		if other := verbAliases[sub.Name()]; other != "" {
			sub.Aliases = append(sub.Aliases, other)
		}
		c.AddCommand(sub)
	}
	c.Flags().AddFlagSet(list.Flags())
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return noSubcommand(cmd, args)
		}
		return list.RunE(cmd, nil)
	}
	return c
}

func hidden(c *cobra.Command) *cobra.Command {
	c.Hidden = true
	return c
}

// The groups of CLI commands. Each embeds app, which contains what the groups share.
type (
	setupCommands      struct{ *app } // set up and run the program
	sendCommands       struct{ *app } // publish commands, or change published commands
	statusCommands     struct{ *app } // status and operations
	eventCommands      struct{ *app }
	developCommands    struct{ *app } // for developers: sandbox, schema, conformance, bench
	completionCommands struct{ *app } // complete the arguments of commands in a shell
	ledgerCommands     struct{ *app }
	scheduleCommands   struct{ *app }
	providerCommands   struct{ *app } // proxies, orders, offers and wallet
	reviewCommands     struct{ *app } // reviews and audit
	operateCommands    struct{ *app } // accounts, webhooks, dead-letters and runners
)

// usageExamples maps a command's path, without the program's name, to an example.
var usageExamples = map[string]string{ //nolint:gosec // files and commands, no secrets
	"accounts move":        "accounts move shop --to web-1-e79eabd6",
	"accounts pause":       "accounts pause --reason 'the provider moves its data centre tonight'",
	"accounts resume":      "accounts resume --reason 'the move is done'",
	"accounts rotate":      "accounts rotate --app-id live_app_5678 --secret-file new.secret",
	"accounts show":        "accounts show -o json",
	"bench":                "bench --commands 5000 --drain",
	"cancel":               "cancel spring-fleet --reason 'ordered twice'",
	"config check":         "config check --config perennial.yaml",
	"config show":          "config show -o json",
	"conformance":          "conformance --base-url http://127.0.0.1:40001 --app-id sbx_app_demo --secret-file demo.secret",
	"dead-letters drop":    "dead-letters drop 17",
	"dead-letters list":    "dead-letters list",
	"dead-letters requeue": "dead-letters requeue 17 --file corrected.json",
	"dead-letters show":    "dead-letters show 17",
	"demo":                 "demo --keep",
	"doctor":               "doctor -o json",
	"init":                 "init --base-url https://api.example.com --app-id live_app_1234 --secret-file - < api.secret",
	"backup archive":       "backup archive --before 2026-01-01 --to /mnt/archives",
	"backup create":        "backup create /mnt/backups/main-2026-11-24.db",
	"backup rebuild":       "backup rebuild --out main.rebuilt.db",
	"backup restore":       "backup restore --from /mnt/backups/main-2026-11-24.db --replace",
	"ledger balance":       "ledger balance -o json",
	"ledger entries":       "ledger entries --from 8123456 --limit 20",
	"ledger export":        "ledger export --format beancount --from 2026-11-01 --out november.beancount",
	"ledger reconcile":     "ledger reconcile -o json",
	"ledger record":        "ledger record --kind external --cents 1200 --order ord_77 --reason 'bought on the web site'",
	"ledger statement":     "ledger statement --month 2026-10 --format html --out october.html",
	"ledger verify":        "ledger verify --against-events",
	"nats-config":          "nats-config > perennial-users.conf",
	"runners list":         "runners list",
	"offers list":          "offers list --country US --quantity 10 --days 60",
	"operations list":      "operations list --state review",
	"operations show":      "operations show spring-fleet -o json",
	"accounts list":        "accounts list",
	"schedules show":       "schedules show keepalive",
	"order":                "order off_us_dallas=5 --days 30 --max 15.00 --wait",
	"orders list":          "orders list -o json",
	"orders get":           "orders get ord_77",
	"proxies get":          "proxies get px_us_1 --reveal",
	"proxies list":         "proxies list --within 3d --uncovered",
	"proxies retire":       "proxies retire px_us_1 --reason 'blocked at the shop'",
	"release":              "release spring-fleet --reason 'the price is agreed'",
	"renew":                "renew px_us_1 px_us_2 --due-before 72h --dry-run",
	"retry":                "retry spring-fleet --reason 'the wallet is full again'",
	"reviews list":         "reviews list",
	"audit":                "audit --from 2026-11-01",
	"audit list":           "audit list --from 2026-11-01 -o json",
	"reviews correct":      "reviews correct r-1/0001 --reason 'the invoice shows no charge'",
	"reviews resolve":      "reviews resolve r-1 --charged 3.00 --line px_us_1 --reason 'shown in the wallet history'",
	"reviews show":         "reviews show r-1",
	"run":                  "run --config perennial.yaml",
	"sandbox":              "sandbox --listen 127.0.0.1:40001 --db sandbox.db --charges charges.jsonl",
	"schedules pause":      "schedules pause keepalive --until 8h --reason 'the provider changes its prices tonight'",
	"schedules resume":     "schedules resume keepalive --reason 'the prices are known'",
	"schema":               "schema command.finished",
	"status":               "status spring-fleet -o json",
	"submit":               "submit renewals.csv --rejects rejected.jsonl",
	"schedules decline":    "schedules decline 585b5417d32723aa0a878f84 --reason 'too expensive'",
	"schedules approve":    "schedules approve 585b5417d32723aa0a878f84 --reason 'checked with accounting'",
	"schedules forecast":   "schedules forecast keepalive --days 90",
	"schedules history":    "schedules history keepalive",
	"schedules list":       "schedules list -o json",
	"schedules plan":       "schedules plan keepalive",
	"schedules run":        "schedules run keepalive --reason 'before the holidays'",
	"version":              "version -o json",
	"wallet show":          "wallet show -o json",
	"events":               "events --type command.finished --type sweep.*",
	"web login":            "web login --by ada",
	"web token":            "web token ada --role operator --accounts main",
	"webhooks list":        "webhooks list -o json",
	"webhooks remove":      "webhooks remove billing",
	"webhooks replay":      "webhooks replay billing --from-time 2026-11-20 --reason 'its database was restored'",
	"webhooks test":        "webhooks test billing",
}

func addExamples(root *cobra.Command) {
	walk(root, func(path string, c *cobra.Command) {
		if text, ok := usageExamples[path]; ok {
			c.Example = "  perennial " + text
		}
	})
}

const completeWithin = 2 * time.Second

const completeMost = 200

// completeAmong limits how many operations are searched for commands to complete. The search
// begins with the operation that was accepted last.
const completeAmong = 2000

// completions returns candidate values for a prefix. The caller removes those without the
// prefix.
type completions func(ctx context.Context, prefix string) []string

// addCompletions adds completion to arguments and flags. The shell completes all other
// arguments and flags with file names.
func (a completionCommands) addCompletions(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("output", valuesOf("table", "json"))
	_ = root.RegisterFlagCompletionFunc("account", complete(func(context.Context, string) []string { return a.readable().AccountNames() }, true))
	known, open, inReview := a.commandsOf(verbs.ListRequest{All: true}), a.commandsOf(verbs.ListRequest{}), a.commandsOf(verbs.ListRequest{State: string(fact.StateReview)})
	byArgument := map[string]completions{"SCHEDULE": a.scheduleNames, "[SCHEDULE]": a.scheduleNames, "PLAN": a.heldPlans}
	byCommand := map[string]completions{
		"renew": a.knownProxies, "proxies get": a.knownProxies, "proxies retire": a.knownProxies,
		"cancel": open, "release": open, "retry": known, "status": known, "operations show": known, "reviews show": inReview, "reviews resolve": inReview,
		"webhooks test": a.webhookNames, "webhooks replay": a.webhookNames,
	}
	flags := map[string]map[string][]string{
		"order": {"priority": priorities, "scenario": {"success", "delayed", "partial", "rejected"}}, "renew": {"priority": priorities},
		"operations list": {"state": namesOf(fact.States), "kind": namesOf(jobs.Kinds())},
		"retry":           {"state": {string(fact.StateRejected)}, "kind": namesOf(jobs.Kinds())},
		"ledger export":   {"format": {"csv", "jsonl", "beancount"}}, "ledger statement": {"format": {"markdown", "html", "csv"}},
		"ledger record": {"kind": {"top-up", "external", "charge", "refund"}}, "bench": {"kind": {"renew", "order"}}, "events": {"type": eventTypes()},
	}
	walk(root, func(path string, c *cobra.Command) {
		values := byCommand[path]
		if words := strings.Fields(c.Use); values == nil && len(words) > 1 {
			values = byArgument[words[1]]
		}
		if values != nil {
			c.ValidArgsFunction = complete(values, strings.Contains(c.Use, "…") || strings.Contains(c.Use, "..."))
		}
		for name, values := range flags[path] {
			_ = c.RegisterFlagCompletionFunc(name, valuesOf(values...))
		}
	})
}

var priorities = []string{string(queue.PriorityHigh), string(queue.PriorityBulk)}

func walk(c *cobra.Command, do func(path string, c *cobra.Command)) {
	do(strings.TrimPrefix(c.CommandPath(), "perennial "), c)
	for _, sub := range c.Commands() {
		walk(sub, do)
	}
}

func valuesOf(values ...string) cobra.CompletionFunc {
	return complete(func(context.Context, string) []string { return values }, true)
}

// complete offers values that begin with the typed text and have not been given yet. If the
// command takes only one value, complete offers nothing for a second argument.
func complete(values completions, several bool) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) > 0 && !several {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeWithin)
		defer cancel()
		var offered []cobra.Completion
		for _, v := range values(ctx, prefix) {
			if strings.HasPrefix(v, prefix) && !slices.Contains(given, v) && len(offered) < completeMost {
				offered = append(offered, v)
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a completionCommands) scheduleNames(context.Context, string) (names []string) {
	for _, s := range a.readable().Schedules {
		names = append(names, s.Name)
	}
	return names
}

func (a completionCommands) readable() *config.Config {
	c, err := config.Load(a.configFile)
	if err != nil {
		return &config.Config{}
	}
	return c
}

func (a completionCommands) heldPlans(ctx context.Context, _ string) (plans []string) {
	sweeps, _ := askOnce(ctx, a.app, verbs.Sweeps, struct{}{})
	for _, s := range sweeps {
		if s.Plan != "" && s.State == "held" {
			plans = append(plans, s.Plan)
		}
	}
	return plans
}

func (a completionCommands) knownProxies(ctx context.Context, prefix string) (ids []string) {
	q := verbs.ProxiesRequest{Limit: completeMost}
	if n := len(prefix); n > 0 { // start the page just before the first id with the prefix
		q.After = prefix[:n-1] + string(prefix[n-1]-1) + "\x7f"
	}
	page, _ := askOnce(ctx, a.app, verbs.Proxies, q)
	for _, p := range page.Proxies {
		ids = append(ids, p.ProxyID)
	}
	return ids
}

func (a completionCommands) commandsOf(q verbs.ListRequest) completions {
	q.Limit = completeAmong
	return func(ctx context.Context, _ string) (ids []string) {
		operations, _ := askOnce(ctx, a.app, verbs.List, q)
		for _, o := range operations {
			if !slices.Contains(ids, o.CommandID) {
				ids = append(ids, o.CommandID)
			}
		}
		return ids
	}
}

func namesOf[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}

// eventTypes returns all event types, and a pattern such as order.* for each entity.
func eventTypes() (all []string) {
	for name := range fact.Types() {
		entity, _, _ := strings.Cut(name, ".")
		all = append(all, name, entity+".*")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (a completionCommands) webhookNames(context.Context, string) (names []string) {
	for _, w := range a.readable().Webhooks {
		names = append(names, w.Name)
	}
	return names
}
