// Handling a service request: JSON decoding, JSON encoding and error codes.

package daemon

import (
	"bytes"
	"context"
	"errors"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue/service"
	"perennial/schedules"
)

// serve attaches a handler to a declared service request.
func serve[Q, A any](v verbs.Verb[Q, A], do func(context.Context, Q) (A, error)) service.Verb {
	served := v.Verb
	served.Handle = func(ctx context.Context, data []byte) ([]byte, error) {
		ctx = fact.WithUser(ctx, service.Caller(ctx))
		var q Q
		if err := command.DecodeRequest(data, &q); err != nil {
			return nil, &service.Error{Code: "bad_request", Description: "the request is not the JSON that this verb takes: " + err.Error()}
		}
		if bounded, ok := any(q).(interface{ Check() error }); ok {
			if err := bounded.Check(); err != nil {
				return nil, &service.Error{Code: "bad_request", Description: err.Error()}
			}
		}
		out, err := do(ctx, q)
		if err != nil {
			return nil, refusal(err)
		}
		var text bytes.Buffer
		err = fact.Encode(&text, out)
		return text.Bytes(), err
	}
	return served
}

// NothingOfID is the description of CodeNotFound for an id that the account does not know.
const NothingOfID = "there is no command or operation of that id"

// refusal converts a known error to a service.Error with its code. It returns any other error
// unchanged.
func refusal(err error) error {
	var refused *command.RefusedError
	if answered, ok := errors.AsType[*service.Error](err); ok {
		return answered
	}
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return &service.Error{Code: CodeNotFound, Description: NothingOfID}
	case errors.Is(err, schedules.ErrNoPlan), errors.Is(err, schedules.ErrNoSchedule):
		return &service.Error{Code: CodeNotFound, Description: err.Error()}
	case errors.Is(err, schedules.ErrFired), errors.Is(err, schedules.ErrForecastDays), errors.Is(err, schedules.ErrOverBudget), errors.Is(err, schedules.ErrBegun):
		return &service.Error{Code: "refused", Description: err.Error()}
	case errors.As(err, &refused) && refused.Unknown:
		return &service.Error{Code: CodeNotFound, Description: refused.Reason}
	case errors.As(err, &refused) && refused.Unconfirmed:
		return &service.Error{Code: CodeUnconfirmed, Description: refused.Reason}
	case errors.As(err, &refused):
		return &service.Error{Code: "refused", Description: refused.Reason}
	}
	return err
}
