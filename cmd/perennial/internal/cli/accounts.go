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
)

// eachAccount runs do for every account that the command looks at, in the order
// of their names; account is empty where it is only one. An account for which do
// fails is named on stderr, and the others follow.
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

// nameFailed says on stderr why an account is missing from what is shown.
func (a *app) nameFailed(ctx context.Context, account string, err error) error {
	text := strings.TrimPrefix(errorText(err), "perennial: ")
	if a.output == "json" {
		return printJSON(a.stderr, map[string]any{"account": account, "error": text, "exit_code": exitCode(ctx, err)})
	}
	_, err = fmt.Fprintf(a.stderr, "account %s: %s\n", account, text)
	return err
}

// failedAccounts is the end of a command over several accounts: with the code of
// the first failure when none could be read, else partly.
func failedAccounts(ctx context.Context, failed, all int, first error) error {
	switch failed {
	case 0:
		return nil
	case all:
		return &exitError{exitCode(ctx, first), fmt.Errorf("none of the %d accounts could be read", all)}
	}
	return &exitError{ExitPartly, fmt.Errorf("%d of %d accounts could not be read", failed, all)}
}

// listing prints records of one account or of several: as JSON one a line as they
// come, else in one table at the end. Where they are of several, each has its
// account: in a field, or in the first column.
type listing struct {
	app     *app
	heading []string
	rows    [][]string
	several bool
}

func (a *app) listing(heading ...string) *listing { return &listing{app: a, heading: heading} }

// add prints or keeps one record. account is empty where the listing is of one.
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

// printOfAccount prints a record as an object that begins with its account.
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

// end prints the table, unless err left nothing to show, and returns err.
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
