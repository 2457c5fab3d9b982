package inspect

import (
	"testing"
	"time"

	"perennial/ledger/fact"
)

func TestWhatWasNotReadProvesNothing(t *testing.T) {
	sent := time.Now()
	order := Evidence{OperationStatus: OperationStatus{Kind: fact.KindOrder, FirstSentAt: &sent}}
	if order.Unread("") == "" {
		t.Error("orders that were not read")
	}
	if order.OrdersRead = true; order.Unread("") != "" {
		t.Error("orders that were read")
	}
	renewal := Evidence{OperationStatus: OperationStatus{Kind: fact.KindRenewal, FirstSentAt: &sent}, Expiries: []ExpiryEvidence{
		{ProxyID: "px_1", State: "pending", read: true}, {ProxyID: "px_2", State: "unresolved"}, {ProxyID: "px_3", State: "succeeded"},
	}}
	if renewal.Unread("") == "" || renewal.Unread("px_2") == "" || renewal.Unread("px_1") != "" || renewal.Unread("px_3") != "" {
		t.Error("expiries")
	}
}
