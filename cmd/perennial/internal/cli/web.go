// `perennial web`: login to the web UI of `run`.

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/web"
)

func (a setupCommands) webCommand() *cobra.Command {
	c := &cobra.Command{Use: "web", Short: "Sign in to the web UI, and create tokens for other people"}
	c.AddCommand(a.webLogin(), a.webToken())
	return c
}

// roleOf parses --role.
func roleOf(text string) (web.Role, error) {
	switch role := web.Role(text); role {
	case web.Viewer, web.Operator:
		return role, nil
	}
	return "", usage("--role is %q: use %s or %s", text, web.Viewer, web.Operator)
}

func (a setupCommands) webLogin() *cobra.Command {
	var name, role string
	c := &cobra.Command{
		Use: "login", Short: "Print a sign-in link that works once", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			as, err := roleOf(role)
			if err != nil {
				return err
			}
			c, err := config.Load(a.configFile)
			if err != nil {
				return err
			}
			line, err := readRunFile(c.DataDir)
			if errors.Is(err, fs.ErrNotExist) {
				return &exitError{ExitUnreachable, fmt.Errorf("no `perennial run` works in %s\nstart it, or use --config of the one that does", c.DataDir)}
			}
			if err != nil {
				return err
			}
			code, err := daemon.LoginCode(c.DataDir, web.Person{Name: name, Role: as})
			if err != nil {
				return err
			}
			address := loginAddress(line.HTTP, code)
			if a.output == "json" {
				return printJSON(a.stdout, struct {
					URL       string    `json:"url"`
					ExpiresAt time.Time `json:"expires_at"`
				}{address, time.Now().Add(web.LinkLife).UTC()})
			}
			_, err = fmt.Fprintln(a.stdout, address)
			return err
		},
	}
	c.Flags().StringVar(&name, "by", operator(), "the name of the person who signs in, which the audit log shows")
	c.Flags().StringVar(&role, "role", string(web.Operator), "a viewer can only look, an operator can also make changes")
	return c
}

func loginAddress(http, code string) string { return http + "/login?code=" + url.QueryEscape(code) }

func (a setupCommands) webToken() *cobra.Command {
	var role string
	var accounts []string
	c := &cobra.Command{
		Use: "token NAME", Short: "Create a token that signs a person in", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
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
		},
	}
	c.Flags().StringVar(&role, "role", string(web.Viewer), "a viewer can only look, an operator can also make changes")
	c.Flags().StringSliceVar(&accounts, "accounts", nil, "accounts that the person sees (default: all)")
	return c
}
