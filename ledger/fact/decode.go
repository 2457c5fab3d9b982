// How the data of a journal row is read back into its fact.

package fact

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// decoders holds one reader for each type of fact, so that a journal can be
// folded again long after it was written.
var decoders = map[string]func([]byte) (Fact, error){
	"ledger.opened":      decodeAs[LedgerOpened],
	"runner.started":     decodeAs[RunnerStarted],
	"command.accepted":   decodeAs[CommandAccepted],
	"command.rejected":   decodeAs[CommandRejected],
	"command.conflict":   decodeAs[CommandConflict],
	"command.held":       decodeAs[CommandHeld],
	"command.released":   decodeAs[CommandReleased],
	"command.cancelled":  decodeAs[CommandCancelled],
	"operation.sending":  decodeAs[OperationSending],
	"operation.unsent":   decodeAs[OperationUnsent],
	"operation.waiting":  decodeAs[OperationWaiting],
	"operation.review":   decodeAs[OperationReview],
	"operation.resolved": decodeAs[OperationResolved],
	"order.accepted":     decodeAs[OrderAccepted],
	"order.progressed":   decodeAs[OrderProgressed],
	"order.delivered":    decodeAs[OrderDelivered],
	"order.refunded":     decodeAs[OrderRefunded],
	"renewal.completed":  decodeAs[RenewalSettled],
	"renewal.partial":    decodeAs[RenewalSettled],
	"renewal.failed":     decodeAs[RenewalSettled],
	"sweep.planned":      decodeAs[SweepPlanned],
	"sweep.held":         decodeAs[SweepHeld],
	"sweep.finished":     decodeAs[SweepFinished],
	"sweep.missed":       decodeAs[SweepMissed],
	"sweep.failed":       decodeAs[SweepFailed],
	"proxy.skipped":      decodeAs[ProxySkipped],
	"proxy.expiring":     decodeAs[ProxyExpiring],
	"proxy.expired":      decodeAs[ProxyExpired],
	"proxy.retired":      decodeAs[ProxyRetired],
	"proxy.reinstated":   decodeAs[ProxyReinstated],
	"proxy.replaced":     decodeAs[ProxyReplaced],
	"proxy.review":       decodeAs[ProxyReview],
	"account.paused":     decodeAs[AccountPaused],
	"account.resumed":    decodeAs[AccountResumed],
	"ledger.recorded":    decodeAs[LedgerRecorded],
	"ledger.reconciled":  decodeAs[LedgerReconciled],
	"ledger.discrepancy": decodeAs[LedgerDiscrepancy],
	"ledger.archived":    decodeAs[LedgerArchived],
	"ledger.bounded":     decodeAs[LedgerBounded],
}

func decodeAs[F Fact](data []byte) (Fact, error) {
	var f F
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	return f, nil
}

// Decode reads the data of a journal row back into its fact. A type or a
// field that this version does not know is an error: a fold that leaves
// something out would be wrong without saying so.
func Decode(factType string, data []byte) (Fact, error) {
	decode, ok := decoders[factType]
	if !ok {
		return nil, fmt.Errorf("fact type %q is not known to this version: use the version that wrote it, or a later one", factType)
	}
	f, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", factType, err)
	}
	return f, nil
}
