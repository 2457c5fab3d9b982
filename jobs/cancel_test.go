package jobs

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"perennial/ledger"
)

// throttleRenewals answers the next renewal with a Retry-After of an hour.
func (h *house) throttleRenewals() {
	h.fault(renew, "code", map[string]any{"code": "rate_limited", "http_status": http.StatusTooManyRequests, "retry_after": "3600"})
}

func TestCancelWithdrawsWhatTheProviderSurelyDidNotExecute(t *testing.T) {
	h := idleHouse(t)
	h.throttleRenewals()
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", ledger.StateWaiting)
	h.awaitFact("account.paused")
	if n, err := h.runner.Cancel(t.Context(), "keep", "ada", "no longer needed"); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	h.resumes("ada", "go on")
	h.renew(`{"id":"next","duration_days":30,"proxy_ids":["px_1"]}`) // the proxy is free again
	h.await("next", ledger.StateCompleted)
	h.await("keep", ledger.StateRejected)
	h.settled(300, 0)
}

func TestCancelLeavesWhatMayHaveExecuted(t *testing.T) {
	h := idleHouse(t)
	h.fault(renew, "drop_after", nil)
	h.throttleRenewals()
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.awaitFact("account.paused")
	h.await("keep", ledger.StateWaiting)
	var refused *RefusedError
	if n, err := h.runner.Cancel(t.Context(), "keep", "ada", "no longer needed"); n != 0 || !errors.As(err, &refused) || !strings.Contains(err.Error(), "cannot be withdrawn") {
		t.Fatalf("%d, %v", n, err)
	}
	h.resumes("ada", "go on")
	h.await("keep", ledger.StateCompleted)
	h.settled(300, 0)
}
