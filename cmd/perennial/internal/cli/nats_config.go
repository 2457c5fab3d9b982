// `perennial nats-config`, which prints accounts, users and permissions for an external NATS.

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/queue/roles"
)

func (a setupCommands) natsConfigCommand() *cobra.Command {
	var nsc bool
	c := &cobra.Command{
		Use: "nats-config", Short: "Print NATS server configuration for nats.users", Args: cobra.NoArgs,
		Long: `Print the part of a NATS server's configuration that gives nats.users their roles.
It has one NATS account for the runner, which owns the streams, and one NATS account for
each user, limited to the user's roles. Include the output in the server's configuration
file. Passwords are variables, which the server reads from its environment; bcrypt hashes
from perennial.yaml are printed unchanged.

With --nsc it prints shell commands for nsc instead, for servers whose accounts are JWTs.
An nsc operator must exist (nsc add operator). nsc push sends the accounts to the servers,
and nsc generate creds writes a user's credentials (nats.creds_file).`,
		RunE: func(*cobra.Command, []string) error {
			c, err := config.Load(a.configFile)
			if err != nil {
				return err
			}
			if len(c.NATS.Users) == 0 {
				return usage("nats.users is empty: there are no roles to print\nadd users, such as [{user: app, password_file: app.password, roles: [{role: producer, accounts: [main]}]}]")
			}
			if nsc {
				return a.printNSC(c)
			}
			return a.printNATSConfig(c)
		},
	}
	c.Flags().BoolVar(&nsc, "nsc", false, "print commands for nsc, for servers whose accounts are JWTs")
	return c
}

func (a setupCommands) printNSC(c *config.Config) error {
	users := make([]roles.User, 0, len(c.NATS.Users))
	for _, u := range c.NATS.Users {
		users = append(users, u.QueueUser())
	}
	text, err := roles.NSCCommands(users, verbs.Served())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "# Written by `perennial nats-config --nsc`. Needs NATS 2.12 or newer, and an operator (nsc add operator --sys).\n"+
		"# Then: nsc push --all; nsc generate creds --account PERENNIAL --name %s > runner.creds, for nats.creds_file.\nset -e\n%s", roles.RunnerUser, text)
	return err
}

func (a setupCommands) printNATSConfig(c *config.Config) error {
	users := make([]roles.User, 0, len(c.NATS.Users))
	hashes, variables := map[string]string{}, []string{}
	for _, u := range c.NATS.Users {
		users = append(users, u.QueueUser())
		hashes[u.User] = u.Password
	}
	text, err := roles.ServerConfig(users, verbs.Served(), func(user string) string {
		if hash := hashes[user]; hash != "" {
			return fmt.Sprintf("%q", hash)
		}
		variables = append(variables, config.PasswordVariable(user))
		return "$" + config.PasswordVariable(user)
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "# Written by `perennial nats-config`. Needs NATS 2.12 or newer, and `jetstream` at the top level.\n"+
		"# Set in the server's environment: %s.\n# The runner connects as user %s.\n%s", strings.Join(variables, ", "), roles.RunnerUser, text)
	return err
}
