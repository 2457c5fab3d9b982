// Rates: end to end, where the producer produces while the worker works, and drained,
// where the queue is full before the worker comes. Each pair of runs has a run of the bare
// client against the same sandbox right before it, with which its rates are compared.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// measurement is a contender's part of a round.
type measurement struct {
	Contender       string  `json:"contender"`
	DirectPerSecond float64 `json:"direct_per_second"`
	DirectCPU       float64 `json:"direct_cpu_us"`
	EndToEnd        rate    `json:"end_to_end"`
	Drained         rate    `json:"drained"`
}

// rate is one run: jobs a second, and CPU in microseconds a job.
type rate struct {
	PerSecond float64 `json:"per_second"`
	WorkerCPU float64 `json:"worker_cpu_us"`
	StoreCPU  float64 `json:"store_cpu_us"` // Perennial has its NATS server in the runner
}

// runWithin is how long one run may take.
const runWithin = 5 * time.Minute

func (r *rig) measure(ctx context.Context, c contender) (m measurement, err error) {
	if c.peer == "" {
		return r.measurePerennial(ctx, c)
	}
	m.Contender = c.id
	if m.DirectPerSecond, m.DirectCPU, err = r.measureDirect(); err != nil {
		return m, fmt.Errorf("direct: %w", err)
	}
	for _, part := range []struct {
		full bool
		into *rate
	}{{false, &m.EndToEnd}, {true, &m.Drained}} {
		if *part.into, err = r.measureRun(ctx, c, part.full); err != nil {
			return m, fmt.Errorf("full queue %t: %w", part.full, err)
		}
	}
	return m, nil
}

// measureDirect is the bare client: the denominator.
func (r *rig) measureDirect() (perSecond, cpuMicros float64, err error) {
	box, err := startSandbox(r, r.jobs)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, box.stop()) }()
	p, err := r.child("direct", "-base", box.base, "-jobs", strconv.Itoa(r.jobs))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, p.stop(syscall.SIGTERM)) }()
	if err := p.say("go"); err != nil {
		return 0, 0, err
	}
	var got directResult
	if err := p.answer(runWithin, &got); err != nil {
		return 0, 0, err
	}
	jobs := float64(r.jobs)
	return jobs / got.Seconds, got.CPUMicros / jobs, nil
}

// child starts this program with another command, and waits until it is ready.
func (r *rig) child(command string, args ...string) (*process, error) {
	args = append([]string{command, "-concurrency", strconv.Itoa(r.concurrency)}, args...)
	p, err := spawn(r.dir, command, nil, r.self, args...)
	if err != nil {
		return nil, err
	}
	var line struct {
		Ready bool `json:"ready"`
	}
	if err := p.answer(startWithin, &line); err != nil {
		return nil, errors.Join(err, p.stop(syscall.SIGKILL))
	}
	return p, nil
}

// stage is a sandbox, a store and its server, for one run.
type stage struct {
	box    *sandbox
	server *server
	store  store
}

func (r *rig) setUp(ctx context.Context, c contender, jobs int) (s *stage, err error) {
	s = &stage{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.tearDown())
		}
	}()
	if s.box, err = startSandbox(r, jobs); err != nil {
		return s, err
	}
	if s.server, err = r.startServer(ctx, c); err != nil {
		return s, err
	}
	if s.store, err = openStore(ctx, c.peer, s.server.url); err != nil {
		return s, err
	}
	return s, s.store.prepare(ctx)
}

func (s *stage) tearDown() (err error) {
	if s.store != nil {
		s.store.close()
	}
	if s.server != nil {
		err = s.server.stop()
	}
	if s.box != nil {
		err = errors.Join(err, s.box.stop())
	}
	return err
}

// producer is a process that adds the jobs when compare writes a line to its standard input.
func (r *rig) producer(c contender, s *stage, jobs int) (*process, error) {
	return r.child("produce", "-peer", c.peer, "-url", s.server.url, "-jobs", strconv.Itoa(jobs))
}

// produced waits until a producer has added all of its jobs.
func produced(p *process) error {
	var line struct {
		Produced bool `json:"produced"`
	}
	return errors.Join(p.answer(runWithin, &line), p.stop(syscall.SIGTERM))
}

// fill has the queue filled before anything is measured.
func (r *rig) fill(c contender, s *stage, jobs int) error {
	p, err := r.producer(c, s, jobs)
	if err != nil {
		return err
	}
	if err := p.say("go"); err != nil {
		return err
	}
	return produced(p)
}

