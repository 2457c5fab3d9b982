// The routes of the API.

package sandbox

import (
	"net/http"
	"net/url"
	"strings"
)

// Routes of the API.
const (
	routeOrders = "POST /api/v1/orders"
	routeRenew  = "POST /api/v1/proxies/renew"
	apiPrefix   = "/api/v1/"
)

// route is what a method and path lead to. name is empty for what the API does
// not have.
type route struct {
	name, pattern, scope, id string
	read                     func(*Server, *request) ([]byte, *refusal) // of a GET
}

var fixedRoutes = map[string]route{
	"GET /api/v1/account": {scope: "account:read", read: (*Server).account},
	"GET /api/v1/wallet":  {scope: "wallet:read", read: (*Server).wallet},
	"GET /api/v1/offers":  {scope: "offers:read", read: (*Server).listOffers},
	"GET /api/v1/orders":  {scope: "orders:read", read: (*Server).listOrders},
	"GET /api/v1/proxies": {scope: "proxies:read", read: (*Server).listProxies},
	routeOrders:           {scope: "orders:write"},
	routeRenew:            {scope: "proxies:write"},
}

var itemRoutes = map[string]route{
	"/api/v1/orders/":  {pattern: "/api/v1/orders/{order_no}", scope: "orders:read", read: (*Server).order},
	"/api/v1/proxies/": {pattern: "/api/v1/proxies/{proxy_id}", scope: "proxies:read", read: (*Server).proxy},
}

func findRoute(method, path string) route {
	name := method + " " + path
	if rt, ok := fixedRoutes[name]; ok {
		rt.name, rt.pattern = name, path
		return rt
	}
	for prefix, rt := range itemRoutes {
		rest, ok := strings.CutPrefix(path, prefix)
		id, err := url.PathUnescape(rest)
		if ok && method == http.MethodGet && rest != "" && !strings.Contains(rest, "/") && err == nil {
			rt.name, rt.id = "GET "+rt.pattern, id
			return rt
		}
	}
	return route{}
}

// pathOf is the escaped path exactly as sent, which is what was signed. A target
// in absolute form, as for a proxy, carries it inside.
func pathOf(r *http.Request) string {
	if !strings.HasPrefix(r.RequestURI, "/") && r.URL.Host != "" {
		return r.URL.EscapedPath()
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return path
}
