package jobs

import (
	"strings"
	"testing"

	"perennial/ledger/fact"
)

// The limit of an id is in characters, and each of them may have four bytes.
func TestTheLongestIDIsCarriedOut(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	for _, id := range []string{strings.Repeat("é", 128), strings.Repeat("𠀀", 125)} {
		h.order(`{"id":"` + id + `","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
		if s := h.await(id, fact.StateDelivered); s.CommandID != id {
			t.Errorf("%+v", s)
		}
	}
	h.settled(600, 0)
}
