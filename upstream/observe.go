// The description of a request for Config.Observe.

package upstream

import (
	"slices"
	"strings"
	"time"
)

// Exchange describes one finished request. The trace id is its only text from the provider.
type Exchange struct {
	// Route is the method and the path with {id} in place of an id, such as "GET
	// /api/v1/orders/{id}" (API: Endpoints).
	Route string
	// Code is the envelope's code. It is "other" if the API document does not list the code. It
	// is "" if the response has no envelope.
	Code       string
	HTTPStatus int // 0 if there was no response
	Sent       bool
	TraceID    string
	Took       time.Duration
}

// codeOther replaces codes that the API document does not list.
const codeOther = "other"

// observe passes a description of a finished request to Config.Observe.
func (c *Client) observe(a *response) {
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

// routes are the methods and paths of the API (API: Endpoints).
var routes = []string{
	"GET " + accountPath, "GET " + walletPath, "GET " + offersPath, "GET " + ordersPath, "GET " + ordersPath + "/{id}",
	"GET " + proxiesPath, "GET " + proxiesPath + "/{id}", "POST " + ordersPath, "POST " + renewPath,
}

// Routes returns all possible values of Exchange.Route.
func Routes() []string { return slices.Clone(routes) }
