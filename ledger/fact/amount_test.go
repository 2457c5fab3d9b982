package fact

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAnAmountSeparatesThousandsForPeople(t *testing.T) {
	for cents, want := range map[int64]string{0: "0.00", 5: "0.05", -5: "-0.05", 99_999: "999.99", 100_000: "1,000.00", -99_999: "-999.99", -100_000: "-1,000.00", 12_345_678_901: "123,456,789.01", -99_987_219: "-999,872.19", math.MinInt64: "-92,233,720,368,547,758.08"} {
		if got := Amount(cents, ""); got != want || Amount(cents, "USD") != want+" USD" || strings.Contains(Decimal(cents), ",") {
			t.Errorf("%d is %s", cents, got)
		}
	}
}

// No two shares differ by more than a cent.
func TestSharesAddUpToTheAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cents, of := rapid.Int64Range(0, 1<<50).Draw(t, "cents"), rapid.IntRange(1, 50).Draw(t, "of")
		sum := int64(0)
		for n := range of {
			share := Share(cents, n, of)
			if sum += share; share != cents/int64(of) && share != cents/int64(of)+1 {
				t.Fatalf("share %d is %d", n, share)
			}
		}
		if sum != cents {
			t.Fatalf("%d in %d parts adds up to %d", cents, of, sum)
		}
	})
}
