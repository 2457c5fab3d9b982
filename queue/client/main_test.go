package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"perennial/ledger/testrun"
	"perennial/queue"
	"perennial/queue/client"
)

// patience bounds every wait of these tests.
const patience = time.Minute

// program is the path of the built program, and shared a runner of it with its embedded
// sandbox.
var (
	program string
	shared  *runner
)

func TestMain(m *testing.M) {
	remove := testrun.Prepare()
	code := func() int {
		dir, err := os.MkdirTemp("", "client")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		program = filepath.Join(dir, "perennial")
		build := exec.Command("go", "build", "-o", program, "perennial/cmd/perennial")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build the program:", err)
			return 1
		}
		shared = &runner{dir: filepath.Join(dir, "shared")}
		if err := shared.start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer shared.kill()
		return m.Run()
	}()
	remove()
	os.Exit(code)
}

// runner is `perennial run` without configuration: an embedded NATS server, and a sandbox
// of the provider.
type runner struct {
	dir     string
	url     string // of NATS, the same after a restart
	process *exec.Cmd
}

func (r *runner) start() error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	listen := "127.0.0.1:0"
	if r.url != "" {
		listen = r.url[len("nats://"):]
	}
	r.process = exec.Command(program, "run", "--json", "--nats-listen", listen, "--http", "127.0.0.1:0")
	r.process.Dir = r.dir
	out, err := r.process.StdoutPipe()
	if err == nil {
		err = r.process.Start()
	}
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the runner is not ready: %w", err)
	}
	var ready struct{ NATS string }
	err = json.Unmarshal(line, &ready)
	r.url = ready.NATS
	return err
}

// kill ends the runner abruptly, like a power cut.
func (r *runner) kill() {
	_ = r.process.Process.Kill()
	_ = r.process.Wait()
}

// connect returns a client of the runner's account; stop ends its connection.
func (r *runner) connect() (main *client.Client, stop func(), err error) {
	q, err := queue.Connect(queue.ConnectConfig{URL: r.url})
	if err != nil {
		return nil, nil, err
	}
	main, err = client.New(q, "main")
	return main, q.Close, err
}

func clientOf(t *testing.T, r *runner) *client.Client {
	t.Helper()
	c, stop, err := r.connect()
	check(t, err)
	t.Cleanup(stop)
	return c
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
