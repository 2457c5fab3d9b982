// Renewal requests and results.

package upstream

import (
	"encoding/json"
	"errors"
)

// RenewRequest is the body of a renewal (API: POST /api/v1/proxies/renew).
type RenewRequest struct {
	ProxyIDs     []string `json:"proxy_ids"`
	DurationDays int64    `json:"duration_days"` // a positive multiple of 30, at most 1095
}

// RenewBody returns the encoded body of a renewal. A caller encodes a renewal once, and stores,
// signs and sends these bytes in every attempt. RenewBody returns an error for an invalid
// duration, and for proxy ids that are missing, empty or duplicate.
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

// The statuses of a renewal's result (API: Renewal status). The provider may send others. Do
// not retry automatically after an unknown status.
const (
	RenewalCompleted    = "completed"
	RenewalPartial      = "partial"       // the provider refunds the failed proxies
	RenewalManualReview = "manual_review" // some results are pending: do not submit the renewal again
	RenewalFailed       = "failed"        // all proxies failed; the response has HTTP status 422
)

// The statuses of one line item (API: Renewal result). The money for an unresolved line item
// counts neither as spent nor as refunded (trap 18).
const (
	LineSucceeded  = "succeeded"
	LineFailed     = "failed"
	LineUnresolved = "unresolved"
)

// Renewal is the result of a renewal (API: Renewal result). Amounts are in cents. ChargedCents
// excludes refunds. Missing lists the documented fields that were absent or null. The zero
// values of these fields have no meaning.
type Renewal struct {
	Status                                  string
	TotalCents, ChargedCents, RefundedCents int64
	Successful, Failed, Unresolved          []string
	LineItems                               []RenewalLine
	Unusable                                []Unusable // line items that cannot be decoded; they are not in LineItems
	Missing                                 []string
}

// RenewalLine is one line item. Missing has the meaning that [Renewal] describes.
type RenewalLine struct {
	ProxyID, Status                          string
	DurationDays                             int64
	AmountCents, ChargedCents, RefundedCents int64
	Amount                                   string // a decimal string in the currency's main unit; "" if absent
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
	days, _ := as[int64](o.raw("duration_days")) // an unreadable value is no error, because no amount depends on it
	return RenewalLine{
		ProxyID: o.str("proxy_id"), Status: o.str("status"), DurationDays: days,
		AmountCents: o.integer("amount_cents"), ChargedCents: o.integer("charged_cents"), RefundedCents: o.integer("refunded_cents"),
		Amount:  o.decimal("amount"),
		Missing: o.missing("proxy_id", "status", "duration_days", "amount_cents", "charged_cents", "refunded_cents"),
	}
}
