// `perennial accounts move`, which pins an account to a runner.

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/ledger/sleep"
	"perennial/queue/nodes"
)

// Moved is what `accounts move` prints.
type Moved struct {
	Account string `json:"account"`
	From    string `json:"from"` // the previous runner, or ""
	Node    string `json:"node"` // the runner that leads the account now
	Pinned  bool   `json:"pinned"`
}

// move contains the flags of `accounts move`.
type move struct {
	account, to string
	anywhere    bool
	timeout     time.Duration
}

func (a operateCommands) accountMove() *cobra.Command {
	var m move
	c := &cobra.Command{
		Use: "move NAME (--to NODE | --anywhere)", Short: "Pin an account to a runner", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m.account = args[0]
			if (m.to == "") != m.anywhere {
				return usage("accounts move: use --to NODE, or --anywhere")
			}
			if m.timeout <= 0 {
				return usage("account move: --timeout must be more than 0")
			}
			return a.moveAccount(cmd.Context(), m)
		},
	}
	c.Flags().StringVar(&m.to, "to", "", "the `node` that is to run the account, as perennial runners lists it")
	c.Flags().BoolVar(&m.anywhere, "anywhere", false, "remove the pin: any runner may then run the account")
	c.Flags().DurationVar(&m.timeout, "timeout", time.Minute, "how long to wait until the runner has the account")
	return c
}

func (a operateCommands) moveAccount(ctx context.Context, m move) error {
	c, err := config.Load(a.configFile)
	if err != nil {
		return err
	}
	account := c.Accounts[m.account]
	if account == nil {
		return usage("account move: no account %q is configured\nconfigured: %s", m.account, strings.Join(c.AccountNames(), ", "))
	}
	if !a.externalNATS(c) {
		return usage("account move: with the embedded NATS server there is one runner, and it runs every account\nsay nats.url to have several")
	}
	one := *a.app
	one.account = m.account
	r, err := one.connect()
	if err != nil {
		return err
	}
	defer r.Close()
	limited, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	living, err := cluster.Nodes(limited, r.Queue)
	if err != nil {
		return err
	}
	from := activeNode(living, m.account)
	if m.anywhere {
		if err := nodes.Unpin(limited, r.JetStream(), m.account); err != nil {
			return err
		}
		return a.printMoved(Moved{Account: m.account, From: from, Node: from})
	}
	if err := movable(living, m); err != nil {
		return err
	}
	if err := nodes.Pin(limited, r.JetStream(), m.account, m.to, account.Replicas); err != nil {
		return err
	}
	if err := awaitActive(ctx, r, m); err != nil {
		return err
	}
	return a.printMoved(Moved{Account: m.account, From: from, Node: m.to, Pinned: true})
}

// movable returns an error if the chosen runner is not live or does not have the account.
func movable(nodes []cluster.Node, m move) error {
	living := make([]string, 0, len(nodes))
	for _, n := range nodes {
		living = append(living, n.Node)
	}
	i := slices.Index(living, m.to)
	switch {
	case len(living) == 0:
		return &exitError{ExitUnreachable, errors.New("no runner has sent a heartbeat in the last ten seconds\nstart `perennial run`")}
	case i < 0:
		return usage("account move: no runner %q lives\nliving: %s", m.to, strings.Join(living, ", "))
	case !slices.ContainsFunc(nodes[i].Accounts, func(x cluster.NodeAccount) bool { return x.Account == m.account }):
		return usage("account move: runner %s does not have account %s in its configuration", m.to, m.account)
	}
	return nil
}

// activeNode returns the runner that leads an account, or "".
func activeNode(nodes []cluster.Node, account string) string {
	for _, n := range nodes {
		if slices.ContainsFunc(n.Accounts, func(x cluster.NodeAccount) bool { return x.Account == account && x.Role == "active" }) {
			return n.Node
		}
	}
	return ""
}

// moveLook is the interval between checks for the account's leader.
const moveLook = 250 * time.Millisecond

// awaitActive waits until the chosen runner leads the account. If this takes longer than
// --timeout, awaitActive returns an error, and the pin remains.
func awaitActive(ctx context.Context, r *remote, m move) error {
	limited, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	for {
		nodes, err := cluster.Nodes(limited, r.Queue)
		if err == nil && activeNode(nodes, m.account) == m.to {
			return nil
		}
		if sleep.For(limited, moveLook) == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		why := "account %s is not run by %s after %s: it moves there as soon as that runner can run it\n`perennial runners` shows both, and `perennial accounts move %s --anywhere` takes this back"
		return &exitError{ExitPartly, fmt.Errorf(why, m.account, m.to, m.timeout, m.account)}
	}
}

func (a operateCommands) printMoved(m Moved) error {
	if a.output == "json" {
		return printJSON(a.stdout, m)
	}
	text := "account " + m.Account
	switch {
	case !m.Pinned:
		text += " may be run by any runner"
	case m.From == m.Node:
		text += " stays with " + m.Node
	case m.From == "":
		text += " is run by " + m.Node
	default:
		text += " moved from " + m.From + " to " + m.Node
	}
	if m.Pinned {
		text += ", as long as that runner lives"
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}
