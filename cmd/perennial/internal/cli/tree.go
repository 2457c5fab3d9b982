// The tree of CLI commands, with groups and aliases.

package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// tree adds every command to the root, in its help group.
func (a *app) tree(root *cobra.Command) {
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Get started", []*cobra.Command{setupCommands{a}.demoCommand(), setupCommands{a}.initCommand(), setupCommands{a}.doctorCommand(), setupCommands{a}.runCommand()}},
		{"Buy and renew", []*cobra.Command{sendCommands{a}.orderCommand(), sendCommands{a}.renewCommand(), sendCommands{a}.submitCommand(), sendCommands{a}.cancelCommand(), sendCommands{a}.retryCommand(), sendCommands{a}.releaseCommand()}},
		{"Watch", []*cobra.Command{statusCommands{a}.statusCommand(), statusCommands{a}.operationsCommand(), eventCommands{a}.eventsCommand(), providerCommands{a}.proxiesCommand()}},
		{"Needs attention", []*cobra.Command{reviewCommands{a}.reviewsCommand(), operateCommands{a}.deadLettersCommand()}},
		{"Schedules", []*cobra.Command{scheduleCommands{a}.schedulesCommand()}},
		{"Money", []*cobra.Command{ledgerCommands{a}.ledgerCommand(), noun(&cobra.Command{Use: "audit", Short: "List who changed what, and why"}, reviewCommands{a}.auditCommand("list"))}},
		{"Provider", []*cobra.Command{providerCommands{a}.walletCommand(), providerCommands{a}.offersCommand(), providerCommands{a}.ordersCommand()}},
		{"Operate", []*cobra.Command{operateCommands{a}.accountsCommand(), operateCommands{a}.runnersCommand(), operateCommands{a}.webhooksCommand(), setupCommands{a}.webCommand(), setupCommands{a}.configCommand(), setupCommands{a}.natsConfigCommand()}},
		{"Develop", []*cobra.Command{developCommands{a}.sandboxCommand(), developCommands{a}.schemaCommand(), conformanceCommand{a}.conformanceCommand(), developCommands{a}.benchCommand(), developCommands{a}.versionCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID, c.SuggestFor = g.title, suggestedFor[c.Name()]
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("Develop")
	root.SetCompletionCommandGroupID("Develop")
	root.AddCommand(developCommands{a}.benchProcessCommand(), developCommands{a}.manualCommand())
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
