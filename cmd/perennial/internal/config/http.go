// The Host headers under which the HTTP port answers.

package config

import (
	"net"
	"slices"
	"strings"
)

// ServesHost reports whether a Host header is an address, a name without a dot (which no
// public name is), or a configured one.
func (c HTTP) ServesHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if net.ParseIP(host) != nil || host != "" && !strings.Contains(host, ".") {
		return true
	}
	return slices.ContainsFunc(c.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}
