package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/ledger/files"
	"perennial/queue"
	"perennial/upstream/sandbox"
)

// embeddedAddress stands for the sandbox of the same process in the ledger's
// binding: its port differs from run to run.
const embeddedAddress = "sandbox:embedded"

// host is one `perennial run`: NATS, the accounts, and what serves them.
type host struct {
	config   *config
	log      *logrus.Logger
	unlock   func() error
	embedded *queue.Embedded
	local    queue.User // of the program's own commands, where the embedded server has users
	queue    *queue.Queue
	sandbox  *sandbox.Server
	accounts []*accountHost
	http     *httpHost
	probed   probed
	healed   time.Time // when the embedded server was last started again; heal's alone
}

// readyLine is what `run` prints once it is ready.
type readyLine struct {
	NATS     string   `json:"nats"`
	HTTP     string   `json:"http"`
	Data     string   `json:"data"`
	Accounts []string `json:"accounts"`
	Sandbox  string   `json:"sandbox,omitempty"`
	Control  string   `json:"control,omitempty"`
}

// gcPercent lets garbage grow to twice what is in use, instead of once: the
// runner keeps little for long and makes much, so that for some 30 MiB under
// full load it saves one microsecond in sixteen. GOGC overrules it.
const gcPercent = 200

// startHost starts everything that listens. Call run, then close.
func startHost(ctx context.Context, c *config, log *logrus.Logger) (*host, error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	h := &host{config: c, log: log}
	if err := h.start(ctx); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *host) start(ctx context.Context) (err error) {
	if h.unlock, err = queue.LockDir(h.config.DataDir); err != nil {
		return err
	}
	if h.config.embedded {
		if err := h.startSandbox(ctx); err != nil {
			return err
		}
	}
	if err := h.connect(); err != nil {
		return err
	}
	for _, name := range h.config.accountNames() {
		a, err := newAccountHost(ctx, h, name)
		if err != nil {
			return err
		}
		h.accounts = append(h.accounts, a)
	}
	if err := distinctBindings(ctx, h.accounts); err != nil {
		return err
	}
	if h.http, err = startHTTP(h); err != nil {
		return err
	}
	return h.writeRunFile()
}

// startSandbox serves the API in this process and makes it the account's provider.
func (h *host) startSandbox(ctx context.Context) error {
	var err error
	h.sandbox, err = sandbox.Start(context.WithoutCancel(ctx), sandbox.Options{
		Listen: "127.0.0.1:0", ListenProduction: "127.0.0.1:0", Control: "127.0.0.1:0",
		DB: filepath.Join(h.config.DataDir, "sandbox.db"), Charges: filepath.Join(h.config.DataDir, "sandbox.charges.jsonl"),
		Fixture: sandbox.DefaultFixture(), Clock: time.Now, Log: h.log,
	})
	if err != nil {
		return fmt.Errorf("start the embedded sandbox: %w", err)
	}
	main := h.config.Accounts["main"]
	main.BaseURL, main.AppID, main.secret = h.sandbox.SandboxURL(), sandbox.DemoSandboxAppID, sandbox.DemoSandboxSecret
	main.location = time.UTC
	return nil
}

func (h *host) connect() error {
	n := h.config.NATS
	if n.URL != "" || n.Context != "" {
		target, err := h.config.target()
		if err != nil {
			return err
		}
		target.LeaseReplicas, target.Log, target.Wait = h.replicas(), h.log, true
		h.queue, err = queue.Connect(target)
		if err == nil && h.queue.Down() == "" {
			err = h.refuseAnonymous()
		}
		return err
	}
	users, err := h.config.natsUsers()
	if err != nil {
		return err
	}
	if len(users) > 0 {
		h.local = localUser(h.config.accountNames())
		users = append(users, h.local)
	}
	h.embedded, err = queue.StartEmbedded(queue.EmbeddedConfig{
		Listen: n.Listen, StoreDir: filepath.Join(h.config.DataDir, "nats"), Users: users, Log: h.log,
	})
	if err != nil {
		return err
	}
	h.queue, err = queue.Connect(queue.ConnectConfig{Embedded: h.embedded, Log: h.log})
	return err
}

