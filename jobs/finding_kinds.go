package jobs

// Kinds of finding. docs/operations.md says of each what it means.
const (
	kindWallet   = "wallet"
	kindOutside  = "outside_order"
	kindTotal    = "order_total"
	kindCharge   = "order_charge"
	kindRefund   = "order_refund"
	kindMissing  = "order_missing"
	kindSums     = "renewal_sum"
	kindNotMoved = "expiry_not_moved"
	kindRenewed  = "outside_renewal"
	kindDecimal  = "decimal_string"
	kindLate     = "late_reply" // told by a worker; nothing to compare again

	// Those of an order's read.
	kindOrderCurrency  = "order_currency"
	kindRefundCurrency = "refund_currency"
	kindRefundAmount   = "refund_amount"
)
