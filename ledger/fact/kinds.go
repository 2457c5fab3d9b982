// What a kind of operation is about. Every switch over kinds is exhaustive: the linter
// names what a new one needs.

package fact

// OfProxies reports whether a kind acts on proxies that exist: its operations hold a
// line for each.
func (k Kind) OfProxies() bool {
	switch k {
	case KindRenewal:
		return true
	case KindOrder:
	}
	return false
}

// MakesOrder reports whether a kind makes an order at the provider, with a number.
func (k Kind) MakesOrder() bool {
	switch k {
	case KindOrder:
		return true
	case KindRenewal:
	}
	return false
}
