// A verb as it is answered: one JSON value from another, and codes for what goes wrong.

package daemon

import (
	"bytes"
	"context"
	"errors"
	"reflect"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/schedules"
)

// VerbType is what a verb takes and gives, as types whose JSON it is.
type VerbType struct{ Request, Answer reflect.Type }

// verb is one verb of the service.
type verb struct {
	VerbType

	do queue.Verb
}

// VerbTypes are the types of every verb of an account's service.
func VerbTypes() map[string]VerbType {
	types := map[string]VerbType{}
	for name, v := range (&account{}).verbs() {
		types[name] = v.VerbType
	}
	return types
}

// answer makes a verb of a function from one JSON value to another.
func answer[Q, A any](do func(context.Context, Q) (A, error)) verb {
	return verb{VerbType{reflect.TypeFor[Q](), reflect.TypeFor[A]()}, func(ctx context.Context, data []byte) ([]byte, error) {
		ctx = fact.WithUser(ctx, queue.Caller(ctx))
		var q Q
		if err := command.DecodeRequest(data, &q); err != nil {
			return nil, &queue.ServiceError{Code: "bad_request", Description: "the request is not the JSON that this verb takes: " + err.Error()}
		}
		if bounded, ok := any(q).(interface{ check() error }); ok {
			if err := bounded.check(); err != nil {
				return nil, &queue.ServiceError{Code: "bad_request", Description: err.Error()}
			}
		}
		out, err := do(ctx, q)
		if err != nil {
			return nil, refusal(err)
		}
		var text bytes.Buffer
		err = fact.Encode(&text, out)
		return text.Bytes(), err
	}}
}

// refusal gives an error its code; an error that has none is as it was.
func refusal(err error) error {
	var refused *command.RefusedError
	if answered, ok := errors.AsType[*queue.ServiceError](err); ok {
		return answered
	}
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return &queue.ServiceError{Code: CodeNotFound, Description: "there is no command or operation of that id"}
	case errors.Is(err, schedules.ErrNoPlan), errors.Is(err, schedules.ErrNoSchedule):
		return &queue.ServiceError{Code: CodeNotFound, Description: err.Error()}
	case errors.Is(err, schedules.ErrFired), errors.Is(err, schedules.ErrForecastDays), errors.Is(err, schedules.ErrOverBudget):
		return &queue.ServiceError{Code: "refused", Description: err.Error()}
	case errors.As(err, &refused) && refused.Unknown:
		return &queue.ServiceError{Code: CodeNotFound, Description: refused.Reason}
	case errors.As(err, &refused) && refused.Unconfirmed:
		return &queue.ServiceError{Code: CodeUnconfirmed, Description: refused.Reason}
	case errors.As(err, &refused):
		return &queue.ServiceError{Code: "refused", Description: refused.Reason}
	}
	return err
}
