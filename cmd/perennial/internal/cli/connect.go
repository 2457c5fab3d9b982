package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger/files"
	"perennial/queue"
	"perennial/queue/service"
)

// errUnreachable means that NATS or the provider does not respond.
var errUnreachable = errors.New("unreachable")

// remote is a connection to the NATS server of one account's runner.
type remote struct {
	*queue.Queue
	account string
}

// connect connects to the runner's NATS server. The address is the first one that is set:
// --nats or PERENNIAL_NATS, the configured address, or the address that a runner wrote in
// the data directory.
func (a *app) connect() (*remote, error) {
	c, err := config.Load(a.configFile)
	if err != nil {
		return nil, err
	}
	account := a.account
	if a.natsURL == "" || account == "" {
		if account, err = c.Pick(a.account); err != nil {
			return nil, err
		}
	}
	target, err := c.Target()
	if err != nil {
		return nil, err
	}
	if a.natsURL != "" {
		target.URL, target.User, target.Password, target.Context = a.natsURL, "", "", "" // the user and password belong to the configured address
	} else if target.URL == "" && target.Context == "" {
		if target.URL, err = natsOfRun(c.DataDir); err != nil {
			return nil, err
		}
	}
	target.Log = a.logger()
	target.Log.SetFormatter(sentences{})
	q, err := queue.Connect(target)
	if err != nil {
		return nil, fmt.Errorf("%w: %w\n%s", errUnreachable, err, a.reachAgain(c))
	}
	return &remote{q, account}, nil
}

func (a *app) reachAgain(c *config.Config) string {
	switch {
	case a.natsURL != "":
		return "look at the address of --nats or PERENNIAL_NATS, and whether that server runs"
	case c.NATS.External():
		return "start the NATS server, or correct nats.url: `perennial doctor` tries it; `reviews list` and `ledger balance` work without"
	}
	return "start `perennial run` again: nothing answers at the address that its last run left"
}

// configured reads the configuration and returns the account that --account selects.
func (a *app) configured() (c *config.Config, account string, err error) {
	if c, err = config.Load(a.configFile); err != nil {
		return nil, "", err
	}
	account, err = c.Pick(a.account)
	return c, account, err
}

// selected reads the configuration and returns the accounts that --account selects: one, or all.
func (a *app) selected() (c *config.Config, accounts []string, err error) {
	if c, err = config.Load(a.configFile); err != nil {
		return nil, nil, err
	}
	accounts, err = c.PickAll(a.account)
	return c, accounts, err
}

// natsOfRun returns the NATS address of the runner in a data directory. The address includes
// the user and password that the runner wrote for commands of the same system user.
func natsOfRun(dataDir string) (string, error) {
	line, err := readRunFile(dataDir)
	if err != nil || line.User == "" {
		return line.NATS, err
	}
	at, err := url.Parse(line.NATS)
	if err != nil {
		return "", errors.New("the address in " + daemon.RunFile(dataDir) + " cannot be read\nstart `perennial run` again")
	}
	at.User = url.UserPassword(line.User, line.Password)
	return at.String(), nil
}

// maxRunFile limits the size of the file with a runner's addresses, in bytes.
const maxRunFile = 1 << 20

// readRunFile reads the addresses that a runner wrote in the data directory. It checks that the
// runner still runs.
func readRunFile(dataDir string) (line daemon.RunAddresses, err error) {
	text, err := files.Read(daemon.RunFile(dataDir), maxRunFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return line, fmt.Errorf("the addresses of a running Perennial: %w\nstart `perennial run` again", err)
	}
	if err != nil {
		return line, &exitError{ExitUnreachable, fmt.Errorf("no running Perennial was found in %s\nstart `perennial run` there, or use --nats nats://host:port", dataDir)}
	}
	if err := json.Unmarshal(text, &line); err != nil || line.NATS == "" {
		return line, fmt.Errorf("%s does not hold the addresses of a running Perennial\nstart `perennial run` again", daemon.RunFile(dataDir))
	}
	if err := answers(line); err != nil {
		return line, &exitError{ExitUnreachable, fmt.Errorf("the `perennial run` that left its addresses in %s does not answer: %w\nstart `perennial run` in %s again, or use --nats nats://host:port", daemon.RunFile(dataDir), err, dataDir)}
	}
	return line, nil
}

