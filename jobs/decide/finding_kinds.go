// The kinds of finding that a reconciliation, or a read of an order, publishes.

package decide

// Kinds of finding. docs/operations.md says of each what it means.
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
	FindingLate     = "late_reply" // published by a worker; nothing to compare again

	// Those of an order's read.
	FindingOrderCurrency  = "order_currency"
	FindingRefundCurrency = "refund_currency"
	FindingRefundAmount   = "refund_amount"
	FindingShort          = "order_short" // published once, when the order settles
)

// FindingKinds are all of them.
func FindingKinds() []string {
	return []string{
		FindingWallet, FindingOutside, FindingTotal, FindingCharge, FindingRefund, FindingMissing, FindingSums, FindingNotMoved, FindingRenewed,
		FindingDecimal, FindingLate, FindingOrderCurrency, FindingRefundCurrency, FindingRefundAmount, FindingShort,
	}
}
