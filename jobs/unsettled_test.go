package jobs

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// Successful reads do not hide that no POST of a kind has a definite outcome.
func TestWritesWithoutADefiniteOutcomeAreNotReady(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.oneClock()
	h.bind(func(c *Config) { c.Random = func() float64 { return 0.9 } })
	h.start()
	var passed time.Duration
	tryAgain := func() {
		n := len(h.facts("operation.sending"))
		passed += 6 * time.Minute
		h.later(passed)
		h.runner.wakeDueLoop()
		h.until("it is sent again", func() bool { return len(h.facts("operation.sending")) > n })
	}
	for id, mode := range map[string]map[string]any{
		"px_1": {"fault": "error_before"}, "px_2": {"fault": "code", "code": "idempotency_processing", "http_status": 409},
	} {
		mode["times"] = -1
		name, _ := mode["fault"].(string)
		h.fault(renew, name, mode)
		h.renew(`{"id":"` + id + `","duration_days":30,"proxy_ids":["` + id + `"]}`)
		h.await(id, fact.StateWaiting)
		for i := range 2 {
			if said := h.runner.Unsettled(); said != "" {
				t.Errorf("%s: after %d attempts: %s", id, i+1, said)
			}
			tryAgain()
			h.await(id, fact.StateWaiting)
		}
		if said := h.runner.Unsettled(); !strings.Contains(said, "no renewal has had a definite outcome since ") || !strings.Contains(said, "3 attempts") {
			t.Errorf("%s: %q", id, said)
		}
		h.ask(http.MethodDelete, "/faults", nil)
		tryAgain()
		h.await(id, fact.StateCompleted)
		if said := h.runner.Unsettled(); said != "" {
			t.Errorf("%s is completed: %s", id, said)
		}
	}
}

