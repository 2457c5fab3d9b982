package jobs

import (
	"context"
	"strings"

	"perennial/upstream/sandbox"
)

// mood draws the provider's quirks: none in a quarter of the seeds, all in some, otherwise any
// of them.
func (s *simulation) mood() {
	s.moods = nil
	switch s.random.IntN(8) {
	case 0, 1:
	case 2:
		s.moods = sandbox.Moods()
	default:
		for _, name := range sandbox.Moods() {
			if s.chance(3) {
				s.moods = append(s.moods, name)
			}
		}
	}
	s.sayf("moods: %s", strings.Join(s.moods, " "))
	s.control("POST", "/moods", map[string]any{"moods": s.moods, "seed": s.random.Uint64()})
}

// otherMood changes the quirks, as the provider's next release may.
func (s *simulation) otherMood(context.Context) {
	if s.chance(4) {
		s.mood()
	}
	if s.mail.IntN(4) == 0 {
		s.price = []int64{200, 300, 450, 900}[s.mail.IntN(4)]
		s.unlearned = true
		s.sayf("the price is %d", s.price)
		s.control("POST", "/prices", map[string]any{"account_id": sandbox.DemoAccountID, "offer_code": "off_us_dallas", "unit_price_cents": s.price})
	}
}
