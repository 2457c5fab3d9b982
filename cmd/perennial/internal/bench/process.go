package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/ledger/fact"
	"perennial/upstream/sandbox"
)

// Command is the hidden command that runs a benchmark's process. See [Serve].
const Command = "bench-process"

// task is the work of a process. Its fields go to standard input. Addresses may hold a
// password, and everybody can read arguments.
type task interface {
	// do works until ctx ends. ready sends a first answer and returns when the order to
	// continue arrives.
	do(ctx context.Context, log *logrus.Logger, ready func(answer) error) (answer, error)
}

// answer is what a process reports when it is ready for an order, and at its end.
type answer struct {
	Base  string   `json:"base,omitempty"` // address of the sandbox
	Load  *Latency `json:"load,omitempty"`
	Error string   `json:"error,omitempty"`
}

// ErrNoTask reports a process that was not started by a benchmark.
var ErrNoTask = errors.New("it is started by `perennial bench`, which says what to do")

// errEnded is why a process stops when its benchmark has ended.
var errEnded = errors.New("the benchmark has ended")

// Serve runs a task in its process. It stops at the end of its input, and cannot outlive a
// killed benchmark. Errors other than ErrNoTask have already been reported.
func Serve(ctx context.Context, name string, stdin io.Reader, stdout io.Writer, log *logrus.Logger) error {
	t := map[string]task{"sandbox": &sandboxTask{}, "load": &loadTask{}}[name]
	in, out := json.NewDecoder(stdin), json.NewEncoder(stdout)
	if t == nil || in.Decode(t) != nil {
		return ErrNoTask
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	orders := make(chan json.RawMessage, 1) // no task has more than one
	go func() {
		var order json.RawMessage
		for in.Decode(&order) == nil {
			orders <- order
		}
		cancel(errEnded)
	}()
	got, err := t.do(ctx, log, func(a answer) error {
		if err := out.Encode(a); err != nil {
			return err
		}
		select {
		case <-orders:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		got.Error = because(ctx, err).Error()
	}
	return errors.Join(out.Encode(got), err)
}

// process is the benchmark's handle of a task's process.
type process struct {
	cmd     *exec.Cmd
	orders  *json.Encoder
	answers *json.Decoder
	cancel  func()
	ended   chan struct{}
}

const endWithin = 10 * time.Second

// start starts this program with a task and returns its first answer. The end of the
// process cancels with ended.
func (b *bench) start(ctx context.Context, name string, t task, ended context.CancelCauseFunc) (_ *process, first answer, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, first, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &process{cmd: exec.CommandContext(ctx, self, Command, name), ended: make(chan struct{})}
	stdout, said := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = said, b.Stderr, endWithin
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	stdin, err := p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, first, err
	}
	p.orders, p.answers = json.NewEncoder(stdin), json.NewDecoder(stdout)
	p.cancel = func() { cancel(); _ = stdin.Close(); _ = stdout.Close() }
	go func() {
		_ = p.cmd.Wait()
		gone := fmt.Errorf("the %s process has ended: %s", name, p.cmd.ProcessState)
		_ = said.CloseWithError(gone)
		ended(gone)
		close(p.ended)
	}()
	p.order(t)
	if first, err = p.answer(); err != nil {
		p.stop()
	}
	return p, first, err
}

// order sends an order. If the process has ended, the next answer fails.
func (p *process) order(x any) { _ = p.orders.Encode(x) }

// answer returns the next answer. It fails when the process or its context ends.
func (p *process) answer() (a answer, err error) {
	if err := p.answers.Decode(&a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

func (p *process) stop() {
	p.cancel()
	<-p.ended
}

const (
	secret = "a-benchmark-needs-no-secret"
	offer  = "off_bench"
	cents  = 300 // price of a proxy for 30 days
	days   = 30
)

// ordinal returns a suffix that identifies an account. The first has none.
func ordinal(i int) string {
	if i == 0 {
		return ""
	}
	return strconv.Itoa(i + 1)
}

// appID returns the App ID of the sandbox's i-th account.
func appID(i int) string { return "sbx_app_bench" + ordinal(i) }

// proxyName returns the sandbox's id of an account's n-th proxy. Both count from 0.
func proxyName(account, n int) string { return "px" + ordinal(account) + "_" + strconv.Itoa(n+1) }

// provider returns a sandbox with proxies for each account, and money for its requests.
func (b *bench) provider() *sandboxTask {
	var runner part
	b.configure(&runner)
	t := &sandboxTask{Dir: b.dir}
	each := b.parts() * b.share()
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
			t.Histories = append(t.Histories, history{
				Path: runner.config.LedgerPath(name), Rows: b.Rows, AppID: appID(i), WalletCents: wallet - int64(shareOf(b.Commands, b.Accounts, i))*cents, // direct pays earlier
				Binding: fact.Binding{AccountID: id, Environment: "sandbox", Currency: "USD", Epoch: "bench"},
			})
		}
	}
	t.Fixture.Offers = []sandbox.FixtureOffer{{
		OfferCode: offer, Name: "bench", CountryCode: "US", CountryName: "United States", Region: "Dallas",
		LineName: "premium", IPType: "isp", Protocol: "socks5", UnitPriceCents: cents, BaseDurationDays: days,
		DurationDays: []int64{days}, MaxQuantity: 500, CIDRs: []string{"198.51.100.0/24"}, Stock: int64((each + b.share()) * b.Accounts),
	}}
	return t
}

// sandboxTask runs the provider and the referee of all parts. It fills ledgers with rows
// before the runner opens and publishes them.
type sandboxTask struct {
	Fixture   sandbox.Fixture `json:"fixture"`
	Dir       string          `json:"dir"`
	Histories []history       `json:"histories"`
}

func (t *sandboxTask) do(ctx context.Context, log *logrus.Logger, ready func(answer) error) (_ answer, err error) {
	box, err := sandbox.Start(ctx, sandbox.Options{Fixture: t.Fixture, Charges: filepath.Join(t.Dir, "charges.jsonl"), ChargesNoSync: true, Clock: time.Now, Log: log})
	if err != nil {
		return answer{}, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	for _, h := range t.Histories {
		if err := os.MkdirAll(filepath.Dir(h.Path), 0o700); err != nil {
			return answer{}, err
		}
		h.Binding.BaseURL = box.SandboxURL()
		if err := h.fill(ctx); err != nil {
			return answer{}, fmt.Errorf("fill the ledger: %w", err)
		}
	}
	_ = ready(answer{Base: box.SandboxURL()}) // returns when ctx ends: no order follows
	return answer{}, nil
}
