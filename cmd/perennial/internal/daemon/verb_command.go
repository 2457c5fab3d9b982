// The service requests order.create and proxy.renew, which carry out a command and return its
// result.

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"perennial/jobs"
	"perennial/queue"
	"perennial/queue/publish"
	"perennial/queue/service"
)

// carryOut returns v with a handler that publishes the command on the commands stream, as
// the command's producer could, and returns the result. Nothing stores the command before it
// is published. A producer that gets no response therefore repeats the request with the same
// id.
func (a answers) carryOut(v service.Verb) service.Verb {
	v.Handle = func(ctx context.Context, data []byte) ([]byte, error) {
		if len(data) > queue.MaxCommandBytes {
			return nil, &service.Error{Code: "bad_request", Description: fmt.Sprintf("the command has %d bytes of at most %d", len(data), queue.MaxCommandBytes)}
		}
		outgoing := publish.Outgoing{Kind: queue.Kind(v.Name), Data: data, Header: nats.Header{}}
		for _, name := range []string{"traceparent", "tracestate"} {
			if value := service.RequestHeader(ctx, name); value != "" {
				outgoing.Header.Set(name, value)
			}
		}
		bounded, cancel := context.WithTimeout(ctx, mostParked)
		defer cancel()
		answer, err := publish.New(a.js()).CarryOut(bounded, a.Name, outgoing)
		if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, publish.ErrUnacknowledged) && ctx.Err() == nil {
			return nil, &service.Error{Code: "not_finished", Description: "the command is published and not over yet: ask for its end with the verb wait"}
		}
		if err != nil {
			return nil, err
		}
		var refused jobs.Refusal
		if err := json.Unmarshal(answer, &refused); err == nil && refused.Error != "" {
			return nil, &service.Error{Code: refused.Error, Description: refused.Reason, Body: answer}
		}
		return answer, nil
	}
	return v
}
