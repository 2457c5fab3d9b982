package upstream_test

import (
	"context"
	"strings"
	"testing"

	"perennial/upstream"
)

func TestTrap25ADecimalStringIsComparedWithItsCents(t *testing.T) {
	for _, test := range []struct {
		amount string
		cents  int64
		agrees bool
	}{
		{"3.00", 300, true}, {"3", 300, true}, {"3.0000", 300, true}, {"-3.00", -300, true}, {"90071992547409.93", 9007199254740993, true},
		{"", 300, true}, {"0", 0, true},
		{"300", 300, false}, {"3.001", 300, false}, {"3,00", 300, false}, {"three", 300, false}, {"3.01", 300, false},
		{"3e2", 30000, false}, {"1e1000000000", 0, false}, {strings.Repeat("3", 200), 300, false}, {"NaN", 0, false},
	} {
		if got := upstream.AmountAgrees(test.amount, test.cents); got != test.agrees {
			t.Errorf("%.40q and %d cents: %t", test.amount, test.cents, got)
		}
	}
}

// Whatever value replaces a decimal string, the amount in cents counts.
func TestAnUnreadableDecimalStringHidesNothing(t *testing.T) {
	for _, text := range []string{`"3.00"`, `3.00`, `null`, `[]`, `{"a":1}`, `true`} {
		w, err := getting(t, `{"environment":"sandbox","currency":"USD","cash_value":false,"balance_cents":300,"balance":`+text+`}`).Wallet(context.Background())
		if err != nil || w.BalanceCents != 300 {
			t.Errorf("%s: %+v %v", text, w, err)
		}
	}
}

func TestTrap60DataErrorsAreKeptInWords(t *testing.T) {
	for data, want := range map[string]string{
		`{"errors":{"items":{"0":{"quantity":["must be at most 500"]}},"duration_days":["is not sold"]}}`: "duration_days: is not sold; items.0.quantity: must be at most 500",
		`{"errors":[{"field":"quantity","message":"too many"}]}`:                                          "field: quantity; message: too many",
		`{"errors":"quantity is wrong"}`:                                                                  "quantity is wrong",
		`{"errors":{"quantity":12}}`:                                                                      "quantity: 12",
		`{"errors":null}`:                                                                                 "",
		`{}`:                                                                                              "",
		`{"errors":{"a":"` + strings.Repeat("x", 9000) + `"}}`:                                            "",
	} {
		r := posting(t, upstream.WriteOrder, 422, "validation_error", data)
		if r.Fields != want {
			t.Errorf("%.60s: %q", data, r.Fields)
		}
	}
	if r := posting(t, upstream.WriteOrder, 422, "validation_error", `{"errors":{"username":"user:secret-password@203.0.113.9:8000"}}`); strings.Contains(r.Fields, "secret") {
		t.Errorf("credentials are repeated: %q", r.Fields)
	}
}
