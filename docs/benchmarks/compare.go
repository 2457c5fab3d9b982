// `compare`: what is measured, in which order, and the tables at the end.

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// contender is a row of the tables.
type contender struct {
	id     string // for -only
	label  string
	peer   string // of openStore; empty for Perennial
	server string // of startServer
	disk   string // what is on the disk when
	part   int    // of the jobs, which it carries out: one in part
}

var contenders = []contender{
	{"jetstream", "plain JetStream worker, `sync_interval` 2 min", "jetstream", "nats", "nothing of the result; a job when the server next syncs, within 2 min", 1},
	{"jetstream-sync", "plain JetStream worker, `sync_interval: always`", "jetstream", "nats-sync", "nothing of the result; a job before its batch is acknowledged", 1},
	{"perennial", "**Perennial**", "", "", "the command before it is acknowledged; key and body before the request; reply, two bookings and events' rows before the command ends", 1},
	{"river", "River, result as recorded output", "river", "postgres", "a job when its INSERT commits; the result some 50 ms behind the job, with others'", 1},
	{"river-ledger", "River, two ledger rows in the job's transaction", "river-ledger", "postgres", "a job when its INSERT commits; ledger rows and result when the job's transaction does", 1},
	{"asynq-everysec", "Asynq, `appendfsync everysec`", "asynq", "redis-everysec", "a job and its result within a second or two of being acknowledged", 1},
	{"asynq-always", "Asynq, `appendfsync always`", "asynq", "redis-always", "a job and its result before they are acknowledged", 1},
	{"temporal", "Temporal's development server on a SQLite file (a tenth of the jobs)", "temporal", "temporal", "every event of a workflow's history, the result among them, when it is recorded", 10},
}

// rig is where everything runs, and with what.
type rig struct {
	self, perennial, postgres, redis, temporal, dir string
	jobs, rounds, concurrency                       int
	killJobs, kills                                 int
	only, killOnly                                  string // ids, joined by commas
	settleWithin                                    time.Duration
	raw                                             *json.Encoder
}

func compare(ctx context.Context, args []string) error {
	r, err := rigFlags(args)
	if err != nil {
		return err
	}
	chosen, toKill := r.named(r.only), r.named(cmp.Or(r.killOnly, r.only))
	rates, kills := map[string][]measurement{}, []killed{}
	for round := range r.rounds {
		for _, c := range rotated(chosen, round) {
			m, err := r.measure(ctx, c)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, c.id, err)
			}
			r.note(m)
			rates[c.id] = append(rates[c.id], m)
		}
	}
	if r.kills > 0 {
		kills, err = r.killAll(ctx, toKill)
	}
	r.printHead()
	if r.rounds > 0 {
		printRates(chosen, rates)
	}
	if r.kills > 0 {
		printKills(r, kills)
	}
	return err
}

// named are the contenders of a list of ids, joined by commas; all of them if it is empty.
func (r *rig) named(ids string) (chosen []contender) {
	for _, c := range contenders {
		if c.peer == "temporal" && r.temporal == "" {
			continue
		}
		if ids == "" || slices.Contains(strings.Split(ids, ","), c.id) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// rotated begins each round with another contender: none always follows the same one.
func rotated(all []contender, by int) []contender {
	by %= max(len(all), 1)
	return slices.Concat(all[by:], all[:by])
}

// killAll kills each worker. A run that fails leaves the others their rows.
func (r *rig) killAll(ctx context.Context, chosen []contender) (all []killed, err error) {
	for _, c := range chosen {
		modes := []string{keyPerAttempt, keyPerJob}
		if c.peer == "" {
			modes = []string{keyPerJob}
		}
		for _, keys := range modes {
			k, failed := r.kill(ctx, c, keys)
			if failed != nil {
				err = errors.Join(err, fmt.Errorf("kill %s, a key per %s: %w", c.id, keys, failed))
				continue
			}
			r.note(k)
			all = append(all, k)
		}
	}
	return all, err
}

func rigFlags(args []string) (*rig, error) {
	r := &rig{}
	var raw string
	f := flag.NewFlagSet("compare", flag.ExitOnError)
	f.StringVar(&r.perennial, "perennial", "", "the program perennial")
	f.StringVar(&r.postgres, "postgres", "", "directory of initdb and postgres")
	f.StringVar(&r.redis, "redis", "", "the program redis-server")
	f.StringVar(&r.temporal, "temporal", "", "the program temporal; without it Temporal is left out")
	f.StringVar(&r.dir, "dir", "", "directory for everything, which others may enter")
	f.StringVar(&r.only, "only", "", "contenders, joined by commas (default: all)")
	f.StringVar(&r.killOnly, "kill-only", "", "contenders whose workers are killed (default: those of -only)")
	f.StringVar(&raw, "raw", "", "also append every single measurement to this file, as JSON lines")
	f.IntVar(&r.jobs, "jobs", 15000, "jobs of each measured run; more make the bare client's rate steadier")
	f.IntVar(&r.rounds, "rounds", 3, "rounds, in which every contender runs once; medians are printed")
	f.IntVar(&r.concurrency, "concurrency", 64, "requests under way at once")
	f.IntVar(&r.killJobs, "kill-jobs", 4000, "jobs of each run whose worker is killed; at least twice as many as kills times requests under way")
	f.IntVar(&r.kills, "kills", 20, "how often each worker is killed")
	f.DurationVar(&r.settleWithin, "settle-within", 5*time.Minute, "how long jobs may take to settle behind the last kill")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if r.perennial == "" || r.postgres == "" || r.redis == "" || r.dir == "" {
		return nil, errors.New("-perennial, -postgres, -redis and -dir are needed: docs/benchmarks/run gives them")
	}
	out := os.Stderr
	var err error
	if raw != "" {
		if out, err = os.OpenFile(raw, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return nil, err
		}
	}
	r.raw = json.NewEncoder(out)
	r.self, err = os.Executable()
	return r, err
}

// note writes one measurement down as soon as it is made.
func (r *rig) note(x any) { _ = r.raw.Encode(x) }
