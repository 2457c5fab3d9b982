// Kills: the worker is killed with kill -9 in the middle of its work, again and again, and
// started again at once. The sandbox's referee says what came of the jobs.

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// Replies of the provider come after 150 to 250 ms.
const (
	replyAfter  = 150 * time.Millisecond
	replyJitter = 100 * time.Millisecond
)

// killed is what a run under kills came to.
type killed struct {
	Contender string  `json:"contender"`
	Keys      string  `json:"keys"`
	Jobs      int     `json:"jobs"`
	Kills     int     `json:"kills"`
	Lost      int     `json:"lost"`            // jobs without a charge
	Doubled   int     `json:"charged_twice"`   // jobs with more than one
	Extra     int     `json:"extra_charges"`   // over the first of each job
	Open      int     `json:"open"`            // jobs that the store never had as done
	Worked    float64 `json:"last_kill_after"` // seconds from the beginning to the last kill
	Settled   float64 `json:"settled_after"`   // seconds from the beginning to the last job done
	Books     string  `json:"books,omitempty"`
}

// victim is a worker that can be killed and started again.
type victim struct {
	jobs  int
	start func() (*process, error) // ready when it returns
	begin func() error             // what begins the run, behind the first start
	done  func() (int, error)      // jobs that are done, as the store says
	box   *sandbox
}

func (r *rig) kill(ctx context.Context, c contender, keys string) (k killed, err error) {
	if c.peer == "" {
		return r.killPerennial(ctx, c)
	}
	jobs := max(r.killJobs/c.part, 1)
	s, err := r.setUp(ctx, c, jobs)
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, s.tearDown()) }()
	if err := s.box.delay(replyAfter, replyJitter); err != nil {
		return k, err
	}
	if err := r.fill(c, s, jobs); err != nil {
		return k, err
	}
	v := victim{
		jobs: jobs,
		start: func() (*process, error) {
			p, err := r.worker(c, s, keys)
			if err != nil {
				return nil, err
			}
			return p, p.say("go")
		},
		begin: func() error { return nil },
		done:  func() (int, error) { return s.store.done(ctx) },
		box:   s.box,
	}
	k, p, err := r.killing(ctx, v)
	k.Contender, k.Keys = c.id, keys
	return k, errors.Join(err, p.stop(syscall.SIGTERM))
}

// killing runs a victim to the end of its jobs. The process that is left is the caller's.
func (r *rig) killing(ctx context.Context, v victim) (k killed, p *process, err error) {
	begun := time.Now()
	if p, err = v.start(); err != nil {
		return k, nil, err
	}
	if err := v.begin(); err != nil {
		return k, p, err
	}
	for _, at := range r.moments(v.jobs) {
		if err := v.awaitCharges(ctx, at, p); err != nil {
			return k, p, err
		}
		p.kill()
		k.Kills++
		k.Worked = time.Since(begun).Seconds()
		if p, err = v.start(); err != nil {
			return k, nil, err
		}
	}
	done := 0
	err = poll(ctx, r.settleWithin, 50*time.Millisecond, func() (bool, error) {
		var err error
		done, err = v.done()
		return done >= v.jobs, errors.Join(err, p.failed())
	})
	if err != nil && !errors.Is(err, errTooLong) {
		return k, p, err
	}
	k.Settled = time.Since(begun).Seconds()
	t, err := v.judge()
	k.Jobs, k.Open, k.Lost, k.Doubled, k.Extra = v.jobs, v.jobs-done, t.lost, t.doubled, t.extra
	return k, p, err
}

// moments are after how many charges the worker is killed: one at random in each of equal
// parts of the first nine tenths of the jobs. By then every life has had work of its own,
// whatever the store takes to give the jobs of the lives before to another.
func (r *rig) moments(jobs int) []int {
	part := float64(jobs) * 0.9 / float64(max(r.kills, 1))
	var at []int
	for i := range r.kills {
		at = append(at, int(part*(float64(i)+rand.Float64()))+1)
	}
	return at
}

// awaitCharges waits until the referee has so many.
func (v *victim) awaitCharges(ctx context.Context, charges int, p *process) error {
	err := poll(ctx, 3*time.Minute, 2*time.Millisecond, func() (bool, error) {
		err := errors.Join(v.box.referee.read(), p.failed())
		return v.box.referee.charges >= charges, err
	})
	if err != nil {
		return fmt.Errorf("wait for %d charges: %w", charges, err)
	}
	return nil
}

// judge asks the referee, when requests that the killed left behind are through too.
func (v *victim) judge() (tally, error) {
	time.Sleep(2 * (replyAfter + replyJitter)) // the sandbox says nowhere that it holds none back
	if err := v.box.referee.read(); err != nil {
		return tally{}, err
	}
	return v.box.referee.count(v.jobs)
}
