package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/publish"
)

// A command without an ID gets one. Publishing it again under another ID would be another purchase.
func TestACommandThatMayBeStoredNamesItsID(t *testing.T) {
	for err, names := range map[error]bool{context.DeadlineExceeded: true, context.Canceled: true, queue.ErrDisconnected: true, queue.ErrNoAccount: false} {
		if got := withRetryID(err, "cli-7"); strings.Contains(got.Error(), "--id cli-7") != names || !errors.Is(got, err) {
			t.Error(got)
		}
	}
}

// An interrupted program otherwise prints nothing, but a slow stream may have stored the command.
func TestAnInterruptedPurchaseNamesItsID(t *testing.T) {
	server := natstest.Serve(t, t.TempDir())
	nc, err := nats.Connect(server.URL())
	natstest.Check(t, err)
	defer nc.Close()
	arrived, err := nc.SubscribeSync(queue.CommandSubject("main", queue.KindOrderCreate))
	natstest.Check(t, err)
	natstest.Check(t, nc.Flush())
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		_, _ = arrived.NextMsgWithContext(t.Context())
		interrupt()
	}()
	t.Chdir(t.TempDir())
	var out, errs bytes.Buffer
	code := Program{Args: []string{"order", "off_us=5", "--days", "30", "--nats", server.URL()}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}.Main(ctx)
	if code != ExitInterrupted || !strings.Contains(errs.String(), "--id cli-") {
		t.Errorf("%d: %q %q", code, out.String(), errs.String())
	}
}

// An example is the time while the hub of a leaf node is away.
func TestACommandIsPublishedAgainWhileNothingTakesIt(t *testing.T) {
	t.Parallel()
	ends := []error{fmt.Errorf("account main: %w", publish.ErrNotTaken), queue.ErrNoAccount}
	if err := persist(t.Context(), func() (err error) { err, ends = ends[0], ends[1:]; return err }); !errors.Is(err, queue.ErrNoAccount) {
		t.Error(err)
	}
}

// A command that may have been stored is not a refused one.
func TestACommandThatIsNotAcknowledgedIsUnreachable(t *testing.T) {
	t.Parallel()
	if code := exitCode(t.Context(), fmt.Errorf("account main: %w", publish.ErrUnacknowledged)); code != ExitUnreachable {
		t.Errorf("exit code %d", code)
	}
}

// The commands that read the events stream once crashed here: their cleanup used a history that had
// not been opened.
func TestAnUnreachableNATSIsAnError(t *testing.T) {
	a := &app{natsURL: "nats://127.0.0.1:1"}
	c := config.Embedded()
	c.DataDir = t.TempDir()
	if _, err := a.openHistory(c, "main"); !errors.Is(err, errUnreachable) {
		t.Errorf("got %v", err)
	}
	if _, err := a.openHistoryLocked(c, "main"); !errors.Is(err, errUnreachable) {
		t.Errorf("locked: got %v", err)
	}
	if _, err := a.connect(); !errors.Is(err, errUnreachable) || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("no line says what to do: %v", err)
	}
	c.DataDir += "/absent"
	var exit *exitError
	if _, err := (&app{}).openHistory(c, "main"); !errors.As(err, &exit) || exit.code != ExitUnreachable || !strings.Contains(err.Error(), "start `perennial run`") {
		t.Errorf("a store that is not there: %v", err)
	}
}

// The test includes a killed run, which leaves its file behind.
func TestAnUnreachableNATSSaysWhatToDo(t *testing.T) {
	t.Chdir(t.TempDir())
	said := func(args ...string) string {
		var out, errs bytes.Buffer
		if code := (Program{Args: args, Stdout: &out, Stderr: &errs}).Main(t.Context()); code != ExitUnreachable {
			t.Errorf("%v ended with %d", args, code)
		}
		if n := strings.Count(errs.String(), "\n"); n > 3 {
			t.Errorf("%v says %d lines", args, n)
		}
		return errs.String()
	}
	if got := said("status", "--nats", "nats://127.0.0.1:1"); !strings.Contains(got, "--nats") {
		t.Error(got)
	}
	if err := os.Mkdir("perennial-data", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(daemon.RunFile("perennial-data"), []byte(`{"nats":"nats://127.0.0.1:1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := said("status"); !strings.Contains(got, "start `perennial run`") {
		t.Error(got)
	}
}

// The error names the path once.
func TestALedgerThatIsNotThereSaysWhatToDo(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, line := range []string{"ledger balance", "ledger verify", "ledger backup x.db", "review list", "ledger record --kind top-up --cents 1 --by ann --reason x"} {
		var out, errs bytes.Buffer
		code := Program{Args: strings.Fields(line), Stdout: &out, Stderr: &errs}.Main(t.Context())
		said := errs.String()
		if code != ExitFailed || strings.Count(said, "perennial-data") != 1 || !strings.Contains(said, "the first `perennial run` makes it") || strings.Count(said, "\n") > 3 {
			t.Errorf("%s ended with %d: %s", line, code, said)
		}
	}
}

// docs/cli.md says that they are listed as new.
func TestWebhooksAreListedBeforeTheFirstRun(t *testing.T) {
	t.Chdir(t.TempDir())
	text := "accounts:\n  main: {base_url: \"http://127.0.0.1:1\", app_id: sbx_app_1, secret_file: main.secret}\n" +
		"webhooks:\n  - {name: billing, account: main, url: \"http://127.0.0.1:1/token\", secret_file: billing.secret}\n"
	if err := os.WriteFile("perennial.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{"", "perennial-data"} {
		if made != "" {
			if err := os.Mkdir(made, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		var out, errs bytes.Buffer
		code := Program{Args: []string{"webhook", "list", "-o", "json"}, Stdout: &out, Stderr: &errs}.Main(t.Context())
		if code != ExitDone || !strings.Contains(out.String(), `"url":"http://127.0.0.1:1","state":"new"`) {
			t.Errorf("with %q it ended with %d: %s%s", made, code, out.String(), errs.String())
		}
	}
}

// A command that works in another user's data directory is refused. The error has the line to type,
// and the command leaves no file there.
func TestWhatAnotherUserCouldNotReadIsNotWritten(t *testing.T) {
	t.Parallel()
	dir, self := t.TempDir(), os.Geteuid()
	path := filepath.Join(dir, "main.ledger.db")
	if err := errors.Join(checkOwner(self, path, dir), checkOwner(self, path)); err != nil {
		t.Error(err)
	}
	err := checkOwner(self+1, path, dir)
	if err == nil || !strings.Contains(err.Error(), "\nrun: sudo -u '"+userName(self)+"' ") || exitCode(t.Context(), err) != ExitUsage {
		t.Error(err)
	}
	c := &config.Config{DataDir: dir}
	if self == 0 {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if _, err := lockData(c, "main"); err == nil || !strings.Contains(err.Error(), "sudo -u") {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v %v", left, err)
		}
		if err := os.Chown(dir, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	unlock, err := lockData(c, "main")
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

// A service manager takes any other exit code of a stop for a failure.
func TestARunnerThatIsStoppedWhileItStartsEndsWell(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, errs bytes.Buffer
	code := Program{Args: []string{"run", "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}.Main(ctx)
	if code != ExitDone || out.Len() > 0 || !strings.Contains(errs.String(), "perennial has stopped") || strings.Contains(errs.String(), "warning") {
		t.Errorf("%d: %q %q", code, out.String(), errs.String())
	}
}
