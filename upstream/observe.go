// The report of each request to Config.Observe.

package upstream

import (
	"slices"
	"strings"
	"time"
)

// Exchange describes one finished request. Apart from the trace id it holds no text that
// the provider controls.
type Exchange struct {
	// Route is the method and path, with {id} for ids, such as "GET /api/v1/orders/{id}"
	// (API: Endpoints).
	Route string
	// Code is the envelope's code, or "other" if the API document does not list it. It is
	// "" without an envelope.
	Code       string
	HTTPStatus int // 0: no response
	Sent       bool
	TraceID    string
	Took       time.Duration
}

// codeOther replaces codes that the API document does not list.
const codeOther = "other"

// observe reports a request to Config.Observe.
func (c *Client) observe(a *answer) {
	if c.cfg.Observe == nil {
		return
	}
	e, route := &a.envelope, a.call.method+" "+a.call.path
	if !slices.Contains(routes, route) {
		route = route[:strings.LastIndexByte(route, '/')] + "/{id}"
	}
	x := Exchange{Route: route, HTTPStatus: a.status, Sent: a.sent, TraceID: e.TraceID, Took: a.took}
	if a.failure == "" {
		if x.Code = string(e.Code); !e.Code.Known() {
			x.Code = codeOther
		}
	}
	c.cfg.Observe(x)
}

// routes are the endpoints (API: Endpoints).
var routes = []string{
	"GET " + accountPath, "GET " + walletPath, "GET " + offersPath, "GET " + ordersPath, "GET " + ordersPath + "/{id}",
	"GET " + proxiesPath, "GET " + proxiesPath + "/{id}", "POST " + ordersPath, "POST " + renewPath,
}

// Routes returns all values of Exchange.Route.
func Routes() []string { return slices.Clone(routes) }
