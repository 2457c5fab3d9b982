package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/datadir"
	"perennial/cmd/perennial/internal/schema"
	"perennial/cmd/perennial/internal/tracing"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger"
	"perennial/ledger/files"
	"perennial/queue"
	"perennial/queue/broker"
	"perennial/queue/embedded"
	"perennial/queue/lease"
	"perennial/queue/roles"
	"perennial/upstream/sandbox"
)

// Host is the process of one `perennial run`: NATS, the accounts and their servers.
type Host struct {
	Config    *config.Config
	log       *logrus.Logger
	lock      *datadir.Lock
	name      cluster.Name // this runner's name among the runners
	holder    string       // this runner's name in leases
	instance  string       // identifies this process, in InstanceHeader
	Embedded  *embedded.Server
	local     roles.User // NATS user for CLI commands on this machine, if the embedded server has users
	Queue     *queue.Queue
	leases    *lease.Leases
	Sandbox   *sandbox.Server
	Accounts  []*account
	absent    []absentAccount
	binding   sync.Mutex    // held while an account is bound to its provider account
	turns     *ledger.Turns // limits the number of ledger writers that work simultaneously
	HTTP      *httpHost
	registry  *prometheus.Registry         // of the metrics
	tracer    *tracing.Tracer              // nil if traces are not sent
	metadata  map[string]map[string]string // metadata of each service request, shown in $SRV.INFO
	probed    probed
	reread    reread
	peers     cluster.Peers // the other runners, on an external NATS
	changed   chan struct{} // signals that this runner's own state has changed
	stopping  atomic.Bool
	connected atomic.Pointer[time.Time] // when the connection to NATS was last restored; nil if it was never lost
	started   time.Time
	healed    time.Time // last restart of the embedded server; only heal uses it
}

// absentAccount is an account that could not start although other accounts of the
// configuration did. An operator must remove the cause and restart the runner.
type absentAccount struct {
	name  string
	check check
}

// ReadyLine is the output that `run` prints when it is ready.
type ReadyLine struct {
	NATS     string   `json:"nats"`
	HTTP     string   `json:"http"`
	Data     string   `json:"data"`
	Accounts []string `json:"accounts"`
	Sandbox  string   `json:"sandbox,omitempty"`
	Control  string   `json:"control,omitempty"`
}

// gcPercent lets the heap grow to three times the live data, instead of twice. Under full load,
// this saves a sixteenth of the CPU time, but needs about 30 MiB more memory. The environment
// variable GOGC overrides it.
const gcPercent = 200

// lockWithin is how long a start waits for the lock on the data directory, which a killed
// process may still have.
const lockWithin = 3 * time.Second

// Start starts NATS, the accounts and the HTTP server. Call Run to begin work, then Close.
func Start(ctx context.Context, c *config.Config, log *logrus.Logger) (*Host, error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	h := &Host{Config: c, log: log, started: time.Now().UTC().Truncate(time.Second), changed: make(chan struct{}, 1), registry: prometheus.NewRegistry()}
	if err := h.start(ctx); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *Host) start(ctx context.Context) (err error) {
	if h.lock, err = datadir.Await(ctx, h.Config.DataDir, lockWithin); err != nil {
		return err
	}
	if h.metadata, err = schema.VerbMetadata(); err != nil {
		return err
	}
	h.holder, h.instance = cluster.HolderOf(h.Config.DataDir), rand.Text()
	h.name.Set(cluster.NodeOf(h.Config.DataDir))
	if h.Config.Tracing.On() {
		if h.tracer, err = tracing.New(ctx, h.Config.Tracing, h.name.Get(), h.log); err != nil {
			return err
		}
	}
	if h.Config.Embedded {
		if err := h.startSandbox(ctx); err != nil {
			return err
		}
	}
	if err := h.connect(); err != nil {
		return err
	}
	h.leases = lease.New(h.Queue.JetStream(), h.replicas())
	if len(h.Config.Accounts) > 1 { // half of the cores, because other work on commands runs at the same time
		h.turns = ledger.NewTurns(runtime.GOMAXPROCS(0) / 2)
	}
	var failed error // of the first account that does not start
	for _, name := range h.Config.AccountNames() {
		a, err := newAccountHost(ctx, h, name)
		if needs := missingOf(err); needs != "" && len(h.Config.AccountNames()) > 1 {
			h.log.WithError(err).WithField("account", name).Error("the account does not start, the others do")
			h.absent = append(h.absent, absentAccount{name, check{Name: needs, Since: h.started, Detail: strings.ReplaceAll(err.Error(), "\n", "; ") + "; then restart the runner"}})
			failed = cmp.Or(failed, err)
			continue
		}
		if err != nil {
			return err
		}
		h.Accounts = append(h.Accounts, a)
	}
	if len(h.Accounts) == 0 && failed != nil {
		return failed
	}
	if h.HTTP, err = startHTTP(h); err != nil {
		return err
	}
	return h.writeRunFile()
}

