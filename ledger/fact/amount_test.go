package fact

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSharesAddUpToTheAmount, and no two differ by more than a cent.
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
