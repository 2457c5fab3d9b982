package jobs

import (
	"testing"

	"perennial/ledger"
)

// TestTrap34AnIntentThatWaitedTooLongIsNotSentWithItsOldTime: X-API-Timestamp is
// the moment of the intent. A request whose turn comes more than a minute later
// is recorded as unsent and signed anew, under the same key.
func TestTrap34AnIntentThatWaitedTooLongIsNotSentWithItsOldTime(t *testing.T) {
	h := idleHouse(t)
	h.bind(func(c *Config) { c.Concurrency = 1 }) // the second waits for the first
	h.start()
	h.fault(renew, "hang", map[string]any{"seconds": 1})
	h.renew(`{"id":"first","duration_days":30,"proxy_ids":["px_1"]}`)
	h.until("the first is under way", func() bool { return len(h.facts("operation.sending")) == 1 })
	h.renew(`{"id":"second","duration_days":30,"proxy_ids":["px_2"]}`)
	h.until("the second has its intent", func() bool { return len(h.facts("operation.sending")) == 2 })
	h.ahead.Store(int64(2 * intentAge))
	unsent, _ := h.awaitFact("operation.unsent").(ledger.OperationUnsent)
	if unsent.CommandID != "second" {
		t.Fatalf("%+v", unsent)
	}
	h.await("second", ledger.StateCompleted)
	var sent []ledger.OperationSending
	for _, f := range h.facts("operation.sending") {
		if f, _ := f.(ledger.OperationSending); f.CommandID == "second" {
			sent = append(sent, f)
		}
	}
	first, last := sent[0], sent[len(sent)-1]
	if len(sent) < 2 || !last.SentAt.After(first.SentAt) || last.Key != first.Key || last.Body != first.Body {
		t.Errorf("sent as %+v", sent)
	}
	h.settled(600, 0)
}
