package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/cmd/perennial/internal/web"
	"perennial/queue/roles"
)

func (a setupCommands) runCommand() *cobra.Command {
	var data, natsListen, http, metricsToken string
	var refill bool
	c := newCommand("run", "Start the runner", func(ctx context.Context, _ []string) error {
		c, err := config.Load(a.configFile)
		if err != nil {
			return err
		}
		if err := c.CheckLists(""); err != nil {
			return err
		}
		c.DataDir = cmp.Or(data, c.DataDir)
		c.NATS.Listen = cmp.Or(natsListen, c.NATS.Listen)
		c.HTTP.Listen = cmp.Or(http, c.HTTP.Listen)
		if metricsToken != "" {
			if c.HTTP.MetricsTokenFile, err = filepath.Abs(metricsToken); err != nil {
				return err
			}
		}
		c.RefillEvents = refill
		return a.run(ctx, c)
	})
	c.Flags().StringVar(&data, "data", "", "data directory (default: data_dir of the configuration, else perennial-data)")
	c.Flags().StringVar(&natsListen, "nats-listen", "", "address of the embedded NATS server; port 0 chooses a free port")
	c.Flags().StringVar(&http, "http", "", "address of the HTTP server for health, metrics and the web UI; port 0 chooses a free port")
	c.Flags().StringVar(&metricsToken, "metrics-token-file", "", "file with the token that /metrics requires, mode 0600")
	c.Flags().BoolVar(&refill, "refill-events", false, "publish the whole ledger again, to an events stream that is empty or has lost rows")
	return c
}

// run serves until ctx ends, then drains and returns nil.
func (a setupCommands) run(ctx context.Context, c *config.Config) error {
	ctx, stop := serving(ctx)
	defer stop()
	log := a.logger()
	if !a.verbose {
		log.SetLevel(logrus.InfoLevel)
	}
	log.WithFields(logrus.Fields{"version": config.Version, "commit": config.Commit(), "config": c.File, "data_dir": c.DataDir}).Info("perennial starts")
	h, err := daemon.Start(ctx, c, log)
	if err != nil && (ctx.Err() == nil || !errors.Is(err, context.Canceled)) {
		return err
	}
	defer log.Info("perennial has stopped")
	if err != nil {
		return nil // stopped while it started
	}
	defer h.Close()
	defer context.AfterFunc(ctx, func() { log.Info("perennial stops: operations in progress are finished first") })()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	h.WaitStarted(ctx)
	line := h.Ready()
	if err := a.announce(line, banner(line)); err != nil {
		cancel()
		return errors.Join(err, <-done)
	}
	return <-done
}

func banner(l daemon.ReadyLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Perennial runs. Stop it with Ctrl-C: it drains first.\n\n")
	fmt.Fprintf(&b, "  commands, events  %s  (account %s)\n", l.NATS, strings.Join(l.Accounts, ", "))
	fmt.Fprintf(&b, "  pages             %s  (`perennial web login` prints a link that opens them)\n  data              %s\n", l.HTTP, l.Data)
	if l.Sandbox != "" {
		fmt.Fprintf(&b, "  sandbox           %s  (nothing is configured: no real money is spent)\n", l.Sandbox)
	}
	return b.String()
}

func (a setupCommands) configCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "config", Short: "Check and show the configuration"}, a.configShow(), a.configCheck())
}

// CheckedConfig is what `config check` prints about a valid configuration.
type CheckedConfig struct {
	File      string   `json:"file"` // "" for the embedded defaults
	Accounts  []string `json:"accounts"`
	Schedules int      `json:"schedules"`
}

func (a setupCommands) configCheck() *cobra.Command {
	return newCommand("check", "Check the configuration file and its secrets, and report every error", func(context.Context, []string) error {
		c, err := config.Load(a.configFile)
		if err == nil {
			err = c.CheckSecrets()
		}
		if err != nil {
			return err
		}
		out := CheckedConfig{File: c.File, Accounts: c.AccountNames(), Schedules: len(c.Schedules)}
		return a.say(out, "%s is valid: %s, %s; a running `perennial run` reads it when it is started again\n", cmp.Or(out.File, "the embedded configuration"),
			english.Plural(len(out.Accounts), "account", ""), english.Plural(out.Schedules, "schedule", ""))
	})
}

func (a setupCommands) configShow() *cobra.Command {
	return newCommand("show", "Show every key with its value and source", func(context.Context, []string) error {
		c, err := config.Load(a.configFile)
		if err != nil {
			return err
		}
		list := a.listing("no keys", "KEY", "VALUE", "SOURCE")
		for _, s := range c.Settings() {
			text, err := json.Marshal(s.Value)
			if err != nil {
				return err
			}
			said := string(text)
			if word, ok := s.Value.(string); ok {
				said = word
			} else if said == "null" {
				said = ""
			}
			list.add("", s, s.Key, said, s.From)
		}
		return list.end(nil)
	})
}

