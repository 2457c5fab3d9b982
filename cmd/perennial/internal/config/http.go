// The HTTP port: the names under which it answers, and sign-in by a proxy's header.

package config

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"perennial/cmd/perennial/internal/web"
)

// HTTP configures health, metrics and the web UI.
type HTTP struct {
	Listen           string   `yaml:"listen" default:"127.0.0.1:8080" doc:"health, metrics and pages"`
	Hosts            []string `yaml:"hosts" doc:"names under which the pages are served, in addition to addresses and names without a dot"`
	TokensFile       string   `yaml:"tokens_file" doc:"hashes of the tokens that sign people in to the pages ([web.md](web.md)); mode 0600"`
	MetricsTokenFile string   `yaml:"metrics_token_file" doc:"/metrics asks for the token in it ([operations.md](operations.md)); mode 0600; empty: for none"`
	Identity         Identity `yaml:"identity"`
}

// ServesHost reports whether a Host header is an address, a name without a dot (no
// public name), or a configured name.
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

// Identity configures the header in which a proxy names the signed-in person.
type Identity struct {
	Header  string   `yaml:"header" doc:"that the proxy in front sets to the person's name, such as X-Auth-Request-Email ([web.md](web.md)); empty: none is read"`
	Trusted []string `yaml:"trusted" doc:"address ranges that the proxy connects from, such as 10.0.0.7/32; the header counts from nowhere else"`
	People  []Person `yaml:"people"`
}

// Person is a person who signs in by the header, with a role.
type Person struct {
	Name     string   `yaml:"name" absent:"required" doc:"as the header has it"`
	Role     string   `yaml:"role" absent:"required" doc:"viewer or operator"`
	Accounts []string `yaml:"accounts" absent:"all" doc:"that the person sees"`
}

// OfPages converts the identity for the web UI. It refuses one by which nobody can sign
// in, or which any client that sends the header can forge. The error begins with the
// path of the invalid key.
func (i Identity) OfPages() (web.Identity, error) {
	people := make([]web.Person, 0, len(i.People))
	for _, p := range i.People {
		people = append(people, web.Person{Name: p.Name, Role: web.Role(p.Role), Accounts: p.Accounts})
	}
	identity, err := web.NewIdentity(i.Header, i.Trusted, people)
	if err != nil {
		return identity, fmt.Errorf("http.identity.%w", err)
	}
	return identity, nil
}