// A provider that replies to everything with a failure does not work, although it replies.
func TestAProviderThatServesNoRequestIsNotReady(t *testing.T) {
	h := idleRig(t)
	h.bind()
	broken := &upstream.Error{HTTPStatus: http.StatusInternalServerError, Code: "internal_error"}
	for name, c := range map[string]struct {
		replies []error
		says    bool
	}{
		"all fail":          {replies: []error{broken, broken, broken}, says: true},
		"two fail":          {replies: []error{broken, broken}},
		"one of them works": {replies: []error{broken, broken, broken, nil}},
		"one is refused":    {replies: []error{broken, broken, broken, &upstream.Error{HTTPStatus: http.StatusNotFound, Code: upstream.CodeOrderNotFound}}},
		"a rate limit":      {replies: []error{broken, broken, broken, &upstream.Error{HTTPStatus: http.StatusServiceUnavailable, Code: upstream.CodeRateLimited}}},
		"none is answered":  {replies: []error{broken, broken, broken, &upstream.TransportError{Err: context.DeadlineExceeded}}, says: true},
	} {
		h.ahead.Store(0)
		h.bind()
		for _, err := range c.replies {
			h.runner.noteAnswer(err, time.Time{})
		}
		if said := h.runner.Unsettled(); said != "" {
			t.Errorf("%s, at first: %s", name, said)
		}
		h.ahead.Store(int64(unservedAfter))
		if said := h.runner.Unsettled(); strings.Contains(said, "the provider has served no request since ") != c.says {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// A single unreadable proxy is left out. If no proxy can be read, or the key lacks the scope,
// the account reports it.
func TestProxiesThatCannotBeReadAreNotReady(t *testing.T) {
	h := idleRig(t)
	hidden := map[string]upstream.Code{"px_1": "", "px_2": "", "px_3": upstream.CodeInsufficientScope, "px_4": "proxy_locked"}
	for name, c := range map[string]struct {
		reads []string
		says  string
		plain bool
	}{
		"one proxy":         {reads: []string{"px_1", "px_1", "px_1", "px_1"}},
		"several":           {reads: []string{"px_1", "px_2", "px_1"}, says: "no proxy could be read"},
		"one, for the key":  {reads: []string{"px_3", "px_3", "px_3"}, says: "insufficient_scope"},
		"without a guard":   {reads: []string{"px_3", "px_3", "px_3"}, plain: true},
		"another is shown":  {reads: []string{"px_1", "px_2", "px_1", "px_5"}},
		"another is locked": {reads: []string{"px_1", "px_2", "px_1", "px_4"}},
	} {
		h.ahead.Store(0)
		h.bind(func(cfg *Config) { cfg.Provider = hiding{h.client, hidden, false} })
		j := &job{lane: laneRenewal, cmd: command.Command{DueBefore: new(someNoon)}}
		if c.plain {
			j.cmd.DueBefore = nil
		}
		for _, id := range c.reads {
			_, _ = h.runner.readProxy(t.Context(), j, id)
		}
		if said := h.runner.Unsettled(); said != "" {
			t.Errorf("%s, at first: %s", name, said)
		}
		h.ahead.Store(int64(time.Minute))
		if said := h.runner.Unsettled(); (said != "") != (c.says != "") || !strings.Contains(said, c.says) {
			t.Errorf("%s: %q", name, said)
		}
		h.ahead.Store(int64(time.Hour))
		if said := h.runner.Unsettled(); said != "" {
			t.Errorf("%s, when nothing has been tried for long: %s", name, said)
		}
	}
}

// No request is sent while the account is paused, so the time of the pause does not count as silence.
func TestTheEndOfAPauseIsNoSilence(t *testing.T) {
	t.Parallel()
	h := newRig(t, func(c *Config) { c.AskEvery = time.Hour })
	h.until("the provider has answered", func() bool {
		h.runner.pulse.mu.Lock()
		defer h.runner.pulse.mu.Unlock()
		return !h.runner.pulse.answered.IsZero()
	})
	check(t, h.runner.PauseByHand(t.Context(), "ada", "maintenance"))
	h.later(3 * time.Hour)
	if said := h.runner.Silent(); said != "" {
		t.Error(said)
	}
	h.resumes("ada", "done")
	if said := h.runner.Silent(); said != "" {
		t.Error(said)
	}
}

// hanging answers GETs. The first POST gets no answer while wait runs, and the next ones never.
type hanging struct {
	once sync.Once
	wait func()
}

func (x *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		return http.DefaultTransport.RoundTrip(r)
	}
	first := false
	x.once.Do(func() { first = true; x.wait() })
	if !first {
		<-r.Context().Done()
	}
	return nil, context.DeadlineExceeded
}

// A single POST without a reply for a minute is reported, although reads get replies.
func TestAPostThatHangsForAMinuteIsNotReady(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.oneClock(func(c *upstream.Config) {
		c.Transport = &hanging{wait: func() {
			h.later(61 * time.Second)
			for range 2 { // other requests that began before fail too, and a read works
				h.runner.noteAnswer(&upstream.TransportError{Err: context.DeadlineExceeded}, time.Time{})
			}
			wallet, err := h.client.Wallet(t.Context())
			h.runner.noteAnswer(err, wallet.ServerTime)
		}}
	})
	h.bind(func(c *Config) { c.DrainTimeout = time.Millisecond })
	h.start()
	h.order(buyA)
	h.awaitFact("operation.waiting")
	if said := h.runner.Unsettled(); !strings.Contains(said, "no order has had a definite outcome since ") || !strings.Contains(said, "in 1 attempt ") {
		t.Errorf("%q", said)
	}
	if said := h.runner.Silent(); said != "" {
		t.Error(said)
	}
}

// Two requests that fail at once say nothing about a provider that has just answered.
func TestFailuresRightAfterAnAnswerAreNoSilence(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.bind()
	for range 3 {
		h.runner.noteAnswer(&upstream.TransportError{Err: context.DeadlineExceeded}, time.Time{})
	}
	if said := h.runner.Silent(); said != "" {
		t.Error(said)
	}
	h.ahead.Store(int64(silentAfter + time.Second))
	if said := h.runner.Silent(); said == "" {
		t.Error("nothing is said")
	}
}

type refusing struct{}

func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		return http.DefaultTransport.RoundTrip(r)
	}
	return nil, errors.New("the certificate has expired")
}

// The reason of a failed POST is reported, like that of a failed read.
func TestAFailedPostGivesItsReason(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	h.oneClock(func(c *upstream.Config) { c.Transport = refusing{} })
	h.bind()
	h.start()
	h.order(buyA)
	h.awaitFact("operation.waiting")
	h.ahead.Store(int64(silentAfter + time.Second))
	if said := h.runner.Silent(); !strings.Contains(said, "the certificate has expired") {
		t.Errorf("%q", said)
	}
}