// refuseAnonymous refuses a NATS that lets in every client that reaches it, where a
// production account's money could be spent through it.
func (h *host) refuseAnonymous() error {
	name := h.config.production()
	if h.embedded != nil || name == "" || !h.queue.Anonymous() {
		return nil
	}
	return fmt.Errorf("accounts.%s is a production account and NATS at %s lets anybody in: whoever can connect could spend its money\n"+
		"give the server users (`perennial nats-config` prints them), and say how it is entered: nats.password_file, nats.creds_file or nats.context", name, h.queue.URL())
}

func (h *host) replicas() int {
	most := 1
	for _, a := range h.config.Accounts {
		most = max(most, a.Replicas)
	}
	return most
}

// run works until ctx ends, or until every account has stopped.
func (h *host) run(ctx context.Context) error {
	if len(h.accounts) == 0 {
		return nil
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); h.watch(watching) }()
	defer func() { stop(); <-watched }()
	var group sync.WaitGroup
	stopped := make([]error, len(h.accounts))
	for i, a := range h.accounts {
		group.Go(func() {
			stopped[i] = a.run(ctx)
			if stopped[i] != nil && ctx.Err() == nil {
				h.log.WithField("account", a.name).WithError(stopped[i]).Error("the account has stopped; the others go on")
			}
		})
	}
	group.Wait()
	select {
	case <-ctx.Done(): // it was asked to stop
		return nil
	default:
		return errors.Join(stopped...)
	}
}

func (h *host) close() {
	if h.http != nil {
		h.http.close()
	}
	for _, a := range h.accounts {
		a.close()
	}
	if h.queue != nil {
		h.queue.Close()
	}
	if h.embedded != nil {
		h.embedded.Shutdown()
	}
	if h.sandbox != nil {
		if err := h.sandbox.Close(); err != nil {
			h.log.WithError(err).Warn("the embedded sandbox did not close cleanly")
		}
	}
	if h.unlock != nil {
		_ = os.Remove(runFile(h.config.DataDir))
		_ = h.unlock()
	}
}

// startPatience is how long `run` waits before it says that it is ready, for
// accounts that another runner holds.
const startPatience = 5 * time.Second

// waitStarted returns when every account works, or is known not to for now.
func (h *host) waitStarted(ctx context.Context) {
	timer := time.NewTimer(startPatience)
	defer timer.Stop()
	for _, a := range h.accounts {
		select {
		case <-a.started:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (h *host) ready() readyLine {
	line := readyLine{NATS: h.natsURL(), HTTP: h.http.url(), Data: h.config.DataDir, Accounts: h.config.accountNames()}
	if h.sandbox != nil {
		line.Sandbox, line.Control = h.sandbox.SandboxURL(), h.sandbox.ControlURL()
	}
	return line
}

func (h *host) natsURL() string {
	if h.embedded != nil {
		return h.embedded.URL()
	}
	return h.queue.URL()
}

// runFile is where a running host leaves its addresses, for the commands that
// are called in the same directory.
func runFile(dataDir string) string { return filepath.Join(dataDir, "run.json") }

// runLine is what the file holds: the ready line, and under which name the commands
// connect where the embedded server has users. The password is of this run alone.
type runLine struct {
	readyLine
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

func (h *host) writeRunFile() error {
	text, err := json.Marshal(runLine{h.ready(), h.local.Name, h.local.Password}) //nolint:gosec // a password of this run, in a file of mode 0600
	if err == nil {
		// A link that stands there is replaced, and not written to.
		err = files.Write(runFile(h.config.DataDir), 0o600, func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err })
	}
	if err != nil {
		return fmt.Errorf("leave the addresses for other commands: %w", err)
	}
	return nil
}
