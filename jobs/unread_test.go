package jobs

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// hiding does not show some proxies, and says why.
type hiding struct {
	*upstream.Client
	codes map[string]upstream.Code
}

func (p hiding) Proxy(ctx context.Context, id string) (upstream.Proxy, error) {
	if code, hidden := p.codes[id]; hidden {
		return upstream.Proxy{}, &upstream.Error{Method: http.MethodGet, Path: "/api/v1/proxies/" + id, HTTPStatus: http.StatusServiceUnavailable, Code: code}
	}
	return p.Client.Proxy(ctx, id)
}

// One proxy that the provider does not show holds up no other for more than some
// minutes; one alone ends, so that its sweep may learn a price from another. What
// may be the account, or an outage, is waited out.
func TestAProxyThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	h := idleRig(t)
	gone := func(ids ...string) map[string]upstream.Code {
		out := map[string]upstream.Code{}
		for _, id := range ids {
			out[id] = upstream.CodeProxyEndpointUnavailable
		}
		return out
	}
	for name, c := range map[string]struct {
		ids    []string
		hidden map[string]upstream.Code
		waited time.Duration
		waits  bool
		left   []string
	}{
		"one of three, at first":        {[]string{"px_1", "px_2", "px_3"}, gone("px_1"), time.Second, true, nil},
		"one of three":                  {[]string{"px_1", "px_2", "px_3"}, gone("px_1"), 4 * time.Minute, false, []string{"px_2", "px_3"}},
		"one of three, an unknown code": {[]string{"px_1", "px_2"}, map[string]upstream.Code{"px_2": "proxy_locked"}, 4 * time.Minute, false, []string{"px_1"}},
		"one alone, at first":           {[]string{"px_1"}, gone("px_1"), time.Second, true, nil},
		"one alone":                     {[]string{"px_1"}, gone("px_1"), 4 * time.Minute, false, nil},
		"all, it may be the account": {[]string{"px_1", "px_2"},
			map[string]upstream.Code{"px_1": "under_maintenance", "px_2": "under_maintenance"}, 4 * time.Minute, true, nil},
		"the key": {[]string{"px_1", "px_2"}, map[string]upstream.Code{"px_1": upstream.CodeInsufficientScope}, 4 * time.Minute, true, nil},
	} {
		h.bind(func(cfg *Config) { cfg.Provider = hiding{h.client, c.hidden} })
		op := sentOf(c.ids...)
		next := someNoon.Add(c.waited)
		op.State, op.Reason, op.UpdatedAt, op.NextAt = fact.StateWaiting, "it could not be read", someNoon, &next
		var p checked
		guarded := command.Command{DueBefore: new(someNoon.AddDate(20, 0, 0))}
		d, err := h.runner.precheckProxies(t.Context(), &job{op: op, cmd: guarded}, &p)
		_, unread := errors.AsType[*unreadError](err)
		skipped := 0
		for _, f := range p.leftOut {
			if x, ok := f.(fact.ProxySkipped); ok {
				skipped += len(x.Proxies())
			}
		}
		switch {
		case c.waits:
			if !d.Postponed && !unread {
				t.Errorf("%s: it does not wait: %v, %+v", name, err, p)
			}
		case err != nil || !slices.Equal(p.ids, c.left) || skipped != len(c.ids)-len(c.left) || d.Send != (len(c.left) > 0):
			t.Errorf("%s: %v, %+v", name, err, p)
		}
	}
}