// missingOf returns the name of the check that reports an error of one account: a ledger that cannot
// be opened, or a secret that cannot be used. It returns "" for any other error.
func missingOf(err error) string {
	if _, unopened := errors.AsType[*unopenedError](err); unopened && !errors.Is(err, context.Canceled) {
		return checkLedger
	}
	if _, secret := errors.AsType[*config.Error](err); secret {
		return checkAccount
	}
	return ""
}

func (h *Host) startSandbox(ctx context.Context) error {
	var err error
	h.Sandbox, err = sandbox.Start(context.WithoutCancel(ctx), sandbox.Options{
		Listen: "127.0.0.1:0", ListenProduction: "127.0.0.1:0", Control: "127.0.0.1:0",
		DB: filepath.Join(h.Config.DataDir, "sandbox.db"), Charges: filepath.Join(h.Config.DataDir, "sandbox.charges.jsonl"),
		Fixture: sandbox.DefaultFixture(), Clock: time.Now, Log: h.log,
	})
	if err != nil {
		return fmt.Errorf("start the embedded sandbox: %w", err)
	}
	for _, a := range h.Config.Accounts { // the only one
		a.BaseURL, a.AppID, a.Secret = h.Sandbox.SandboxURL(), sandbox.DemoSandboxAppID, sandbox.DemoSandboxSecret
		a.Location = cmp.Or(a.Location, time.UTC)
	}
	return nil
}

func (h *Host) connect() error {
	n := h.Config.NATS
	if n.External() {
		target, err := h.Config.Target()
		if err != nil {
			return err
		}
		target.Log, target.Wait = h.log, true
		target.Reconnected = func() { now := time.Now(); h.connected.Store(&now) }
		h.Queue, err = queue.Connect(target)
		if err == nil && h.Queue.Down() == "" {
			err = h.refuseAnonymous()
		}
		return err
	}
	for name, a := range h.Config.Accounts {
		if a.Replicas > 1 {
			return TooManyCopies(name, a.Replicas)
		}
	}
	users, err := h.Config.NATSUsers()
	if err != nil {
		return err
	}
	if len(users) > 0 {
		h.local = config.LocalUser(h.Config.AccountNames())
		users = append(users, h.local)
	}
	h.Embedded, err = embedded.Start(embedded.Config{
		Listen: n.Listen, StoreDir: filepath.Join(h.Config.DataDir, "nats"), Users: users, Verbs: verbs.Served(), Log: h.log,
	})
	if err != nil {
		return err
	}
	h.Queue, err = queue.Connect(queue.ConnectConfig{Embedded: h.Embedded, Log: h.log})
	return err
}

// TooManyCopies returns the error for more replicas than the embedded server can keep.
func TooManyCopies(account string, replicas int) error {
	return fmt.Errorf("accounts.%s.replicas is %d, and the embedded NATS server is one: set it to 1, or nats.url to the servers of a cluster", account, replicas)
}

// reconnected returns the time at which the connection to NATS was last restored. It returns the
// zero time if the connection was never lost.
func (h *Host) reconnected() time.Time {
	if at := h.connected.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// refuseAnonymous returns an error if a production account would use a NATS server without
// authentication, because any client could then spend the account's money.
func (h *Host) refuseAnonymous() error {
	name := h.Config.Production()
	if h.Embedded != nil || name == "" || !h.Queue.Anonymous() {
		return nil
	}
	return fmt.Errorf("accounts.%s is a production account and NATS at %s asks for no login: any client that can connect could spend its money\n"+
		"give the server users (`perennial nats-config` prints them), and say how it is entered: nats.password_file, nats.creds_file or nats.context", name, h.Queue.URL())
}

func (h *Host) replicas() int {
	most := 1
	for _, a := range h.Config.Accounts {
		most = max(most, a.Replicas)
	}
	return most
}

// Run runs the accounts until ctx ends, or until every account has stopped.
func (h *Host) Run(ctx context.Context) error {
	if len(h.Accounts) == 0 {
		return nil
	}
	if h.Embedded == nil {
		h.log.WithFields(logrus.Fields{"node": h.name.Get(), "data_dir": h.Config.DataDir}).Info("this runner's name among the others")
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); h.watch(watching) }()
	defer func() { stop(); <-watched }()
	defer context.AfterFunc(ctx, func() { h.stopping.Store(true); h.announce() })()
	stopBrokers, err := h.serveBrokers()
	defer stopBrokers()
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	stopped := make([]error, len(h.Accounts))
	for i, a := range h.Accounts {
		group.Go(func() {
			stopped[i] = (&lifecycle{account: a}).run(ctx)
			if stopped[i] != nil && ctx.Err() == nil {
				h.log.WithField("account", a.Name).WithError(stopped[i]).Error("the account has stopped; the others continue")
			}
		})
	}
	group.Wait()
	select {
	case <-ctx.Done(): // a stop was requested
		return nil
	default:
		return errors.Join(stopped...)
	}
}

