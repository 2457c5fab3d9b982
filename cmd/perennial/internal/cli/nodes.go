// `perennial runners`, which shows the runners of each account.

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/web"
)

func (a operateCommands) runnersCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "runners", Aliases: []string{"runner", "nodes", "node"}, Short: "List runners and their role in each account: active (leader) or standby"}, &cobra.Command{
		Use: "list", Short: "List runners and their role in each account: active (leader) or standby", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			nodes, err := a.nodes(cmd.Context())
			if err != nil {
				return err
			}
			return a.printNodes(nodes)
		},
	})
}

// nodesTimeout limits the request for runners.
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
	one := *a.app
	if one.account == "" && len(c.Accounts) > 0 { // any account is suitable, because each shows all runners
		one.account = c.AccountNames()[0]
	}
	r, err := one.connect()
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

// at returns the host and port of a runner's /readyz and web UI. The host is empty for a
// runner with an embedded NATS server.
func at(n cluster.Node) string {
	if n.HTTPPort == 0 { // a runner of an earlier version, or a CLI command that borrows an account
		return n.Address
	}
	return net.JoinHostPort(n.Address, strconv.Itoa(n.HTTPPort))
}
