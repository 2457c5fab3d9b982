// The kinds of operation. Every switch over kinds is exhaustive: the linter shows what a
// new kind needs.

package fact

// Kind says what an operation does at the provider.
type Kind string

// The two kinds of operation (customer-api.md, Endpoints: POST orders, POST proxies/renew).
const (
	KindOrder   Kind = "order"
	KindRenewal Kind = "renewal"
)

// OfProxies reports whether a kind acts on existing proxies: its operations hold a line for
// each.
func (k Kind) OfProxies() bool {
	switch k {
	case KindRenewal:
		return true
	case KindOrder:
	}
	return false
}

// MakesOrder reports whether a kind makes an order, with a number, at the provider.
func (k Kind) MakesOrder() bool {
	switch k {
	case KindOrder:
		return true
	case KindRenewal:
	}
	return false
}