func (a setupCommands) natsConfigCommand() *cobra.Command {
	var nsc bool
	c := newCommand("nats-config", "Print the NATS server configuration for the users under nats.users", func(context.Context, []string) error {
		c, err := config.Load(a.configFile)
		if err != nil {
			return err
		}
		if len(c.NATS.Users) == 0 {
			return usage("nats.users is empty: there are no roles to print\nadd users, such as [{user: app, password_file: app.password, roles: [{role: producer, accounts: [main]}]}]")
		}
		users := make([]roles.User, 0, len(c.NATS.Users))
		for _, u := range c.NATS.Users {
			users = append(users, u.QueueUser())
		}
		if nsc {
			return a.printNSC(users)
		}
		return a.printNATSConfig(c, users)
	})
	c.Long = `Print the part of a NATS server's configuration that gives nats.users their roles.
It has one NATS account for the runner, which owns the streams, and one NATS account for
each user, limited to the user's roles. Include the output in the server's configuration
file. Passwords are variables, which the server reads from its environment; bcrypt hashes
from perennial.yaml are printed unchanged.

With --nsc it prints shell commands for nsc instead, for servers whose accounts are JWTs.
An nsc operator must exist (nsc add operator). nsc push sends the accounts to the servers,
and nsc generate creds writes a user's credentials (nats.creds_file).`
	c.Flags().BoolVar(&nsc, "nsc", false, "print commands for nsc, for servers whose accounts are JWTs")
	return c
}

func (a setupCommands) printNSC(users []roles.User) error {
	text, err := roles.NSCCommands(users, verbs.Served())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "# Written by `perennial nats-config --nsc`. Needs NATS 2.12 or newer, and an operator (nsc add operator --sys).\n"+
		"# Then: nsc push --all; nsc generate creds --account PERENNIAL --name %s > runner.creds, for nats.creds_file.\nset -e\n%s", roles.RunnerUser, text)
	return err
}

func (a setupCommands) printNATSConfig(c *config.Config, users []roles.User) error {
	hashes, variables := map[string]string{}, []string{}
	for _, u := range c.NATS.Users {
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

func (a setupCommands) webCommand() *cobra.Command {
	c := &cobra.Command{Use: "web", Short: "Sign in to the web UI, and create tokens for other people"}
	c.AddCommand(a.webLogin(), a.webToken())
	return c
}

func roleOf(text string) (web.Role, error) {
	switch role := web.Role(text); role {
	case web.Viewer, web.Operator:
		return role, nil
	}
	return "", usage("--role is %q: use %s or %s", text, web.Viewer, web.Operator)
}

func (a setupCommands) webLogin() *cobra.Command {
	var name, role string
	c := newCommand("login", "Print a sign-in link that works once", func(context.Context, []string) error {
		as, err := roleOf(role)
		if err != nil {
			return err
		}
		c, err := config.Load(a.configFile)
		if err != nil {
			return err
		}
		line, err := readRunFile(c.DataDir)
		if err != nil {
			return err
		}
		code, err := daemon.LoginCode(c.DataDir, web.Person{Name: name, Role: as})
		if err != nil {
			return err
		}
		address := loginAddress(line.HTTP, code)
		return a.say(struct {
			URL       string    `json:"url"`
			ExpiresAt time.Time `json:"expires_at"`
		}{address, time.Now().Add(web.LinkLife).UTC()}, "%s\n", address)
	})
	c.Flags().StringVar(&name, "by", operator(), "the name of the person who signs in, which the audit log shows")
	c.Flags().StringVar(&role, "role", string(web.Operator), "a viewer can only look, an operator can also make changes")
	return c
}

func loginAddress(http, code string) string { return http + "/login?code=" + url.QueryEscape(code) }

func (a setupCommands) webToken() *cobra.Command {
	var role string
	var accounts []string
	c := newCommand("token NAME", "Create a token that signs a person in", func(_ context.Context, args []string) error {
		as, err := roleOf(role)
		if err != nil {
			return err
		}
		c, err := config.Load(a.configFile)
		if err != nil {
			return err
		}
		if c.HTTP.TokensFile == "" {
			return usage("http.tokens_file is not configured\nname a file there, such as web.tokens: `run` reads it at each request")
		}
		token, err := web.AddToken(c.ResolvePath(c.HTTP.TokensFile), web.Token{Name: args[0], Role: as, Accounts: accounts})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.stdout, token)
		return err
	})
	c.Flags().StringVar(&role, "role", string(web.Viewer), "a viewer can only look, an operator can also make changes")
	c.Flags().StringSliceVar(&accounts, "accounts", nil, "accounts that the person sees (default: all)")
	return c
}