func (h *Host) serveBrokers() (stop func(), err error) {
	var stops []func() error
	stop = func() {
		for _, one := range stops {
			_ = one()
		}
	}
	for _, name := range h.Config.AccountNames() {
		one, err := broker.Serve(h.Queue.JetStream(), name)
		if err != nil {
			return stop, err
		}
		stops = append(stops, one)
	}
	return stop, nil
}

// Close stops everything that Start started.
func (h *Host) Close() {
	if h.HTTP != nil {
		h.HTTP.close()
	}
	for _, a := range h.Accounts {
		a.close()
	}
	h.tracer.Close()
	if h.Queue != nil {
		h.Queue.Close()
	}
	if h.Embedded != nil {
		h.Embedded.Shutdown()
	}
	if h.Sandbox != nil {
		if err := h.Sandbox.Close(); err != nil {
			h.log.WithError(err).Warn("the embedded sandbox did not close cleanly")
		}
	}
	if h.lock != nil {
		_ = os.Remove(RunFile(h.Config.DataDir))
		_ = h.lock.Unlock()
	}
}

// startTimeout is how long `run` waits for accounts to start before it reports that it is
// ready.
const startTimeout = 5 * time.Second

// WaitStarted returns when every account works or has reported why it does not work, at the
// latest after startTimeout.
func (h *Host) WaitStarted(ctx context.Context) {
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	for _, a := range h.Accounts {
		select {
		case <-a.started:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Ready returns the output that `run` prints when it is ready.
func (h *Host) Ready() ReadyLine {
	line := ReadyLine{NATS: h.NATSURL(), HTTP: h.HTTP.URL(), Data: h.Config.DataDir, Accounts: h.Config.AccountNames()}
	if h.Sandbox != nil {
		line.Sandbox, line.Control = h.Sandbox.SandboxURL(), h.Sandbox.ControlURL()
	}
	return line
}

// NATSURL returns the address of NATS for clients.
func (h *Host) NATSURL() string {
	if h.Embedded != nil {
		return h.Embedded.URL()
	}
	return h.Queue.URL()
}

// RunFile returns the path of the file in which a running host stores its addresses, for
// commands that use the same data directory.
func RunFile(dataDir string) string { return filepath.Join(dataDir, "run.json") }

// RunAddresses is the content of [RunFile]: the ready line, and the login for CLI commands on
// this machine if the embedded server has users. The password is valid for this run only.
type RunAddresses struct {
	ReadyLine
	Instance string `json:"instance"` // /livez returns it in the header [InstanceHeader]
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`
}

// InstanceHeader is the response header of /livez that identifies the process. If a process is
// killed, its [RunFile] remains, and another installation may get the ports. A client must
// therefore use an address from the file only if /livez there returns the same instance.
const InstanceHeader = "Perennial-Instance"

func (h *Host) writeRunFile() error {
	text, err := json.Marshal(RunAddresses{h.Ready(), h.instance, h.local.Name, h.local.Password}) //nolint:gosec // a password of this run, in a file of mode 0600
	if err == nil {
		// files.Write replaces an existing link and does not follow it.
		err = files.Write(RunFile(h.Config.DataDir), 0o600, func(w io.Writer) error { _, err := w.Write(append(text, '\n')); return err })
	}
	if err != nil {
		return fmt.Errorf("leave the addresses for other commands: %w", err)
	}
	return nil
}

// reread caches the last read of the configuration file.
type reread struct {
	mu     sync.Mutex
	at     time.Time // the file's modification time at the last read
	config *config.Config
	err    error
}

func (r *reread) read(file string) (*config.Config, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.Equal(info.ModTime()) {
		r.at = info.ModTime()
		r.config, r.err = config.Load(file)
	}
	return r.config, r.err
}

// configChanged returns a message if the file cannot be loaded, or if an account's settings
// or schedules in the file differ from those in use. Otherwise it returns "". A changed file
// takes effect at the next start.
func (h *Host) configChanged(account string) string {
	if h.Config.File == "" {
		return ""
	}
	now, err := h.reread.read(h.Config.File)
	switch {
	case err != nil:
		// Do not show the error: it may quote the file, and every viewer can read this message.
		return "the configuration file has changed since the runner read it, and a restart would fail: `perennial config show` says why"
	case now.Accounts[account] == nil:
		return "the configuration file no longer has this account: restart the runner to apply that"
	case now.SettingsOf(account) != h.Config.SettingsOf(account):
		return "the configuration file has changed since the runner read it: restart the runner to apply it"
	}
	return ""
}
