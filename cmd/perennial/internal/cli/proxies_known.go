// `perennial proxies list` without --live: the proxies that the ledger knows.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger"
	"perennial/schedules"
)

// listKnown prints the proxies that the ledger knows and that expire before an
// instant, and says what that list is not.
func (a *app) listKnown(ctx context.Context, list *listing, until time.Time, uncovered bool) error {
	c, err := config.Load(a.configFile)
	if err != nil {
		return err
	}
	var notes []listNote
	err = a.eachLedger(ctx, func(ctx context.Context, l *ledger.Ledger, account string) error {
		name := cmp.Or(account, a.account, c.AccountNames()[0])
		shown := 0
		err := knownProxies(ctx, l, c, name, until, uncovered, func(p ledger.Proxy) error {
			shown++
			return addProxy(list, account, p)
		})
		last, listing := l.Listing(ctx)
		if note := listedNote(c, name, shown, uncovered, !last.Finished.IsZero()); note != "" {
			notes = append(notes, listNote{account, note})
		}
		return errors.Join(err, listing)
	})
	err = list.end(err)
	for _, note := range notes {
		err = errors.Join(err, a.printNote(note))
	}
	return err
}

// listNote is what a list is not; Account is empty where there is only one.
type listNote struct {
	Account string `json:"account,omitempty"`
	Note    string `json:"note"`
}

// printNote prints it under a table, and beside JSON on stderr.
func (a *app) printNote(n listNote) error {
	if a.output == "json" {
		return printJSON(a.stderr, n)
	}
	text := n.Note
	if n.Account != "" {
		text = "account " + n.Account + ": " + text
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}

// knownProxies yields an account's proxies, the nearest expiry first.
func knownProxies(ctx context.Context, l *ledger.Ledger, c *config.Config, account string, until time.Time, uncovered bool, yield func(ledger.Proxy) error) error {
	if !uncovered {
		return l.EachExpiring(ctx, time.Time{}, until, yield)
	}
	var lost []ledger.Proxy
	err := schedules.Uncovered(ctx, l, time.Now(), c.SchedulesOf(account), c.ReadListFile, func(p ledger.Proxy) error {
		if !p.LastsUntil().After(until) {
			lost = append(lost, p)
		}
		return nil
	})
	slices.SortFunc(lost, func(x, y ledger.Proxy) int { return x.LastsUntil().Compare(*y.LastsUntil()) })
	for _, p := range lost {
		if err := yield(p); err != nil {
			return err
		}
	}
	return err
}

// listedNote says what is missing from the list of an account.
func listedNote(c *config.Config, account string, shown int, uncovered, listed bool) string {
	switch {
	case !listed:
		return "no listing of the account's proxies has ended yet: these are only those that commands have touched; --live reads the provider's list"
	case uncovered && shown > 0:
		return fmt.Sprintf("%d proxies will not be renewed: no schedule covers them", shown)
	case shown > 0 && len(c.SchedulesOf(account)) == 0:
		return "no schedule renews them, and they are listed once an hour; --live reads the provider's list"
	case shown == 0 && !uncovered:
		return "none was listed; --live reads the provider's list"
	}
	return ""
}
