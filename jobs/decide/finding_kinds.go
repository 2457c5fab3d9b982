// The kinds of finding that a reconciliation, or a read of an order, publishes.

package decide

// Kinds of finding. docs/operations.md says of each what it means.
const (
	KindWallet   = "wallet"
	KindOutside  = "outside_order"
	KindTotal    = "order_total"
	KindCharge   = "order_charge"
	KindRefund   = "order_refund"
	KindMissing  = "order_missing"
	KindSums     = "renewal_sum"
	KindNotMoved = "expiry_not_moved"
	KindRenewed  = "outside_renewal"
	KindDecimal  = "decimal_string"
	KindLate     = "late_reply" // published by a worker; nothing to compare again

	// Those of an order's read.
	KindOrderCurrency  = "order_currency"
	KindRefundCurrency = "refund_currency"
	KindRefundAmount   = "refund_amount"
)
