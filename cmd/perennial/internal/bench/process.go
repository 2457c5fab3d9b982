package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// Command is the hidden CLI command that runs a process of a benchmark. See [Serve].
const Command = "bench-process"

var (
	// ErrNoTask means that the process was not started by a benchmark.
	ErrNoTask = errors.New("it is started by `perennial bench`, which says what to do")
	errEnded  = errors.New("the benchmark has ended")
)

const endWithin = 10 * time.Second

// helper does the work of a process. [process.do] calls its exported methods.
type helper struct {
	ctx   context.Context
	log   *logrus.Logger
	asked atomic.Bool
	box   atomic.Pointer[sandbox.Server]
	load  *LoadTask
}

// Serve carries out calls of a benchmark that arrive on standard input. They are not passed
// as program arguments, because every user can read arguments and an address may contain a
// password. Serve returns when its input ends, so the process ends even if the benchmark is
// killed.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer, log *logrus.Logger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h, server := &helper{ctx: ctx, log: log}, rpc.NewServer()
	if err := server.RegisterName("Helper", h); err != nil {
		return err
	}
	served := make(chan struct{})
	ended := func() { cancel(errEnded) }
	go func() {
		defer close(served)
		defer ended()
		server.ServeCodec(jsonrpc.NewServerCodec(pipes{stdin, stdout, ended}))
	}()
	<-ctx.Done()
	if errors.Is(context.Cause(ctx), errEnded) {
		<-served // wait for the last call
		if !h.asked.Load() {
			return ErrNoTask
		}
	}
	if box := h.box.Load(); box != nil {
		return box.Close()
	}
	return nil
}

// pipes joins two pipes to one connection. It calls the function ended when a read fails.
type pipes struct {
	io.Reader
	io.Writer
	ended func()
}

func (p pipes) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if err != nil {
		p.ended()
	}
	return n, err
}

// Close does nothing, because the pipes end with their processes.
func (pipes) Close() error { return nil }

// process is a process that the benchmark started. ctx ends when the process ends.
type process struct {
	ctx    context.Context
	calls  *rpc.Client
	cancel func()
	ended  chan struct{}
}

// start starts this program as a process of the benchmark. Errors contain the name.
func (b *bench) start(ctx context.Context, name string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	cmd := exec.CommandContext(ctx, self, Command, name)
	stdout, said := io.Pipe()
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = said, b.Stderr, endWithin
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	p := &process{ctx: ctx, calls: jsonrpc.NewClient(pipes{stdout, stdin, func() {}}), ended: make(chan struct{})}
	p.cancel = func() {
		cancel(nil)
		_ = stdin.Close()
		_ = stdout.Close()
	}
	go func() {
		_ = cmd.Wait()
		gone := fmt.Errorf("the %s process has ended: %s", name, cmd.ProcessState)
		cancel(gone)
		_ = said.CloseWithError(gone)
		close(p.ended)
	}()
	return p, nil
}

func (p *process) do(method string, args, reply any) error {
	return because(p.ctx, p.calls.Call("Helper."+method, args, reply))
}

func (p *process) stop() {
	p.cancel()
	<-p.ended
}

// SandboxTask describes the sandbox that all parts use as their provider. It also describes the
// ledgers to fill before the runner opens them.
type SandboxTask struct {
	Fixture   sandbox.Fixture
	Charges   string
	Histories []History
}

// Sandbox starts the sandbox of a task, and fills the ledgers. It stores the sandbox's address
// in *base. The sandbox runs until the process ends.
func (h *helper) Sandbox(t SandboxTask, base *string) error {
	h.asked.Store(true)
	box, err := sandbox.Start(h.ctx, sandbox.Options{Fixture: t.Fixture, Charges: t.Charges, ChargesNoSync: true, Clock: time.Now, Log: h.log})
	if err != nil {
		return err
	}
	h.box.Store(box)
	*base = box.SandboxURL()
	for _, past := range t.Histories {
		past.Binding.BaseURL = *base
		if err := errors.Join(os.MkdirAll(filepath.Dir(past.Path), 0o700), past.fill(h.ctx)); err != nil {
			return fmt.Errorf("fill the ledger: %w", err)
		}
	}
	return nil
}

const (
	secret = "a-benchmark-needs-no-secret"
	offer  = "off_bench"
	cents  = 300 // price of a proxy for 30 days
	days   = 30
)

// ordinal returns a suffix that identifies an account. It returns "" for the first account.
func ordinal(i int) string {
	if i == 0 {
		return ""
	}
	return strconv.Itoa(i + 1)
}

func appID(i int) string { return "sbx_app_bench" + ordinal(i) }

// proxyName returns the sandbox's id for proxy n of an account. Both numbers start at 0.
func proxyName(account, n int) string { return "px" + ordinal(account) + "_" + strconv.Itoa(n+1) }

