// Renewal requests and results.

package upstream

import (
	"encoding/json"
	"errors"
)

// RenewRequest is the body of a renewal (API: POST /api/v1/proxies/renew).
type RenewRequest struct {
	ProxyIDs     []string `json:"proxy_ids"`
	DurationDays int64    `json:"duration_days"` // positive multiple of 30, at most 1095
}

// RenewBody encodes a renewal once. Every attempt stores, signs and sends these bytes.
func RenewBody(r RenewRequest) ([]byte, error) {
	if r.DurationDays <= 0 || r.DurationDays%DayStep != 0 || r.DurationDays > MaxRenewDays {
		return nil, errors.New("renewal: duration_days must be a positive multiple of 30, at most 1095")
	}
	if len(r.ProxyIDs) == 0 {
		return nil, errors.New("renewal: proxy_ids is empty")
	}
	seen := make(map[string]struct{}, len(r.ProxyIDs))
	for _, id := range r.ProxyIDs {
		if _, twice := seen[id]; twice || id == "" {
			return nil, errors.New("renewal: a proxy id is empty or appears twice")
		}
		seen[id] = struct{}{}
	}
	return json.Marshal(r)
}

// The statuses of a renewal's result (API: Renewal status). There may be others. Do not
// retry automatically after an unknown one.
const (
	RenewalCompleted    = "completed"
	RenewalPartial      = "partial"       // failed items are refunded
	RenewalManualReview = "manual_review" // some results are pending: do not submit again
	RenewalFailed       = "failed"        // all items failed; comes with HTTP 422
)

// The states of a line item (API: Renewal result). An unresolved item is neither spent nor
// refunded.
const (
	LineSucceeded  = "succeeded"
	LineFailed     = "failed"
	LineUnresolved = "unresolved"
)

// Renewal is a renewal's result (API: Renewal result). Amounts are in cents. ChargedCents
// is net of refunds. Missing names documented fields that were absent or null; ignore
// their zero values.
type Renewal struct {
	Status                                  string
	TotalCents, ChargedCents, RefundedCents int64
	Successful, Failed, Unresolved          []string
	LineItems                               []RenewalLine
	Unusable                                []Unusable // line items that cannot be decoded; LineItems holds the others
	Missing                                 []string
}

// RenewalLine is one line item. Missing is as in [Renewal].
type RenewalLine struct {
	ProxyID, Status                          string
	DurationDays                             int64
	AmountCents, ChargedCents, RefundedCents int64
	Amount                                   string // decimal string, main unit; "" if absent
	Missing                                  []string
}

func decodeRenewal(o *object, _ *Envelope) *Renewal {
	r := &Renewal{
		Status: o.str("status"), TotalCents: o.integer("total_cents"), ChargedCents: o.integer("charged_cents"),
		RefundedCents: o.integer("refunded_cents"), Successful: arrayOf[string](o, "successful_proxy_ids", "strings"),
		Failed: arrayOf[string](o, "failed_proxy_ids", "strings"), Unresolved: arrayOf[string](o, "unresolved_proxy_ids", "strings"),
		Missing: o.missing("status", "total_cents", "charged_cents", "refunded_cents",
			"successful_proxy_ids", "failed_proxy_ids", "unresolved_proxy_ids", "line_items"),
	}
	r.LineItems, r.Unusable = decodeEach(o, "line_items", "proxy_id", decodeRenewalLine)
	if o.err != nil {
		return nil
	}
	return r
}

func decodeRenewalLine(o *object) RenewalLine {
	days, _ := as[int64](o.raw("duration_days")) // no money depends on it
	return RenewalLine{
		ProxyID: o.str("proxy_id"), Status: o.str("status"), DurationDays: days,
		AmountCents: o.integer("amount_cents"), ChargedCents: o.integer("charged_cents"), RefundedCents: o.integer("refunded_cents"),
		Amount:  o.decimal("amount"),
		Missing: o.missing("proxy_id", "status", "duration_days", "amount_cents", "charged_cents", "refunded_cents"),
	}
}
