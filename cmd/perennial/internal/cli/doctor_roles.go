// The doctor's check that NATS users have exactly the permissions of their roles.

package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/queue"
	"perennial/queue/roles"
)

// rolesTimeout limits the checks of one user for one account.
const rolesTimeout = 10 * time.Second

// mendRoles is the advice for users with wrong permissions.
const mendRoles = "give the NATS server the users and accounts that `perennial nats-config` prints, and no other permissions"

// roles connects as each configured user whose login is available, and compares the user's
// permissions with the user's roles. It tries only service requests that are read-only, in
// case a user has too many permissions.
func (d *doctor) roles(ctx context.Context, accounts []string) {
	if d.usersAt == "" || len(d.config.NATS.Users) == 0 {
		return
	}
	users, err := d.config.NATSUsers()
	if err != nil {
		d.bad("roles", err, "mend the password file")
		return
	}
	separate, tried, untried := true, 0, []string{}
	for i, u := range users {
		configured := d.config.NATS.Users[i]
		if configured.Password != "" {
			untried = append(untried, "user "+u.Name+", of whom a hash is here")
			continue
		}
		target := queue.ConnectConfig{URL: d.usersAt, User: u.Name, Password: u.Password}
		if configured.CredsFile != "" {
			target = queue.ConnectConfig{URL: d.usersAt, CredsFile: d.config.ResolvePath(configured.CredsFile)}
		}
		wrong, not, err := d.separation(ctx, target, u, accounts)
		if err != nil {
			wrong = []string{err.Error()}
		}
		for _, w := range wrong {
			d.bad("roles", fmt.Sprintf("user %s %s", u.Name, w), mendRoles)
			separate = false
		}
		tried++
		for _, n := range not {
			untried = append(untried, n+" as "+u.Name)
		}
	}
	if tried > 0 && d.letsAnyoneIn(d.usersAt) {
		d.bad("roles", "the NATS server lets in a client without a login", "take no_auth_user out of its configuration, and give each user a login")
		separate = false
	}
	if separate && tried > 0 {
		more := ""
		if len(untried) > 0 {
			more = "; not tried, where no runner answers or no login is here: " + strings.Join(untried, ", ")
		}
		d.ok("roles", "%d users tried: accounts, permissions, consumers and names are as their roles say; what no client sees is not tried: "+
			"mappings, further imports and logins, limits%s", tried, more)
	}
}

// quietly returns connection settings without logging, because the check expects refusals.
func quietly(target queue.ConnectConfig) (queue.ConnectConfig, error) {
	at, err := url.Parse(target.URL)
	if err != nil {
		return target, err
	}
	at.User = nil // removes the CLI's own login
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	target.URL, target.Log, target.Name = at.String(), quiet, "perennial-doctor"
	return target, nil
}

func (d *doctor) letsAnyoneIn(address string) bool {
	target, err := quietly(queue.ConnectConfig{URL: address})
	return err == nil && queue.LetsIn(target)
}

// separation connects as one user and tries what its roles permit and forbid.
func (d *doctor) separation(ctx context.Context, target queue.ConnectConfig, u roles.User, accounts []string) (wrong, untried []string, err error) {
	if target, err = quietly(target); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, rolesTimeout*time.Duration(len(accounts)))
	defer cancel()
	q, err := queue.Connect(target)
	if err != nil {
		return nil, nil, err
	}
	defer q.Close()
	return roles.Separation(ctx, q.JetStream(), u, verbs.Served(), accounts)
}
