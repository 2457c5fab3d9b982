// Shell completion of flags and arguments, from the configuration and the runner.

package cli

import (
	"context"
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

// completeWithin limits the wait for a runner's answer.
const completeWithin = 2 * time.Second

// completeMost limits the number of offered values.
const completeMost = 200

// completeAmong limits how many operations are searched for matching commands. The latest
// accepted are searched first.
const completeAmong = 2000

// completions returns candidate values for a prefix. The caller removes those without the
// prefix.
type completions func(ctx context.Context, prefix string) []string

// addCompletions adds completion to arguments and flags. The shell completes all other
// arguments and flags with file names.
func (a completionCommands) addCompletions(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("output", valuesOf("table", "json"))
	_ = root.RegisterFlagCompletionFunc("account", complete(func(context.Context, string) []string { return a.readable().AccountNames() }))
	many := map[string]completions{"renew": a.knownProxies, "proxies get": a.knownProxies, "proxies retire": a.knownProxies, "retry": a.knownCommands}
	one := map[string]completions{
		"cancel": a.openCommands, "release": a.openCommands, "status": a.knownCommands, "operations show": a.knownCommands, "schedules show": a.scheduleNames,
		"reviews show": a.inReview, "reviews resolve": a.inReview,
		"schedules plan": a.scheduleNames, "schedules run": a.scheduleNames, "schedules history": a.scheduleNames, "schedules forecast": a.scheduleNames, "schedules decline": a.heldPlans, "schedules approve": a.heldPlans,
		"schedules pause": a.scheduleNames, "schedules resume": a.scheduleNames,
		"webhooks test": a.webhookNames, "webhooks replay": a.webhookNames,
	}
	flags := map[string]map[string][]string{
		"order": {"priority": priorities, "scenario": {"success", "delayed", "partial", "rejected"}}, "renew": {"priority": priorities},
		"operations list": {"state": namesOf(fact.States), "kind": namesOf(jobs.Kinds())},
		"retry":           {"state": {string(fact.StateRejected)}, "kind": namesOf(jobs.Kinds())},
		"ledger export":   {"format": {"csv", "jsonl", "beancount"}}, "ledger statement": {"format": {"markdown", "html"}},
		"ledger record": {"kind": {"top-up", "external", "charge", "refund"}}, "bench": {"kind": {"renew", "order"}}, "events": {"type": eventTypes()},
	}
	walk(root, func(path string, c *cobra.Command) {
		switch {
		case many[path] != nil:
			c.ValidArgsFunction = complete(many[path])
		case one[path] != nil:
			c.ValidArgsFunction = first(complete(one[path]))
		}
		for name, values := range flags[path] {
			_ = c.RegisterFlagCompletionFunc(name, valuesOf(values...))
		}
	})
}

var priorities = []string{string(queue.PriorityHigh), string(queue.PriorityBulk)}

// walk calls do with c and all of its subcommands. The path omits the program's name.
func walk(c *cobra.Command, do func(path string, c *cobra.Command)) {
	do(strings.TrimPrefix(c.CommandPath(), "perennial "), c)
	for _, sub := range c.Commands() {
		walk(sub, do)
	}
}

func valuesOf(values ...string) cobra.CompletionFunc {
	return complete(func(context.Context, string) []string { return values })
}

// complete offers values that begin with the typed text and have not been given yet.
func complete(values completions) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
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

// first completes only the first argument.
func first(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(c, given, prefix)
	}
}

// asked returns a runner's answer, or the zero value if the request fails.
func asked[Q, A any](ctx context.Context, a *app, v verbs.Verb[Q, A], q Q) (answer A) {
	r, err := a.connect()
	if err != nil {
		return answer
	}
	defer r.Close()
	answer, _ = ask(ctx, r, v, q)
	return answer
}

func (a completionCommands) scheduleNames(context.Context, string) (names []string) {
	for _, s := range a.readable().Schedules {
		names = append(names, s.Name)
	}
	return names
}

// readable returns the configuration, or an empty configuration if the file cannot be read.
func (a completionCommands) readable() *config.Config {
	c, err := config.Load(a.configFile)
	if err != nil {
		return &config.Config{}
	}
	return c
}

// heldPlans returns the ids of the plans that need approval.
func (a completionCommands) heldPlans(ctx context.Context, _ string) (plans []string) {
	for _, s := range asked(ctx, a.app, verbs.Sweeps, struct{}{}) {
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
	for _, p := range asked(ctx, a.app, verbs.Proxies, q).Proxies {
		ids = append(ids, p.ProxyID)
	}
	return ids
}

func (a completionCommands) knownCommands(ctx context.Context, _ string) []string {
	return a.commandsOf(ctx, verbs.ListRequest{All: true, Limit: completeAmong})
}

func (a completionCommands) openCommands(ctx context.Context, _ string) []string {
	return a.commandsOf(ctx, verbs.ListRequest{Limit: completeAmong})
}

func (a completionCommands) inReview(ctx context.Context, _ string) []string {
	return a.commandsOf(ctx, verbs.ListRequest{Limit: completeAmong, State: string(fact.StateReview)})
}

func (a completionCommands) commandsOf(ctx context.Context, q verbs.ListRequest) (ids []string) {
	for _, o := range asked(ctx, a.app, verbs.List, q) {
		if !slices.Contains(ids, o.CommandID) {
			ids = append(ids, o.CommandID)
		}
	}
	return ids
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
