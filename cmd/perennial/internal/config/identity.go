// People whom a proxy in front of the pages signs in.

package config

import (
	"fmt"

	"perennial/cmd/perennial/internal/web"
)

// Identity is the header in which a proxy names the person whom it has signed in.
type Identity struct {
	Header  string   `koanf:"header"`  // empty: none is read
	Trusted []string `koanf:"trusted"` // address ranges that the proxy connects from
	People  []Person `koanf:"people"`  // who gets in
}

// Person is who gets in by the header, and as what.
type Person struct {
	Name     string   `koanf:"name"`     // as the header has it
	Role     string   `koanf:"role"`     // viewer or operator
	Accounts []string `koanf:"accounts"` // default: all
}

// OfPages is the identity as the pages take it. An error begins with the path of the key
// that is wrong.
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

// validateIdentity refuses an http.identity under which no person can sign in, or under
// which any client that writes the header can.
func (c *Config) validateIdentity() error {
	if _, err := c.HTTP.Identity.OfPages(); err != nil {
		return err
	}
	for i, p := range c.HTTP.Identity.People {
		for _, name := range p.Accounts {
			if c.Accounts[name] == nil {
				return fmt.Errorf("http.identity.people[%d].accounts names %q, which is not configured", i, name)
			}
		}
	}
	return nil
}