// answerTimeout limits the check that a runner still responds at its address.
const answerTimeout = 5 * time.Second

// answers returns an error if the runner that wrote these addresses no longer responds at the
// HTTP address. If it responds, the other addresses are valid too, because the same process
// wrote them.
func answers(line daemon.RunAddresses) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	response, err := getDirectly(ctx, line.HTTP+"/livez")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.Header.Get(daemon.InstanceHeader) != line.Instance {
		return fmt.Errorf("another program has %s now", line.HTTP)
	}
	return nil
}

// getDirectly ignores a proxy that the environment configures.
func getDirectly(ctx context.Context, address string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	return (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
}

// readReadiness returns what a running process says of its accounts.
func readReadiness(ctx context.Context, dataDir string) (v daemon.Readiness, err error) {
	line, err := readRunFile(dataDir)
	if err != nil {
		return v, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	response, err := getDirectly(ctx, line.HTTP+"/readyz?verbose")
	if err != nil {
		return v, err
	}
	defer func() { _ = response.Body.Close() }()
	err = json.NewDecoder(io.LimitReader(response.Body, maxRunFile)).Decode(&v)
	return v, err
}

// notFoundError means that the account does not know an id.
type notFoundError struct{ text string }

func (e *notFoundError) Error() string { return e.text }

// ask makes a service request to the account's runner. If the runner refuses the
// request, the error has an exit code.
func ask[Q, A any](ctx context.Context, r *remote, v verbs.Verb[Q, A], question Q) (out A, err error) {
	data, err := json.Marshal(question)
	if err != nil {
		return out, err
	}
	reply, err := service.Request(ctx, r.JetStream(), r.account, v.Name, data)
	if refused, ok := errors.AsType[*service.Error](err); ok {
		switch refused.Code {
		case daemon.CodeUnreachable:
			return out, &exitError{ExitUnreachable, errors.New(refused.Description)}
		case daemon.CodeUnconfirmed:
			return out, &exitError{ExitUsage, errors.New(refused.Description)}
		case daemon.CodeNotFound:
			return out, &exitError{ExitFailed, &notFoundError{refused.Description}}
		}
		return out, &exitError{ExitFailed, errors.New(refused.Description)}
	}
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(reply, &out); err != nil {
		return out, fmt.Errorf("the answer to %s cannot be read: %w", v.Name, err)
	}
	return out, nil
}

func askOnce[Q, A any](ctx context.Context, a *app, v verbs.Verb[Q, A], question Q) (out A, err error) {
	r, err := a.connect()
	if err != nil {
		return out, err
	}
	defer r.Close()
	return ask(ctx, r, v, question)
}

// askRunning is like askOnce, but a missing runner is not an error. If no runner answers,
// answered is false. err is not nil if NATS cannot be reached or the runner refuses.
func askRunning[Q, A any](ctx context.Context, a *app, v verbs.Verb[Q, A], question Q) (out A, answered bool, err error) {
	r, err := a.connect()
	if err != nil {
		return out, false, err
	}
	defer r.Close()
	return askIfRunning(ctx, r, v, question)
}

// askIfRunning is like askRunning, but uses a connection that already exists.
func askIfRunning[Q, A any](ctx context.Context, r *remote, v verbs.Verb[Q, A], question Q) (out A, answered bool, err error) {
	out, err = ask(ctx, r, v, question)
	if errors.Is(err, service.ErrNoRunner) {
		return out, false, nil
	}
	return out, true, err
}
