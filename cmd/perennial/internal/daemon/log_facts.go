// What the log says of the account's facts, so that a day can be followed in it: pauses,
// sweeps and findings are said where they happen.

package daemon

import (
	"github.com/sirupsen/logrus"

	"perennial/ledger/fact"
)

// say logs a fact that a person should hear of.
func (f *following) say(x fact.Fact) {
	switch x := x.(type) {
	case fact.RunnerStarted:
		f.log.WithField("recovered", x.Recovered).Info("the account works")
	case fact.OperationReview:
		f.about(x.Ref).WithField("code", x.Code).Warn("in review: " + x.Reason)
	case fact.OperationResolved:
		f.about(x.Ref).WithField("cents", x.ChargedCents).Info("answered: " + x.Said(fact.Signed(x.By, x.User)))
	}
}

func (f *following) about(r fact.Ref) *logrus.Entry {
	return f.log.WithFields(logrus.Fields{"operation_id": r.OperationID, "command_id": r.CommandID, "trace_id": r.TraceID})
}
