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

// hiding is a provider that hides some proxies, with the given codes. The code "" is a reply
// without an envelope.
type hiding struct {
	*upstream.Client
	codes map[string]upstream.Code
	down  bool // the lists fail too
}

func (p hiding) ProxiesPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.Proxy], error) {
	if p.down {
		return upstream.Page[upstream.Proxy]{}, &upstream.Error{Method: http.MethodGet, Path: "/api/v1/proxies", HTTPStatus: http.StatusBadGateway}
	}
	return p.Client.ProxiesPage(ctx, r)
}

func (p hiding) Proxy(ctx context.Context, id string) (upstream.Proxy, error) {
	if code, hidden := p.codes[id]; hidden {
		return upstream.Proxy{}, &upstream.Error{Method: http.MethodGet, Path: "/api/v1/proxies/" + id, HTTPStatus: http.StatusServiceUnavailable, Code: code}
	}
	return p.Client.Proxy(ctx, id)
}

// A proxy that the provider does not show delays the others for a few minutes at most. An
// operation with only that proxy ends, so that its schedule can learn the price from another
// one. A failure that may concern the account, or an outage, is waited out.
func TestAProxyThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	h := idleRig(t)
	gone := func(ids ...string) map[string]upstream.Code {
		out := map[string]upstream.Code{}
		for _, id := range ids {
			out[id] = upstream.CodeProxyEndpointUnavailable
		}
		return out
	}
	silent := func(ids ...string) map[string]upstream.Code {
		out := map[string]upstream.Code{}
		for _, id := range ids {
			out[id] = ""
		}
		return out
	}
	three := []string{"px_1", "px_2", "px_3"}
	for name, c := range map[string]struct {
		ids    []string
		hidden map[string]upstream.Code
		waited time.Duration
		waits  bool
		left   []string
		mode   string // "plain": without a guard; "down": the lists fail too
	}{
		"one of three, at first":        {three, gone("px_1"), time.Second, true, nil, ""},
		"one of three":                  {three, gone("px_1"), 4 * time.Minute, false, []string{"px_2", "px_3"}, ""},
		"one of three, an unknown code": {[]string{"px_1", "px_2"}, map[string]upstream.Code{"px_2": "proxy_locked"}, 4 * time.Minute, false, []string{"px_1"}, ""},
		"one alone, at first":           {[]string{"px_1"}, gone("px_1"), time.Second, true, nil, ""},
		"one alone":                     {[]string{"px_1"}, gone("px_1"), 4 * time.Minute, false, nil, ""},
		"one alone, an unknown code":    {[]string{"px_1"}, map[string]upstream.Code{"px_1": "proxy_locked"}, 4 * time.Minute, false, nil, ""},
		"all, it may be the account": {[]string{"px_1", "px_2"},
			map[string]upstream.Code{"px_1": "under_maintenance", "px_2": "under_maintenance"}, 4 * time.Minute, true, nil, ""},
		"the key shows others":              {[]string{"px_1", "px_2"}, map[string]upstream.Code{"px_1": upstream.CodeInsufficientScope}, 4 * time.Minute, false, []string{"px_2"}, ""},
		"the key":                           {[]string{"px_1"}, map[string]upstream.Code{"px_1": upstream.CodeInsufficientScope}, 4 * time.Minute, true, nil, ""},
		"the key is revoked":                {[]string{"px_1", "px_2"}, map[string]upstream.Code{"px_1": upstream.CodeAPIKeyRevoked}, 4 * time.Minute, true, nil, ""},
		"no envelope of the first":          {three, silent("px_1"), 4 * time.Minute, false, []string{"px_2", "px_3"}, ""},
		"no envelope of the first, plain":   {[]string{"px_5", "px_6"}, silent("px_5"), 4 * time.Minute, false, []string{"px_6"}, "plain"},
		"no envelope, at first":             {three, silent("px_1"), time.Second, true, nil, ""},
		"no envelope, alone":                {[]string{"px_1"}, silent("px_1"), 4 * time.Minute, false, nil, ""},
		"no envelope, alone, plain":         {[]string{"px_5"}, silent("px_5"), 4 * time.Minute, false, nil, "plain"},
		"no envelope, alone in an outage":   {[]string{"px_1"}, silent("px_1"), 4 * time.Minute, true, nil, "down"},
		"no envelope of any":                {three, silent("px_1", "px_2", "px_3"), 4 * time.Minute, true, nil, ""},
		"no envelope of any, in an outage":  {three, silent("px_1", "px_2", "px_3"), 4 * time.Minute, true, nil, "down"},
		"an id that no path holds":          {[]string{"..", "px_2"}, nil, time.Second, false, []string{"px_2"}, ""},
		"an id that no path holds, alone":   {[]string{".."}, nil, time.Second, false, nil, ""},
		"an id that no path holds, outage":  {[]string{"..", "px_2"}, silent("px_2"), 4 * time.Minute, true, nil, "down"},
		"an id that no path holds, another": {[]string{"..", "px_2"}, silent("px_2"), time.Second, true, nil, ""},
	} {
		h.bind(func(cfg *Config) { cfg.Provider = hiding{h.client, c.hidden, c.mode == "down"} })
		op := sentOf(c.ids...)
		next := someNoon.Add(c.waited)
		op.State, op.Reason, op.UpdatedAt, op.NextAt = fact.StateWaiting, "it could not be read", someNoon, &next
		p, cmd := checked{ids: c.ids}, command.Command{DueBefore: new(someNoon.AddDate(20, 0, 0))}
		if c.mode == "plain" {
			cmd = command.Command{}
		}
		d, err := h.runner.precheckProxies(t.Context(), &job{op: op, cmd: cmd}, &p)
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
