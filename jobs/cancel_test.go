package jobs

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"perennial/jobs/command"
	"perennial/ledger/fact"
)

// throttleRenewals makes the provider reply to the next renewal with a Retry-After of an hour.
func (h *rig) throttleRenewals() {
	h.fault(renew, "code", map[string]any{"code": "rate_limited", "http_status": http.StatusTooManyRequests, "retry_after": "3600"})
}

func TestCancelWithdrawsWhatTheProviderSurelyDidNotExecute(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.throttleRenewals()
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.await("keep", fact.StateWaiting)
	h.awaitFact("account.paused")
	if n, err := h.runner.Cancel(t.Context(), "keep", "ada", "no longer needed"); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	h.resumes("ada", "go on")
	h.renew(`{"id":"next","duration_days":30,"proxy_ids":["px_1"]}`) // the proxy is free again
	h.await("next", fact.StateCompleted)
	h.await("keep", fact.StateRejected)
	h.settled(300, 0)
}

func TestCancelLeavesWhatMayHaveExecuted(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.fault(renew, "drop_after", nil)
	h.throttleRenewals()
	h.start()
	h.renew(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	h.awaitFact("account.paused")
	h.await("keep", fact.StateWaiting)
	var refused *command.RefusedError
	if n, err := h.runner.Cancel(t.Context(), "keep", "ada", "no longer needed"); n != 0 || !errors.As(err, &refused) || !strings.Contains(err.Error(), "cannot be withdrawn") {
		t.Fatalf("%d, %v", n, err)
	}
	h.resumes("ada", "go on")
	h.await("keep", fact.StateCompleted)
	h.settled(300, 0)
}
