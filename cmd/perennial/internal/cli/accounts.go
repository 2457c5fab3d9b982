package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/cmd/perennial/internal/web"
	"perennial/jobs/inspect"
	"perennial/ledger/sleep"
	"perennial/queue/nodes"
)

// eachAccount calls do for every selected account, in the order of their names. If only one
// account is selected, it passes "" as account. If an account fails, eachAccount prints the
// error to stderr and continues with the next account.
func (a *app) eachAccount(ctx context.Context, do func(one *app, account string) error) error {
	if a.account != "" {
		return do(a, "")
	}
	_, names, err := a.selected()
	if err != nil {
		return err
	}
	if len(names) == 1 {
		return do(a, "")
	}
	var first error
	failed := 0
	for _, name := range names {
		err := do(a.of(name), name)
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			continue
		}
		failed++
		first = cmp.Or(first, err)
		if err := a.nameFailed(ctx, name, err); err != nil {
			return err
		}
	}
	switch failed {
	case 0:
		return nil
	case len(names): // the exit code is that of the first failure
		return &exitError{exitCode(ctx, first), fmt.Errorf("none of the %d accounts could be read", failed)}
	}
	return &exitError{ExitPartly, fmt.Errorf("%d of %d accounts could not be read", failed, len(names))}
}

// of returns a copy of the app that has this account selected.
func (a *app) of(account string) *app {
	one := *a
	one.account = account
	return &one
}

func (a *app) nameFailed(ctx context.Context, account string, err error) error {
	text := strings.TrimPrefix(errorText(err), "perennial: ")
	if a.output == "json" {
		return printJSON(a.stderr, map[string]any{"account": account, "error": text, "exit_code": exitCode(ctx, err)})
	}
	_, err = fmt.Fprintf(a.stderr, "account %s: %s\n", account, text)
	return err
}

func (a operateCommands) accountsCommand() *cobra.Command {
	show := newCommand("show [NAME]", "Show an account: provider, pauses, event lag", func(ctx context.Context, args []string) error {
		if err := a.nameAccount(args); err != nil {
			return err
		}
		v, err := askOnce(ctx, a.app, verbs.Show, struct{}{})
		if err != nil {
			return err
		}
		return a.printAccount(v)
	})
	return noun(&cobra.Command{Use: "accounts", Aliases: []string{"account"}, Short: "List, show, pause, resume and move accounts, and rotate their keys"},
		a.accountsList(), show, a.accountRotate(), a.accountMove(),
		a.accountsPause(), a.accountsResume())
}

func (a operateCommands) accountsPause() *cobra.Command {
	var q verbs.OperatorRequest
	c := accountChange(a, "pause", "Stop sending requests to the provider", "paused account %s: `perennial accounts resume %[1]s` resumes it", verbs.Pause, &q)
	return signed(c, &q.By, &q.Reason, askedFor)
}

func (a operateCommands) accountsResume() *cobra.Command {
	var q verbs.ResumeRequest
	c := accountChange(a, "resume", "Resume sending requests to the provider (ends all pauses)", "resumed account %s", verbs.Resume, &q)
	c.Flags().BoolVar(&q.ReviewLost, "review-lost", false, "after a restore: send nothing in the next 24 hours that may have been paid in the lost time; it needs review instead")
	return signed(c, &q.By, &q.Reason, askedFor)
}

func (a operateCommands) accountsList() *cobra.Command {
	return newCommand("list", "List the accounts", func(ctx context.Context, _ []string) error {
		list := a.listing("no accounts are configured", "NAME", "STATUS", "ENVIRONMENT", "ADDRESS", "PAUSED", "NOT READY")
		err := a.eachAccount(ctx, func(one *app, _ string) error {
			v, err := askOnce(ctx, one, verbs.Show, struct{}{})
			if err != nil {
				return err
			}
			var paused []string
			for _, p := range v.Paused {
				paused = append(paused, p.Scope)
			}
			list.add("", v, v.Account, v.Status, v.Environment, v.BaseURL, strings.Join(paused, ", "), v.NotReady)
			return nil
		})
		return list.end(err)
	})
}

