package desk

import (
	"testing"

	"perennial/jobs/inspect"
	"perennial/ledger/fact"
)

// If a page of the provider's list cannot be read, it may contain another order of the same
// price.
func TestAnOrderIsTakenFromTheEvidenceWhereItIsTheOnlyOne(t *testing.T) {
	one := inspect.OrderEvidence{OrderNo: "ord_1", NetCents: fact.Known(900)}
	for _, c := range []struct {
		e    inspect.Evidence
		want string
	}{
		{inspect.Evidence{OrdersRead: true, Orders: []inspect.OrderEvidence{one}}, "ord_1"},
		{inspect.Evidence{OrdersRead: false, Orders: []inspect.OrderEvidence{one}}, ""},
		{inspect.Evidence{OrdersRead: true, Orders: []inspect.OrderEvidence{one, one}}, ""},
		{inspect.Evidence{OrdersRead: true, Orders: []inspect.OrderEvidence{{OrderNo: "ord_1", NetCents: fact.Known(890)}}}, ""},
		{inspect.Evidence{OrdersRead: true, Orders: []inspect.OrderEvidence{{OrderNo: "ord_1"}}}, ""}, // the provider shows no total
	} {
		if got := onlyOrder(c.e, 900); got != c.want {
			t.Errorf("%+v: %q", c.e, got)
		}
	}
}
