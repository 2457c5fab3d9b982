package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/service"
	"perennial/schedules"
	"perennial/schedules/plans"
)

// These helpers use the documented subjects, exit codes and JSON, as a client program would.

// request sends a request to a verb of the account's service.
func request(ctx context.Context, q *queue.Queue, verb string, question, answer any) error {
	data, err := json.Marshal(question)
	if err != nil {
		return err
	}
	reply, err := service.Request(ctx, q.JetStream(), "main", verb, data)
	if err != nil {
		return err
	}
	return json.Unmarshal(reply, answer)
}

// endOf waits until a command has ended.
func endOf(ctx context.Context, q *queue.Queue, id string) (status inspect.CommandStatus, err error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		var states map[string]fact.State
		err := request(ctx, q, "states", map[string][]string{"ids": {id}}, &states)
		if s := states[id]; s != "" && (s.Ended() || s == fact.StateReview || s == fact.StateHeld || s == inspect.StateConflict) {
			if err = request(ctx, q, "status", map[string]string{"id": id}, &status); err == nil {
				return status, nil
			}
		}
		if err != nil && !errors.Is(err, service.ErrNoRunner) && !errors.Is(err, queue.ErrStopping) {
			return status, err
		}
		select {
		case <-ctx.Done():
			return status, ctx.Err()
		case <-ticker.C:
		}
	}
}

// commandIn returns the ID of an event's command, "" for none.
func commandIn(e events.Event) string {
	var event struct {
		Data fact.Ref `json:"data"`
	}
	if json.Unmarshal(e.Data, &event) != nil {
		return ""
	}
	return event.Data.CommandID
}

// sweepCode returns the exit code of a sweep with this plan (docs/cli.md).
func sweepCode(p plans.Plan) int {
	switch {
	case p.State == schedules.StateHeld || p.LeftOutCounts[plans.ReasonPerson] > 0:
		return cli.ExitPerson
	case len(p.Shortfalls) > 0:
		return cli.ExitPartly
	}
	return cli.ExitDone
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