// accountChange returns a CLI command that changes one account. If several accounts are
// configured, the user must select one with the argument or --account.
func accountChange[Q any](a operateCommands, use, short, done string, v verbs.Verb[Q, verbs.Changed], q *Q) *cobra.Command {
	return newCommand(use+" [NAME]", short, func(ctx context.Context, args []string) error {
		if err := a.nameAccount(args); err != nil {
			return err
		}
		r, err := a.connect()
		if err != nil {
			return err
		}
		defer r.Close()
		changed, err := ask(ctx, r, v, *q)
		return a.printChange(changed, fmt.Sprintf(done, r.account), err)
	})
}

func (a *app) nameAccount(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if a.account != "" && a.account != args[0] {
		return usage("account %s is named, and --account %s: name one", args[0], a.account)
	}
	a.account = args[0]
	return nil
}

// activeAccount is the only account status that needs no attention. The API document does
// not list the possible values.
const activeAccount = "active"

func (a *app) printAccount(v verbs.AccountView) error {
	status := v.Status
	if status != "" && status != activeAccount {
		status += "  (not " + activeAccount + ": ask the provider why)"
	}
	rows := [][]string{
		{"provider account", v.AccountID}, {"status", status}, {"e-mail", v.Email}, {"created", stamp(v.CreatedAt)}, {"environment", v.Environment}, {"address", v.BaseURL}, {"app id", v.AppID},
		{"journal head", strconv.FormatInt(v.Head.Seq, 10)}, {"published", strconv.FormatUint(v.Published, 10)},
	}
	if v.ShortOfMoney {
		rows = append(rows, []string{"short of money", "the wallet could not pay for the last operation: top it up"})
	}
	rows = append(rows, []string{"reconciled", web.ReconciledText(v.Reconciled, v.Currency)})
	for _, p := range v.Paused {
		rows = append(rows, []string{"paused", inspect.PauseText(p)})
	}
	return a.printTable(v, []string{"ACCOUNT", v.Account}, rows)
}

// Moved is what `accounts move` prints.
type Moved struct {
	Account string `json:"account"`
	From    string `json:"from"` // the previous runner, or ""
	Node    string `json:"node"` // the runner that leads the account now
	Pinned  bool   `json:"pinned"`
}

type move struct {
	account, to string
	anywhere    bool
	timeout     time.Duration
}

func (a operateCommands) accountMove() *cobra.Command {
	var m move
	c := newCommand("move NAME (--to NODE | --anywhere)", "Pin an account to a runner", func(ctx context.Context, args []string) error {
		m.account = args[0]
		if (m.to == "") != m.anywhere {
			return usage("accounts move: use --to NODE, or --anywhere")
		}
		if m.timeout <= 0 {
			return usage("accounts move: --timeout must be more than 0")
		}
		return a.moveAccount(ctx, m)
	})
	c.Flags().StringVar(&m.to, "to", "", "the `runner` that should run the account, by its name in the list of runners")
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
		return usage("accounts move: no account %q is configured\nconfigured: %s", m.account, strings.Join(c.AccountNames(), ", "))
	}
	if !a.externalNATS(c) {
		return usage("accounts move: with the embedded NATS server there is one runner, and it runs every account\nsay nats.url to have several")
	}
	r, err := a.of(m.account).connect()
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
		return usage("accounts move: no runner %q lives\nliving: %s", m.to, strings.Join(living, ", "))
	case !slices.ContainsFunc(nodes[i].Accounts, func(x cluster.NodeAccount) bool { return x.Account == m.account }):
		return usage("accounts move: runner %s does not have account %s in its configuration", m.to, m.account)
	}
	return nil
}

func activeNode(nodes []cluster.Node, account string) string {
	for _, n := range nodes {
		if slices.ContainsFunc(n.Accounts, func(x cluster.NodeAccount) bool { return x.Account == account && x.Role == "active" }) {
			return n.Node
		}
	}
	return ""
}

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
	return a.say(m, "%s\n", text)
}

