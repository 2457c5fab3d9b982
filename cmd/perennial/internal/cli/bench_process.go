// The processes of `perennial bench`: this program again, with another command, so that
// what they use is not counted as the runner's.

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// helper is a process of the benchmark. It gets orders on its standard input and answers
// on its standard output, as JSON; it ends when its input does, so that none stays behind
// a benchmark that was killed.
type helper struct {
	name    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	orders  *json.Encoder
	answers chan json.RawMessage // closed when the process has ended
	ended   chan struct{}
}

// helperWithin is how long a helper may take to end.
const helperWithin = 10 * time.Second

// startHelper starts this program with other arguments. No secret is among them: they are
// for everybody to see. ended is called when the process is over; nil: nothing is.
func (b *bench) startHelper(ctx context.Context, name string, ended func(), args ...string) (_ *helper, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &helper{name: name, cmd: exec.CommandContext(ctx, self, args...), answers: make(chan json.RawMessage, 4), ended: make(chan struct{})}
	p.cmd.Stderr, p.cmd.WaitDelay = b.app.stderr, helperWithin
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.orders = json.NewEncoder(p.stdin)
	pipe, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, p.stdin.Close())
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(pipe, ended)
	return p, nil
}

// read passes answers on until the process ends.
func (p *helper) read(pipe io.Reader, ended func()) {
	in := json.NewDecoder(bufio.NewReader(pipe))
	for {
		var answer json.RawMessage
		if in.Decode(&answer) != nil {
			break
		}
		p.answers <- answer // never more than its buffer holds: see the commands
	}
	_, _ = io.Copy(io.Discard, pipe)
	_ = p.cmd.Wait()
	close(p.answers)
	close(p.ended)
	if ended != nil {
		ended()
	}
}

// order sends an order. That the process has ended shows where its answer is read.
func (p *helper) order(x any) {
	_ = p.orders.Encode(x)
}

// answer reads the next answer.
func (p *helper) answer(ctx context.Context, x any) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case text, ok := <-p.answers:
		if !ok {
			return fmt.Errorf("%s has ended before it answered: %s", p.name, p.cmd.ProcessState)
		}
		return json.Unmarshal(text, x)
	}
}

// stop ends the process and waits for it.
func (p *helper) stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(helperWithin):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// errBenchmarkEnded is why a helper ends whose benchmark has.
var errBenchmarkEnded = errors.New("the benchmark has ended")

// untilInputEnds is a context that also ends with the program's standard input, of which
// it reads the rest: each value is sent to orders, if that is not nil.
func untilInputEnds(ctx context.Context, in *json.Decoder, orders chan<- json.RawMessage) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			var order json.RawMessage
			if in.Decode(&order) != nil {
				cancel(errBenchmarkEnded)
				return
			}
			select {
			case orders <- order:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}
