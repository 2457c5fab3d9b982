// Commands that cover several accounts, and the listings that they print.

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/verbs"

	"github.com/spf13/cobra"
)

// eachAccount calls do for every selected account, in the order of their names. If only one
// account is selected, it passes "" as account. If an account fails, eachAccount prints the
// error to stderr and continues with the next account.
func (a *app) eachAccount(ctx context.Context, do func(one *app, account string) error) error {
	if a.account != "" {
		return do(a, "")
	}
	c, err := config.Load(a.configFile)
	if err != nil {
		return err
	}
	names, err := c.PickAll("")
	if err != nil {
		return err
	}
	if len(names) == 1 {
		return do(a, "")
	}
	var first error
	failed := 0
	for _, name := range names {
		one := *a
		one.account = name
		err := do(&one, name)
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			continue
		}
		failed++
		if first == nil {
			first = err
		}
		if err := a.nameFailed(ctx, name, err); err != nil {
			return err
		}
	}
	return failedAccounts(ctx, failed, len(names), first)
}

// nameFailed prints the name of an account and its error to stderr.
func (a *app) nameFailed(ctx context.Context, account string, err error) error {
	text := strings.TrimPrefix(errorText(err), "perennial: ")
	if a.output == "json" {
		return printJSON(a.stderr, map[string]any{"account": account, "error": text, "exit_code": exitCode(ctx, err)})
	}
	_, err = fmt.Fprintf(a.stderr, "account %s: %s\n", account, text)
	return err
}

// failedAccounts returns the error of a command over several accounts. If all accounts failed,
// the exit code is that of the first failure. Otherwise the exit code means a partial failure.
func failedAccounts(ctx context.Context, failed, all int, first error) error {
	switch failed {
	case 0:
		return nil
	case all:
		return &exitError{exitCode(ctx, first), fmt.Errorf("none of the %d accounts could be read", all)}
	}
	return &exitError{ExitPartly, fmt.Errorf("%d of %d accounts could not be read", failed, all)}
}

// listing prints records of one or several accounts. JSON records are printed immediately,
// one on each line. A table is printed at the end. If there are several accounts, the first
// field or column contains the account.
type listing struct {
	app     *app
	heading []string
	rows    [][]string
	several bool
}

func (a *app) listing(heading ...string) *listing { return &listing{app: a, heading: heading} }

// add prints a JSON record or stores a row. account is "" if the listing covers one account.
func (l *listing) add(account string, record any, row ...string) error {
	l.several = l.several || account != ""
	if l.app.output == "json" {
		if account == "" {
			return printJSON(l.app.stdout, record)
		}
		return printOfAccount(l.app, account, record)
	}
	if account != "" {
		row = append([]string{account}, row...)
	}
	l.rows = append(l.rows, row)
	return nil
}

// printOfAccount prints a record as a JSON object that begins with the field "account".
func printOfAccount(a *app, account string, record any) error {
	var text bytes.Buffer
	if err := printJSON(&text, record); err != nil {
		return err
	}
	begin, err := json.Marshal(map[string]string{"account": account})
	if err != nil {
		return err
	}
	rest := bytes.TrimPrefix(text.Bytes(), []byte("{"))
	if len(rest) == text.Len() {
		return errors.New("a record of an account is no JSON object")
	}
	begin[len(begin)-1] = ','
	_, err = a.stdout.Write(append(begin, rest...))
	return err
}

// end prints the table and returns err. It prints nothing if err is not nil and the table has
// no rows.
func (l *listing) end(err error) error {
	if l.app.output == "json" || err != nil && len(l.rows) == 0 {
		return err
	}
	heading := l.heading
	if l.several {
		heading = append([]string{"ACCOUNT"}, heading...)
	}
	return errors.Join(l.app.table(heading, l.rows), err)
}

func (a operateCommands) accountsCommand() *cobra.Command {
	show := &cobra.Command{
		Use: "show [NAME]", Short: "Show an account: provider, pauses, event lag", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.nameAccount(args); err != nil {
				return err
			}
			v, err := askOnce(cmd.Context(), a.app, verbs.Show, struct{}{})
			if err != nil {
				return err
			}
			return a.printAccount(v)
		},
	}
	return noun(&cobra.Command{Use: "accounts", Aliases: []string{"account"}, Short: "List, show, pause, resume and move accounts, and rotate their keys"},
		a.accountsList(), show, a.accountRotate(), a.accountMove(),
		a.accountChange("pause", "Stop sending requests to the provider", "paused account %s: `perennial accounts resume %[1]s` resumes it", verbs.Pause),
		a.accountChange("resume", "Resume sending requests to the provider (ends all pauses)", "resumed account %s", verbs.Resume))
}

func (a operateCommands) accountsList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the accounts", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := a.listing("NAME", "STATUS", "ENVIRONMENT", "ADDRESS", "PAUSED", "NOT READY")
			err := a.eachAccount(cmd.Context(), func(one *app, _ string) error {
				v, err := askOnce(cmd.Context(), one, verbs.Show, struct{}{})
				if err != nil {
					return err
				}
				var paused []string
				for _, p := range v.Paused {
					paused = append(paused, p.Scope)
				}
				return list.add("", v, v.Account, v.Status, v.Environment, v.BaseURL, strings.Join(paused, ", "), v.NotReady)
			})
			return list.end(err)
		},
	}
}

// accountChange returns a CLI command that changes one account. If several accounts are
// configured, the user must select one with the argument or --account.
func (a operateCommands) accountChange(use, short, done string, v verbs.Verb[verbs.OperatorRequest, verbs.Changed]) *cobra.Command {
	var q verbs.OperatorRequest
	c := &cobra.Command{
		Use: use + " [NAME]", Short: short, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.nameAccount(args); err != nil {
				return err
			}
			r, err := a.connect()
			if err != nil {
				return err
			}
			defer r.Close()
			changed, err := ask(cmd.Context(), r, v, q)
			return a.printChange(changed, fmt.Sprintf(done, r.account), err)
		},
	}
	signed(c, &q.By, &q.Reason, "who does it", askedFor)
	return c
}
