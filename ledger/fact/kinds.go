// This file has the kinds of operation. Every switch over kinds is exhaustive, so the
// linter lists the places that a new kind must extend.

package fact

// Kind says what an operation does at the provider.
type Kind string

// The kinds of operation (customer-api.md, Endpoints: POST orders, POST proxies/renew).
const (
	KindOrder   Kind = "order"
	KindRenewal Kind = "renewal"
)

// OfProxies reports whether operations of the kind act on existing proxies, and so have a
// line for each proxy.
func (k Kind) OfProxies() bool {
	switch k {
	case KindRenewal:
		return true
	case KindOrder:
	}
	return false
}

// MakesOrder reports whether operations of the kind make an order at the provider, and so
// have an order number.
func (k Kind) MakesOrder() bool {
	switch k {
	case KindOrder:
		return true
	case KindRenewal:
	}
	return false
}
