// This file lists the kinds of finding that a reconciliation or a read of an order
// publishes.

package decide

// Kinds of finding; docs/operations.md explains each.
const (
	FindingWallet   = "wallet"
	FindingOutside  = "outside_order"
	FindingTotal    = "order_total"
	FindingCharge   = "order_charge"
	FindingRefund   = "order_refund"
	FindingMissing  = "order_missing"
	FindingSums     = "renewal_sum"
	FindingNotMoved = "expiry_not_moved"
	FindingRenewed  = "outside_renewal"
	FindingDecimal  = "decimal_string"
	FindingLate     = "late_reply" // published when a reply comes too late, not by a reconciliation

	// Findings from a read of an order.
	FindingOrderCurrency  = "order_currency"
	FindingRefundCurrency = "refund_currency"
	FindingRefundAmount   = "refund_amount"
	FindingShort          = "order_short" // published once, when the order settles
)

// FindingKinds lists all kinds of finding.
func FindingKinds() []string {
	return []string{
		FindingWallet, FindingOutside, FindingTotal, FindingCharge, FindingRefund, FindingMissing, FindingSums, FindingNotMoved, FindingRenewed,
		FindingDecimal, FindingLate, FindingOrderCurrency, FindingRefundCurrency, FindingRefundAmount, FindingShort,
	}
}
