// Perennial under kills: `perennial run` with its embedded NATS server, which dies with it.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// runner is a directory in which `perennial run` works, again after each kill.
type runner struct {
	rig  *rig
	dir  string
	url  string // of its NATS server, the same in every life
	conn *nats.Conn
	js   jetstream.JetStream
}

func (r *rig) newRunner(box *sandbox) (*runner, error) {
	dir, err := os.MkdirTemp(r.dir, "perennial-*")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &runner{rig: r, dir: dir, url: fmt.Sprintf("nats://127.0.0.1:%d", port)}
	text := fmt.Sprintf(`data_dir: ./data
nats: {listen: "127.0.0.1:%d"}
http: {listen: "127.0.0.1:0"}
accounts:
  main: {base_url: "%s", app_id: %s, secret_file: main.secret, rate_per_second: 1000000, concurrency: %d}
`, port, box.base, sandboxAppID, r.concurrency)
	return p, errors.Join(os.WriteFile(filepath.Join(dir, "perennial.yaml"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(dir, "main.secret"), []byte(sandboxSecret), 0o600))
}

// start starts the runner and waits for its ready line.
func (p *runner) start() (*process, error) {
	proc, err := spawn(p.dir, "run", nil, p.rig.perennial, "run", "--json", "--config", "perennial.yaml")
	if err != nil {
		return nil, err
	}
	var line struct {
		NATS string `json:"nats"`
	}
	if err := proc.answer(startWithin, &line); err != nil {
		return nil, errors.Join(err, proc.stop(syscall.SIGKILL))
	}
	return proc, nil
}

// publish connects, and publishes one command for each job, in atomic batches.
func (p *runner) publish(ctx context.Context, jobs int) (err error) {
	if p.conn, err = nats.Connect(p.url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond)); err != nil {
		return err
	}
	if p.js, err = jetstream.New(p.conn); err != nil {
		return err
	}
	for n := 1; n <= jobs; n += publishBatch {
		var batch []*nats.Msg
		for i := n; i < min(n+publishBatch, jobs+1); i++ {
			m := nats.NewMsg("perennial.commands.main.proxy.renew")
			m.Data = fmt.Appendf(nil, `{"id":"job-%d","proxy_ids":["%s"],"duration_days":30}`, i, proxyOf(i))
			batch = append(batch, m)
		}
		if _, err := jetstreamext.PublishMsgBatch(ctx, p.js, batch); err != nil {
			return fmt.Errorf("publish commands: %w", err)
		}
	}
	return nil
}

// done is how many commands have finished, by the events stream. An answer that does not
// come, as right behind a kill, is 0.
func (p *runner) done(ctx context.Context) (int, error) {
	const subject = "perennial.events.main.command.finished"
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	stream, err := p.js.Stream(limited, "PERENNIAL_EVENTS_main")
	if err != nil {
		return 0, ctx.Err()
	}
	info, err := stream.Info(limited, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, ctx.Err()
	}
	return int(info.State.Subjects[subject]), nil
}

func (r *rig) killPerennial(ctx context.Context, c contender) (k killed, err error) {
	box, err := startSandbox(r, r.killJobs)
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, box.stop()) }()
	if err := box.delay(replyAfter, replyJitter); err != nil {
		return k, err
	}
	p, err := r.newRunner(box)
	if err != nil {
		return k, err
	}
	v := victim{
		jobs: r.killJobs, start: p.start, box: box,
		begin: func() error { return p.publish(ctx, r.killJobs) },
		done:  func() (int, error) { return p.done(ctx) },
	}
	k, last, err := r.killing(ctx, v)
	k.Contender, k.Keys = c.id, "own"
	if p.conn != nil {
		p.conn.Close()
	}
	if err = errors.Join(err, last.stop(syscall.SIGTERM)); err != nil {
		return k, err
	}
	k.Books, err = p.books(ctx, box)
	return k, err
}

// books compares what the ledger says with the referee, and has the ledger verify itself.
func (p *runner) books(ctx context.Context, box *sandbox) (string, error) {
	var balance struct {
		ChargedCents int64 `json:"charged_cents"`
	}
	text, err := p.command(ctx, "ledger", "balance", "-o", "json")
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(text, &balance); err != nil {
		return "", err
	}
	if _, err := p.command(ctx, "ledger", "verify"); err != nil {
		return "", err
	}
	t, err := box.referee.count(0)
	if err != nil {
		return "", err
	}
	if t.cents != balance.ChargedCents {
		return fmt.Sprintf("the ledger says %d cents, the referee %d", balance.ChargedCents, t.cents), nil
	}
	return "agree", nil
}

func (p *runner) command(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, p.rig.perennial, append(args, "--config", "perennial.yaml")...)
	var said bytes.Buffer
	c.Dir, c.Stderr = p.dir, &said
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("perennial %s: %w: %s", strings.Join(args, " "), err, said.String())
	}
	return out, nil
}
