// Package main compares Perennial with its peers at the same job: one signed POST to the
// sandbox for each, its result recorded as the peer records results. `docs/benchmarks/run`
// builds and starts it; README.md beside it has the method and the figures.
//
// `compare` starts the stores, the sandbox and, as processes of their own, what is
// measured: this program again as `direct`, `produce`, `work` and `nats`, which wait for a
// line on their standard input before they begin.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

// run is one of the commands.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("use compare, or the script docs/benchmarks/run")
	}
	name, args := args[0], args[1:]
	if name == "compare" {
		return compare(ctx, args)
	}
	o := childFlags(name, args)
	switch name {
	case "direct":
		return direct(ctx, o)
	case "produce":
		return withStore(ctx, o, func(s store) error {
			if err := s.produce(ctx, 1, o.jobs); err != nil {
				return err
			}
			fmt.Println(`{"produced":true}`)
			return nil
		})
	case "work":
		w, err := o.worker()
		if err != nil {
			return err
		}
		return withStore(ctx, o, func(s store) error { return s.work(ctx, w) })
	case "nats":
		return serveNATS(ctx, o.dir, o.syncAlways, func(url string) error {
			return json.NewEncoder(os.Stdout).Encode(map[string]string{"url": url})
		})
	}
	return fmt.Errorf("no command is called %q", name)
}

// childOptions are what `compare` tells the processes that it starts.
type childOptions struct {
	peer, url, base, keys, dir string
	first, jobs, concurrency   int
	syncAlways                 bool
}

func childFlags(name string, args []string) childOptions {
	var o childOptions
	f := flag.NewFlagSet(name, flag.ExitOnError)
	f.StringVar(&o.peer, "peer", "", "whose store it is")
	f.StringVar(&o.url, "url", "", "of the store")
	f.StringVar(&o.base, "base", "", "of the sandbox")
	f.StringVar(&o.keys, "keys", keyPerJob, "attempt or job")
	f.StringVar(&o.dir, "dir", "", "of the NATS server's files")
	f.IntVar(&o.first, "first", 1, "number of the first job")
	f.IntVar(&o.jobs, "jobs", 0, "how many jobs")
	f.IntVar(&o.concurrency, "concurrency", 64, "requests under way at once")
	f.BoolVar(&o.syncAlways, "sync-always", false, "the NATS server syncs every write")
	_ = f.Parse(args)
	return o
}

func (o childOptions) worker() (*worker, error) {
	c, err := newClient(o.base, o.concurrency)
	if err != nil {
		return nil, err
	}
	return &worker{client: c, keys: o.keys, concurrency: o.concurrency}, nil
}

// awaitGo says that this process is ready, and waits for a line.
func awaitGo() error {
	fmt.Println(`{"ready":true}`)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("wait for the order to go: %w", err)
	}
	return nil
}

func withStore(ctx context.Context, o childOptions, do func(store) error) error {
	s, err := openStore(ctx, o.peer, o.url)
	if err != nil {
		return err
	}
	defer s.close()
	if err := awaitGo(); err != nil {
		return err
	}
	return do(s)
}

// directResult is what the bare client comes to.
type directResult struct {
	Seconds   float64 `json:"seconds"`
	CPUMicros float64 `json:"cpu_us"` // of all jobs
}

// direct sends the requests of the jobs with nothing around them.
func direct(ctx context.Context, o childOptions) error {
	w, err := o.worker()
	if err != nil {
		return err
	}
	if err := awaitGo(); err != nil {
		return err
	}
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		return err
	}
	begin := time.Now()
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range o.concurrency {
		group.Go(func() error {
			for {
				n := int(next.Add(1)) - 1
				if n >= o.jobs {
					return nil
				}
				if _, err := w.do(ctx, o.first+n); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	took := time.Since(begin)
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		return err
	}
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	return json.NewEncoder(os.Stdout).Encode(directResult{Seconds: took.Seconds(), CPUMicros: float64(used) / 1000})
}
