// The load of `perennial bench`: a producer of commands and a follower of events in a
// process of their own, as the producers and subscribers of a real account are.

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"perennial/queue"
)

// loadPlan is what bench writes to the load's process, on its standard input: the address may hold
// a password.
type loadPlan struct {
	URL       string   `json:"url"`
	CredsFile string   `json:"creds_file,omitempty"`
	Accounts  []string `json:"accounts"` // commands go to them in turn
	Kind      string   `json:"kind"`
	Commands  int      `json:"commands"`
	First     int      `json:"first"`     // the id of the first command
	FromProxy int      `json:"from"`      // which of each account's proxies is renewed first
	InFlight  int      `json:"in_flight"` // commands of an account published and not finished, at most
	Fill      bool     `json:"fill"`      // all are published before it says that it is ready
	Logins    []string `json:"logins"`    // one-time links of people who look at the pages meanwhile
}

// loadAnswer is what the load's process says: Ready when it hears events, then, behind the
// order to go, the result.
type loadAnswer struct {
	Ready       bool    `json:"ready,omitempty"`
	P50Millis   float64 `json:"p50_ms"`
	P99Millis   float64 `json:"p99_ms"`
	TookSeconds float64 `json:"took_seconds"` // from the order to go to the last event

	Pages *pagesLoaded `json:"pages,omitempty"`
	Error string       `json:"error,omitempty"`
}

// loadName is the hidden command that the load's process runs.
const loadName = "bench-load"

func (a *app) benchLoadCommand() *cobra.Command {
	return &cobra.Command{
		Use: loadName, Hidden: true, Args: cobra.NoArgs,
		Short: "The producer and the follower of `bench`, which starts it",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var plan loadPlan
			in := json.NewDecoder(a.stdin)
			if err := in.Decode(&plan); err != nil {
				return usage("%s is started by `perennial bench`, which says what to do: %w", loadName, err)
			}
			orders := make(chan json.RawMessage)
			ctx, cancel := untilInputEnds(cmd.Context(), in, orders)
			defer cancel()
			result, err := a.load(ctx, plan, orders)
			if err != nil {
				result.Error = cmpCause(ctx, err).Error()
			}
			return errors.Join(json.NewEncoder(a.stdout).Encode(result), silentFailure(err))
		},
	}
}

// cmpCause is why ctx ended where err says no more than that it did.
func cmpCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		return cause
	}
	return err
}

// silentFailure ends the program with 1; its answer has said why.
func silentFailure(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: ExitFailed}
}

// load connects, publishes and follows.
func (a *app) load(ctx context.Context, plan loadPlan, orders <-chan json.RawMessage) (result loadAnswer, err error) {
	q, err := queue.Connect(queue.ConnectConfig{URL: plan.URL, CredsFile: plan.CredsFile, Name: "perennial-bench", Log: a.logger()})
	if err != nil {
		return result, err
	}
	defer q.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := newMeter(plan, q)
	followed, err := m.follow(ctx, cancel)
	if err != nil {
		return result, err
	}
	if plan.Fill {
		if err := m.publish(ctx); err != nil {
			return result, err
		}
	}
	if err := json.NewEncoder(a.stdout).Encode(loadAnswer{Ready: true}); err != nil {
		return result, err
	}
	select {
	case <-orders: // to go
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
	watching, err := openPages(ctx, plan.Logins, plan.Accounts)
	if err != nil {
		return result, err
	}
	begin := time.Now()
	go m.watchStall(ctx, cancel)
	if !plan.Fill {
		if err := m.publish(ctx); err != nil {
			return result, cmpCause(ctx, err)
		}
	}
	if err := followed(); err != nil {
		return result, cmpCause(ctx, err)
	}
	result.TookSeconds = time.Since(begin).Seconds()
	if result.Pages, err = watching(); err != nil {
		return result, err
	}
	result.P50Millis, result.P99Millis = m.percentile(50), m.percentile(99)
	return result, nil
}

// stallAfter is after how long without an event the load gives up: a runner that works
// finishes something in it.
const stallAfter = 2 * time.Minute

// watchStall ends ctx when no command has finished for stallAfter.
func (m *meter) watchStall(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(stallAfter)
	defer ticker.Stop()
	for before := int64(-1); ; {
		now := m.finished.Load()
		if now == before {
			cancel(fmt.Errorf("no command has finished for %s: %d of %d had", stallAfter, now, m.plan.Commands))
			return
		}
		before = now
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// percentile of the latencies, in milliseconds.
func (m *meter) percentile(p int) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.latencies)
	return float64(m.latencies[len(m.latencies)*p/100].Microseconds()) / 1000
}
