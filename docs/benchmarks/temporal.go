// Temporal on its development server: one workflow for each job, with one activity that
// sends the request. The activity's result is in the workflow's history.

package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	temporalworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sync/errgroup"
)

const (
	taskQueue         = "jobs"
	temporalProducers = 64 // goroutines that start workflows: each is a call of its own
)

type temporalStore struct{ client client.Client }

func openTemporal(ctx context.Context, address string) (store, error) {
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return nil, err
	}
	return &temporalStore{client: c}, nil
}

func (s *temporalStore) close() { s.client.Close() }

// prepare has nothing to do: each run has a server of its own.
func (s *temporalStore) prepare(context.Context) error { return nil }

func (s *temporalStore) produce(ctx context.Context, first, jobs int) error {
	group, ctx := errgroup.WithContext(ctx)
	for p := range temporalProducers {
		group.Go(func() error {
			for n := first + p; n < first+jobs; n += temporalProducers {
				options := client.StartWorkflowOptions{ID: "job-" + strconv.Itoa(n), TaskQueue: taskQueue}
				if _, err := s.client.ExecuteWorkflow(ctx, options, renewalFlow, n); err != nil {
					return fmt.Errorf("start workflow %d: %w", n, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// renewalFlow is the workflow: its only activity is an attempt of the job, as often as it
// takes.
func renewalFlow(ctx workflow.Context, n int) (got result, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: riverStuck, // as long as the other peers wait for a worker that was lost
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 10 * time.Millisecond, BackoffCoefficient: 1},
	})
	err = workflow.ExecuteActivity(ctx, activityName, n).Get(ctx, &got)
	return got, err
}

const activityName = "renew"

func (s *temporalStore) work(ctx context.Context, w *worker) error {
	t := temporalworker.New(s.client, taskQueue, temporalworker.Options{
		MaxConcurrentActivityExecutionSize: w.concurrency,
		MaxConcurrentActivityTaskPollers:   16, // default 2
		MaxConcurrentWorkflowTaskPollers:   16, // default 2
		DisableRegistrationAliasing:        true,
	})
	t.RegisterWorkflow(renewalFlow)
	t.RegisterActivityWithOptions(w.do, activity.RegisterOptions{Name: activityName})
	if err := t.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	t.Stop()
	return nil
}

func (s *temporalStore) done(ctx context.Context) (int, error) {
	got, err := s.client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: `ExecutionStatus = "Completed"`})
	if err != nil {
		return 0, err
	}
	return int(got.Count), nil
}
