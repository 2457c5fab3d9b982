package fact

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// The test draws amounts of which half are unknown.
func TestASumSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s Sum
		var cents int64
		lacks := 0
		for range random.IntN(6) {
			c := Known(random.Int64N(500))
			if random.IntN(2) == 0 {
				c, lacks = Cents{}, lacks+1
			}
			cents += c.Or(0)
			data, err := json.Marshal(c)
			var back Cents
			if err != nil || json.Unmarshal(data, &back) != nil || back != c || (string(data) == "null") == c.Known() {
				t.Fatalf("%+v is %s and %+v: %v", c, data, back, err)
			}
			s = s.Add(c)
		}
		if s.Cents != cents || s.Lacks != lacks || s.Total().Known() != (lacks == 0 || cents > 0) {
			t.Fatalf("%+v of %d cents and %d unknown", s, cents, lacks)
		}
	}
}

func TestAnUnknownSumIsNeverShownAsNone(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Sum{
		"0.00 USD": {}, "3.00 USD": {Cents: 300},
		"an unknown amount (2 of unknown price)": {Lacks: 2}, "at least 3.00 USD (2 of unknown price)": {Cents: 300, Lacks: 2},
	} {
		if got := s.Text("USD"); got != want {
			t.Errorf("%+v is %q", s, got)
		}
	}
	for want, s := range map[string]Sum{
		"list price 4.20 USD, no renewal paid yet":                                                {Cents: 420},
		"7.20 USD (4.20 USD of it list price, no renewal paid yet)":                               {Cents: 720},
		"at least 7.20 USD (2 of unknown price) (4.20 USD of it list price, no renewal paid yet)": {Cents: 720, Lacks: 2},
	} {
		if got := s.ListedText(420, "USD"); got != want {
			t.Errorf("%+v is %q", s, got)
		}
	}
}
