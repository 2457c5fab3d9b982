// `perennial proxies list` without --live, which lists the proxies in the ledger.

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
)

// proxiesQuery contains the filters of the list.
type proxiesQuery struct {
	tables.ProxiesQuery

	label, schedule, state string
}

func (q *proxiesQuery) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&q.ID, "id", "", "only proxies whose id contains this text")
	c.Flags().StringVar(&q.Country, "country", "", "only proxies with this country code")
	c.Flags().StringVar(&q.label, "label", "", "only proxies whose order had this label, such as team=shop")
	c.Flags().StringVar(&q.schedule, "schedule", "", "only proxies that this schedule renews")
	c.Flags().StringVar(&q.state, "state", "", "only proxies in this state: "+strings.Join(plans.ProxyStates, ", "))
}

// filters reports whether a filter is set.
func (q *proxiesQuery) filters() bool {
	return q.ID != "" || q.Country != "" || q.label != "" || q.schedule != "" || q.state != ""
}

// check validates and parses the flags.
func (q *proxiesQuery) check(live, uncovered bool) error {
	q.Limit = proxiesRead
	if (live || uncovered) && q.filters() {
		return usage("--live and --uncovered take no filters")
	}
	var named bool
	if q.Name, q.Value, named = strings.Cut(q.label, "="); q.label != "" && (!named || q.Name == "") {
		return usage("--label: %q has no name and value. Write it as team=shop.", q.label)
	}
	if q.state != "" && !slices.Contains(plans.ProxyStates, q.state) {
		return usage("--state: %q is not a state of a proxy. Use one of: %s.", q.state, strings.Join(plans.ProxyStates, ", "))
	}
	return nil
}

// proxiesRead is the number of proxies read at a time.
const proxiesRead = 2000

// each calls yield for every proxy that matches.
func (q *proxiesQuery) each(ctx context.Context, l *ledger.Ledger, c *plans.Coverage, yield func(tables.Proxy) error) error {
	for query := q.ProxiesQuery; ; {
		page, err := l.Fleet.ProxiesPage(ctx, query)
		for _, p := range page.Proxies {
			s, _ := c.Of(p.Proxy)
			if err == nil && (q.schedule == "" || s.Name == q.schedule) && (q.state == "" || c.State(p, time.Now()) == q.state) {
				err = yield(p.Proxy)
			}
		}
		if query.After = page.Next; err != nil || page.Next == (tables.ExpiryPlace{}) {
			return err
		}
	}
}

// listKnown prints the ledger's proxies that match a query, followed by notes about the
// lists of the accounts.
func (a providerCommands) listKnown(ctx context.Context, list *listing, query proxiesQuery, uncovered bool) error {
	c, err := config.Load(a.configFile)
	if err != nil {
		return err
	}
	var notes []listNote
	err = a.eachLedger(ctx, func(ctx context.Context, l *ledger.Ledger, account string) error {
		name := cmp.Or(account, a.account, c.AccountNames()[0])
		shown := 0
		err := knownProxies(ctx, l, c, name, query, uncovered, func(p tables.Proxy) error {
			shown++
			return addProxy(list, account, p)
		})
		last, listing := l.Fleet.Listing(ctx)
		if note := listedNote(c, name, shown, uncovered, !last.Finished.IsZero()); note != "" && (last.Finished.IsZero() || !query.filters()) {
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

// listNote is a note about a list of proxies. Account is "" if only one account is selected.
type listNote struct {
	Account string `json:"account,omitempty"`
	Note    string `json:"note"`
}

// printNote prints the note under a table, or to stderr if the output is JSON.
func (a providerCommands) printNote(n listNote) error {
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

// knownProxies yields an account's proxies, nearest expiry first.
func knownProxies(ctx context.Context, l *ledger.Ledger, c *config.Config, account string, query proxiesQuery, uncovered bool, yield func(tables.Proxy) error) error {
	if !uncovered {
		coverage := &plans.Coverage{}
		if query.schedule != "" || query.state != "" { // other filters do not use the coverage, so they work even if a list of proxies is missing
			var err error
			if coverage, err = plans.NewCoverage(c.SchedulesOf(account), plans.HistoryOf(l.Queries), c.ReadListFile); err != nil {
				return err
			}
		}
		return query.each(ctx, l, coverage, yield)
	}
	var lost []tables.Proxy
	err := schedules.Uncovered(ctx, l.Fleet, time.Now(), c.SchedulesOf(account), c.ReadListFile, func(p tables.Proxy) error {
		if !p.LastsUntil().After(query.Until) {
			lost = append(lost, p)
		}
		return nil
	})
	slices.SortFunc(lost, func(x, y tables.Proxy) int { return x.LastsUntil().Compare(*y.LastsUntil()) })
	for _, p := range lost {
		if err := yield(p); err != nil {
			return err
		}
	}
	return err
}

// listedNote returns a note about an account's list of proxies, or "". It says which proxies
// the list may lack, or that the listed proxies will not be renewed.
func listedNote(c *config.Config, account string, shown int, uncovered, listed bool) string {
	switch {
	case !listed:
		return "no listing of the account's proxies has ended yet: these are only those that commands have touched; --live reads the provider's list"
	case uncovered && shown > 0:
		return fmt.Sprintf("%d proxies will not be renewed: they are in no schedule", shown)
	case shown > 0 && len(c.SchedulesOf(account)) == 0:
		return "no schedule renews them, and they are listed once an hour; --live reads the provider's list"
	case shown == 0 && !uncovered:
		return "none was listed; --live reads the provider's list"
	}
	return ""
}
