// This file lists all facts, and decodes a journal row's data into a fact.

package fact

import (
	"errors"
	"fmt"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// all has a value of each type of fact, so that journals of any age can be decoded.
var all = []Fact{
	LedgerOpened{}, LedgerRecorded{}, LedgerReconciled{}, LedgerUncompared{}, LedgerDiscrepancy{}, LedgerArchived{}, LedgerBounded{}, RunnerStarted{},
	CommandAccepted{}, CommandFinished{}, CommandRejected{}, CommandConflict{}, CommandHeld{}, CommandReleased{}, CommandCancelled{},
	OperationSending{}, OperationUnsent{}, OperationWaiting{}, OperationReview{}, OperationResolved{}, OperationOverran{},
	OrderAccepted{}, OrderProgressed{}, OrderDelivered{}, OrderRefunded{}, OrderListed{},
	RenewalSettled{Status: "completed"}, RenewalSettled{Status: "partial"}, RenewalSettled{Status: "failed"},
	SweepPlanned{}, SweepHeld{}, SweepFinished{}, SweepMissed{}, SweepFailed{}, ListingShrunk{}, ListingUncovered{}, ScheduleConfigured{}, SchedulePaused{}, ScheduleResumed{},
	ProxySkipped{}, ProxyExpiring{}, ProxyExpired{}, ProxyGone{}, ProxyRetired{}, ProxyReinstated{}, ProxyReplaced{}, ProxyReview{}, ProxyRevealed{},
	AccountPaused{}, AccountResumed{}, DeadRequeued{}, DeadDropped{},
}

var types = func() map[string]reflect.Type {
	byName := map[string]reflect.Type{}
	for _, f := range all {
		byName[f.FactType()] = reflect.TypeOf(f)
	}
	return byName
}()

// Types returns a zero value of each type of fact by name. It is used to generate schemas.
func Types() map[string]Fact {
	zeros := map[string]Fact{}
	for name, t := range types {
		zeros[name], _ = reflect.TypeAssert[Fact](reflect.Zero(t))
	}
	return zeros
}

// UnknownError reports a fact from a later version of the program. This version does not
// know the fact's type, or a field of its data.
type UnknownError struct {
	Type  string // type of the fact
	Field string // "" if the type is unknown
}

// What describes the unknown type or field.
func (e *UnknownError) What() string {
	if e.Field != "" {
		return fmt.Sprintf("field %q of fact type %q", e.Field, e.Type)
	}
	return fmt.Sprintf("fact type %q", e.Type)
}

// Error says what is unknown, and what to do.
func (e *UnknownError) Error() string {
	return e.What() + " is not known to this version: use the version that wrote it, or a later one"
}

// Decode decodes a journal row's data into its fact. Fields may have current or former
// names. It returns an *UnknownError for a type or field that this version does not know,
// because ignoring it would make derived tables wrong.
func Decode(factType string, data []byte) (Fact, error) {
	t, ok := types[factType]
	if !ok {
		return nil, &UnknownError{Type: factType}
	}
	f, err := decodeStrictly(t, data)
	if err != nil && renamed[factType] != nil {
		f, err = decodeStrictly(t, withPresentNames(factType, data))
	}
	if err != nil {
		if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok && errors.Is(err, jsonv2.ErrUnknownName) {
			return nil, &UnknownError{Type: factType, Field: semantic.JSONPointer.LastToken()}
		}
		return nil, fmt.Errorf("decode %s: %w", factType, err)
	}
	return f, nil
}

// decoding is encoding/json's decoding, except that it rejects unknown fields.
var decoding = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false), jsonv2.RejectUnknownMembers(true))

func decodeStrictly(t reflect.Type, data []byte) (Fact, error) {
	v := reflect.New(t)
	if err := jsonv2.Unmarshal(data, v.Interface(), decoding); err != nil {
		return nil, err
	}
	f, _ := reflect.TypeAssert[Fact](v.Elem())
	return f, nil
}
