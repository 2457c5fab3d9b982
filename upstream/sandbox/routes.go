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
type route struct{ name, pattern, scope, id string }

var fixedRoutes = map[string]route{
	"GET /api/v1/account": {scope: "account:read"},
	"GET /api/v1/wallet":  {scope: "wallet:read"},
	"GET /api/v1/offers":  {scope: "offers:read"},
	"GET /api/v1/orders":  {scope: "orders:read"},
	"GET /api/v1/proxies": {scope: "proxies:read"},
	routeOrders:           {scope: "orders:write"},
	routeRenew:            {scope: "proxies:write"},
}

func findRoute(method, path string) route {
	name := method + " " + path
	if rt, ok := fixedRoutes[name]; ok {
		rt.name, rt.pattern = name, path
		return rt
	}
	for _, c := range [...]struct{ prefix, pattern, scope string }{
		{"/api/v1/orders/", "/api/v1/orders/{order_no}", "orders:read"},
		{"/api/v1/proxies/", "/api/v1/proxies/{proxy_id}", "proxies:read"},
	} {
		rest, ok := strings.CutPrefix(path, c.prefix)
		id, err := url.PathUnescape(rest)
		if ok && method == http.MethodGet && rest != "" && !strings.Contains(rest, "/") && err == nil {
			return route{name: "GET " + c.pattern, pattern: c.pattern, scope: c.scope, id: id}
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
