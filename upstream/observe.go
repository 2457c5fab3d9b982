// What is told of each request to those who count requests.

package upstream

import (
	"slices"
	"strings"
	"time"
)

// Exchange is one request as it ended. It holds nothing that the provider could fill with
// a text of its own, but for a trace id.
type Exchange struct {
	// Route is the method and the path with its ids as {id}, such as
	// "GET /api/v1/orders/{id}" (API: Endpoints).
	Route string
	// Code is the envelope's, where the API document lists it; "other" for any other one,
	// and "" where no envelope was read.
	Code       string
	HTTPStatus int // 0: no response came
	Sent       bool
	TraceID    string
	Took       time.Duration
}

// codeOther represents codes that the API document does not list.
const codeOther = "other"

// observe tells Config.Observe of a request.
func (c *Client) observe(in *call, a *answer, e *Envelope, read bool) {
	if c.cfg.Observe == nil {
		return
	}
	x := Exchange{Route: routeOf(in.method, in.path), HTTPStatus: a.status, Sent: a.sent, TraceID: e.TraceID, Took: a.took}
	if read {
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

// routeOf is the endpoint of a request.
func routeOf(method, path string) string {
	if route := method + " " + path; slices.Contains(routes, route) {
		return route
	}
	return method + " " + path[:strings.LastIndexByte(path, '/')] + "/{id}"
}

// Routes are all values of Exchange.Route.
func Routes() []string { return slices.Clone(routes) }
