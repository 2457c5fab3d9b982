// What is told of each request to those who count requests.

package upstream

import (
	"net/http"
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

// codeOther stands for codes that the API document does not list.
const codeOther = "other"

// observe tells Config.Observe of a request.
func (c *Client) observe(in *call, a *answer, e *Envelope, read bool) {
	if c.observer == nil {
		return
	}
	x := Exchange{Route: routeOf(in.method, in.path), HTTPStatus: a.status, Sent: a.sent, TraceID: e.TraceID, Took: a.took}
	if read {
		if x.Code = string(e.Code); !e.Code.Known() {
			x.Code = codeOther
		}
	}
	c.observer(x)
}

// routes are the endpoints by method and path (API: Endpoints).
var routes = func() map[string]string {
	all := map[string]string{}
	for _, path := range []string{accountPath, walletPath, offersPath, ordersPath, proxiesPath} {
		all[http.MethodGet+path] = http.MethodGet + " " + path
	}
	for _, path := range []string{ordersPath, renewPath} {
		all[http.MethodPost+path] = http.MethodPost + " " + path
	}
	return all
}()

// routeOf is the endpoint of a request.
func routeOf(method, path string) string {
	if route, ok := routes[method+path]; ok {
		return route
	}
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return method + " " + path[:i] + "/{id}"
	}
	return method + " " + path
}

// Routes are all values of Exchange.Route.
func Routes() []string {
	all := make([]string, 0, len(routes)+2)
	for _, route := range routes {
		all = append(all, route)
	}
	return append(all, http.MethodGet+" "+ordersPath+"/{id}", http.MethodGet+" "+proxiesPath+"/{id}")
}