// provider describes a sandbox with proxies for each account, and money for all requests.
func (b *bench) provider() SandboxTask {
	var runner part
	b.configure(&runner)
	t := SandboxTask{Charges: filepath.Join(b.dir, "charges.jsonl")}
	asked := map[bool]int{true: 1}
	each := (2 + asked[b.Drain] + asked[b.NATS != nil]) * b.share(0) // the direct part, the runner, and each further part
	for i, name := range runner.accounts {
		id, wallet := "acc_bench"+ordinal(i), int64(each)*cents
		t.Fixture.Accounts = append(t.Fixture.Accounts, sandbox.FixtureAccount{
			AccountID: id, Email: "bench" + ordinal(i) + "@example.com", Wallet: sandbox.FixtureWallet{Currency: "USD", SandboxCents: wallet},
			Keys: []sandbox.FixtureKey{{AppID: appID(i), Secret: secret}},
		})
		t.Fixture.Proxies = append(t.Fixture.Proxies, sandbox.FixtureProxy{
			Count: each, Prefix: "px" + ordinal(i) + "_", AccountID: id, Environment: "sandbox", OfferCode: offer, ExpiresIn: "24h..240h",
		})
		if b.Rows > 0 {
			t.Histories = append(t.Histories, History{
				Path: runner.config.LedgerPath(name), Rows: b.Rows, AppID: appID(i), WalletCents: wallet - int64(b.share(i))*cents, // the direct part has already spent its share when the runner starts
				Binding: fact.Binding{AccountID: id, Environment: "sandbox", Currency: "USD", Epoch: "bench"},
			})
		}
	}
	t.Fixture.Offers = []sandbox.FixtureOffer{{
		OfferCode: offer, Name: "bench", CountryCode: "US", CountryName: "United States", Region: "Dallas",
		LineName: "premium", IPType: "isp", Protocol: "socks5", UnitPriceCents: cents, BaseDurationDays: days,
		DurationDays: []int64{days}, MaxQuantity: 500, CIDRs: []string{"198.51.100.0/24"}, Stock: int64((each + b.share(0)) * b.Accounts),
	}}
	return t
}

// History describes the rows that a ledger gets before the runner opens it.
type History struct {
	Path        string
	Rows        int64
	Binding     fact.Binding
	AppID       string
	WalletCents int64 // wallet balance after the history
}

const (
	// fillRows is the number of rows of one renewal: accepted, sending, completed and finished.
	fillRows  = 4
	fillGroup = 500
	// fillFleet limits how many proxies the history renews. It renews them round-robin.
	fillFleet = 100_000
	// fillPast is the age of the history's first row. The last row is one day old.
	fillPast = 365 * 24 * time.Hour
)

// fill writes finished renewals as the runner does, with all projections and the hash chain.
func (h History) fill(ctx context.Context) (err error) {
	renewals := (h.Rows + fillRows - 1) / fillRows
	var done atomic.Int64
	begin := time.Now().Add(-fillPast)
	l, err := ledger.Open(ctx, ledger.Config{Path: h.Path, Clock: func() time.Time {
		return begin.Add(time.Duration(float64(fillPast-24*time.Hour) * float64(done.Load()) / float64(renewals)))
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.Write(ctx, func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerOpened{
			AccountID: h.Binding.AccountID, Environment: h.Binding.Environment, BaseURL: h.Binding.BaseURL, Currency: h.Binding.Currency,
			OpeningCents: h.WalletCents + renewals*cents, Epoch: h.Binding.Epoch,
		})
	}); err != nil {
		return err
	}
	for first := int64(0); first < renewals; first = done.Load() {
		end := min(first+fillGroup, renewals)
		if err := l.Write(ctx, func(tx *ledger.Tx) error {
			for n := first; n < end; n++ {
				if err := h.renew(tx, n); err != nil {
					return fmt.Errorf("renewal %d: %w", n, err)
				}
			}
			return nil
		}); err != nil {
			return err
		}
		done.Store(end)
	}
	return nil
}

func filled(n int64) (id, proxy string) {
	return "filled-" + strconv.FormatInt(n, 10), "px_of_old_" + strconv.FormatInt(n%fillFleet, 10)
}

func (h History) renew(tx *ledger.Tx, n int64) error {
	id, proxy := filled(n)
	ids := []string{proxy}
	cmd, err := command.Parse(fact.KindRenewal, renewal(id, proxy), command.Rules{Environment: upstream.Environment(h.Binding.Environment)})
	if err != nil {
		return err
	}
	content, hash, err := cmd.Content()
	if err != nil {
		return err
	}
	body, err := upstream.RenewBody(upstream.RenewRequest{ProxyIDs: ids, DurationDays: cmd.DurationDays})
	if err != nil {
		return err
	}
	planned := cmd.Operations(h.Binding, ids, false)
	ref := fact.Ref{CommandID: id, OperationID: planned[0].OperationID}
	return tx.Append(
		fact.CommandAccepted{Ref: fact.Ref{CommandID: id}, Kind: fact.KindRenewal, ContentHash: hash, Content: content, DurationDays: cmd.DurationDays, Operations: planned},
		fact.OperationSending{
			Ref: ref, Attempt: 1, Key: planned[0].Key, Body: string(body), SentAt: tx.Now(), AppID: h.AppID,
			Observed: map[string]time.Time{proxy: tx.Now().Add(24 * time.Hour)},
		},
		fact.RenewalSettled{
			Ref: ref, Status: upstream.RenewalCompleted, Attempt: 1,
			Lines: fact.Lines{ChargedCents: cents, Items: []fact.Line{{ProxyID: proxy, State: fact.LineSucceeded, ChargedCents: cents}}},
		})
}
