package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"perennial/upstream/sandbox"
)

// childVariable makes the test binary run a sandbox, so that a test can kill a real process.
const childVariable = "PERENNIAL_SANDBOX_TEST_CHILD"

// childOptions are passed to a child process.
type childOptions struct{ DB, Charges string }

// childLine is the line that a child prints when it serves.
type childLine struct{ Sandbox, Control string }

// beChild serves until it is killed or the parent has ended.
func beChild(text string) {
	var in childOptions
	err := json.Unmarshal([]byte(text), &in)
	var s *sandbox.Server
	if err == nil {
		s, err = sandbox.Start(context.Background(), sandbox.Options{DB: in.DB, Charges: in.Charges, Fixture: childFixture(),
			Clock: time.Now, AsyncDelay: 20 * time.Millisecond})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	line, _ := json.Marshal(childLine{s.SandboxURL(), s.ControlURL()})
	fmt.Println(string(line))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

const childWallet = 1 << 40

func childFixture() sandbox.Fixture {
	f := fixture()
	f.Accounts[0].Wallet.SandboxCents = childWallet
	f.Offers[0].Stock = 1 << 40
	return f
}

// child is a running sandbox process.
type child struct {
	childLine

	cmd   *exec.Cmd
	stdin io.Closer
}

func childIn(dir string, db bool) childOptions {
	o := childOptions{Charges: filepath.Join(dir, "charges.jsonl")}
	if db {
		o.DB = filepath.Join(dir, "sandbox.db")
	}
	return o
}

// startChild runs a sandbox in its own process. ready is false if ctx killed the process before
// it served.
func startChild(ctx context.Context, t *testing.T, o childOptions) (c *child, ready bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(o)
	c = &child{cmd: exec.CommandContext(ctx, self)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		if ctx.Err() != nil { // ctx ended before the process started
			return c, false
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		_ = c.cmd.Wait()
		return c, false
	}
	if err := json.Unmarshal(line, &c.childLine); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return c, true
}

// kill sends SIGKILL and returns when the process has ended.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}