func (a operateCommands) runnersCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "runners", Aliases: []string{"runner", "nodes", "node"}, Short: "List runners and their role in each account: active (leader) or standby"}, newCommand("list", "List runners and their role in each account: active (leader) or standby", func(ctx context.Context, _ []string) error {
		nodes, err := a.nodes(ctx)
		if err != nil {
			return err
		}
		return a.printNodes(nodes)
	}))
}

const nodesTimeout = 10 * time.Second

// nodes returns the live runners. It asks the configured external NATS, or the runner of the
// data directory.
func (a operateCommands) nodes(ctx context.Context) ([]cluster.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	c, err := config.Load(a.configFile)
	if err != nil {
		return nil, err
	}
	if !a.externalNATS(c) {
		return nodesOfRun(ctx, c.DataDir)
	}
	account := a.account
	if account == "" && len(c.Accounts) > 0 { // any account is suitable, because each shows all runners
		account = c.AccountNames()[0]
	}
	r, err := a.of(account).connect()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	nodes, err := cluster.Nodes(ctx, r.Queue)
	if err != nil {
		return nil, &exitError{ExitUnreachable, fmt.Errorf("what the runners say cannot be read: %w\nsee that most of the NATS servers run", err)}
	}
	return nodes, nil
}

// nodesOfRun asks the runner of a data directory over HTTP. It cannot use NATS, because
// users of an embedded server may not read the runners' heartbeats.
func nodesOfRun(ctx context.Context, dataDir string) (nodes []cluster.Node, err error) {
	line, err := readRunFile(dataDir)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, line.HTTP+"/nodes", nil)
	if err != nil {
		return nil, err
	}
	code, err := daemon.LoginCode(dataDir, web.Person{Name: operator(), Role: web.Viewer})
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+code)
	direct := &http.Transport{DisableKeepAlives: true} // ignores a proxy that the environment configures, which would get the code
	response, err := (&http.Client{Transport: direct}).Do(request)
	if err != nil {
		return nil, &exitError{ExitUnreachable, fmt.Errorf("no running Perennial answers at %s: %w\nstart `perennial run` again", line.HTTP, err)}
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, &exitError{ExitUnreachable, fmt.Errorf("%s/nodes answers %s", line.HTTP, response.Status)}
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, response.Body, maxRunFile)).Decode(&nodes); err != nil {
		return nil, fmt.Errorf("the answer of %s/nodes cannot be read: %w", line.HTTP, err)
	}
	return nodes, nil
}

func (a operateCommands) printNodes(nodes []cluster.Node) error {
	var rows [][]string
	for _, n := range nodes {
		if a.output == "json" {
			if err := printJSON(a.stdout, n); err != nil {
				return err
			}
			continue
		}
		for _, x := range n.Accounts {
			ready := "no"
			if x.Ready {
				ready = "yes"
			}
			rows = append(rows, []string{n.Node, n.Version, n.StartedAt.UTC().Format(time.RFC3339), x.Account, x.Role, ready,
				strconv.FormatInt(x.Head, 10), strconv.FormatUint(x.Lag, 10), at(n), x.Settings})
		}
	}
	switch {
	case a.output == "json":
		return nil
	case len(rows) == 0:
		_, err := fmt.Fprintln(a.stdout, "No runner has sent a heartbeat in the last ten seconds.")
		return err
	}
	err := a.table([]string{"NODE", "VERSION", "STARTED", "ACCOUNT", "ROLE", "READY", "HEAD", "LAG", "HTTP", "SETTINGS"}, rows)
	if other := cluster.OtherSettings(nodes); err == nil && len(other) > 0 {
		_, err = fmt.Fprintf(a.stdout, "\n%s\n-> %s\n", strings.Join(other, "\n"), cluster.OtherSettingsAdvice)
	}
	return err
}

// at returns the host and port where a runner serves /readyz and the web UI. The host is empty
// for a runner with an embedded NATS server.
func at(n cluster.Node) string {
	if n.HTTPPort == 0 { // a runner of an earlier version, or a CLI command that borrows an account
		return n.Address
	}
	return net.JoinHostPort(n.Address, strconv.Itoa(n.HTTPPort))
}