func (r *rig) worker(c contender, s *stage, keys string) (*process, error) {
	return r.child("work", "-peer", c.peer, "-url", s.server.url, "-base", s.box.base, "-keys", keys)
}

// measureRun is one run of a peer: from the order to go to the last job that the store has
// as done.
func (r *rig) measureRun(ctx context.Context, c contender, full bool) (got rate, err error) {
	jobs := max(r.jobs/c.part, 1)
	s, err := r.setUp(ctx, c, jobs)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, s.tearDown()) }()
	producer, err := r.producer(c, s, jobs)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, producer.stop(syscall.SIGTERM)) }()
	if full {
		if err := errors.Join(producer.say("go"), produced(producer)); err != nil {
			return got, err
		}
	}
	w, err := r.worker(c, s, keyPerJob)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, w.stop(syscall.SIGTERM)) }()
	before, err := usedBy(w, s.server.process)
	if err != nil {
		return got, err
	}
	if err := w.say("go"); err != nil {
		return got, err
	}
	if !full {
		if err := producer.say("go"); err != nil {
			return got, err
		}
	}
	if err := s.awaitDone(ctx, jobs, w, producer); err != nil {
		return got, err
	}
	after, err := usedBy(w, s.server.process)
	if err != nil {
		return got, err
	}
	return rateOf(jobs, before, after), s.judgeQuiet(jobs)
}

func rateOf(jobs int, before, after used) rate {
	n := float64(jobs)
	return rate{
		PerSecond: n / after.at.Sub(before.at).Seconds(),
		WorkerCPU: float64((after.worker - before.worker).Microseconds()) / n,
		StoreCPU:  float64((after.store - before.store).Microseconds()) / n,
	}
}

// awaitDone waits for the referee to have a charge for each job, which costs the store
// nothing, and then for the store to have all jobs as done.
func (s *stage) awaitDone(ctx context.Context, jobs int, needed ...*process) error {
	return poll(ctx, runWithin, 10*time.Millisecond, func() (bool, error) {
		for _, p := range needed {
			if err := p.failed(); err != nil {
				return false, err
			}
		}
		if s.box.referee.charges < jobs {
			err := s.box.referee.read()
			return false, err
		}
		done, err := s.store.done(ctx)
		return done >= jobs, err
	})
}

// judgeQuiet fails a run without kills in which a job was lost or charged twice.
func (s *stage) judgeQuiet(jobs int) error {
	t, err := s.box.referee.count(jobs)
	if err != nil || t.lost+t.doubled == 0 {
		return err
	}
	return fmt.Errorf("without a kill %d jobs were lost and %d charged twice", t.lost, t.doubled)
}

// used is what was used up to an instant.
type used struct {
	at            time.Time
	worker, store time.Duration
}

func usedBy(worker, store *process) (u used, err error) {
	u.at = time.Now()
	if u.worker, err = worker.cpu(); err != nil {
		return u, err
	}
	u.store, err = store.cpu()
	return u, err
}

// measurePerennial asks `perennial bench`, which measures the runner in the same two ways,
// with its own frozen bare client right before.
func (r *rig) measurePerennial(ctx context.Context, c contender) (m measurement, err error) {
	bench := exec.CommandContext(ctx, r.perennial, "bench", "--commands", strconv.Itoa(r.jobs), "--concurrency", strconv.Itoa(r.concurrency), "--drain", "-o", "json")
	bench.Dir = r.dir
	bench.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	text, err := bench.Output()
	if err != nil {
		return m, fmt.Errorf("perennial bench: %w", err)
	}
	var got struct {
		Direct    float64 `json:"direct_per_second"`
		DirectCPU float64 `json:"direct_cpu_us_per_command"`
		Runner    float64 `json:"runner_per_second"`
		RunnerCPU float64 `json:"runner_cpu_us_per_command"`
		Agree     bool    `json:"books_agree"`
		Drained   struct {
			Runner    float64 `json:"runner_per_second"`
			RunnerCPU float64 `json:"runner_cpu_us_per_command"`
		} `json:"drained"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return m, fmt.Errorf("perennial bench said %q: %w", text, err)
	}
	if !got.Agree {
		return m, errors.New("perennial bench: the books do not agree")
	}
	return measurement{
		Contender: c.id, DirectPerSecond: got.Direct, DirectCPU: got.DirectCPU,
		EndToEnd: rate{PerSecond: got.Runner, WorkerCPU: got.RunnerCPU}, Drained: rate{PerSecond: got.Drained.Runner, WorkerCPU: got.Drained.RunnerCPU},
	}, nil
}
