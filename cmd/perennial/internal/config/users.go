// The users of NATS, their roles and their passwords.

package config

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"perennial/queue"
)

// User is one user of NATS and what it may do.
type User struct {
	User         string `koanf:"user"`
	PasswordFile string `koanf:"password_file"`
	Password     string `koanf:"password"`   // a bcrypt hash only: the configuration holds no secrets
	CredsFile    string `koanf:"creds_file"` // of a user whose account is a JWT, for doctor to try
	Roles        []Role `koanf:"roles"`
}

// Role is what a user may do, and with which accounts.
type Role struct {
	Role     string   `koanf:"role"`     // producer, subscriber, viewer or operator
	Accounts []string `koanf:"accounts"` // of this configuration
}

// Target is how the configured NATS server is reached; the embedded one, and the
// addresses of a run, are the caller's.
func (c *Config) Target() (queue.ConnectConfig, error) {
	n := c.NATS
	t := queue.ConnectConfig{
		URL: n.URL, CredsFile: n.CredsFile, NKeyFile: n.NKeyFile, CAFile: n.CAFile, CertFile: n.CertFile, KeyFile: n.KeyFile, TLSFirst: n.TLSFirst, Domain: n.Domain, Context: n.Context,
	}
	if n.NKeyFile != "" {
		if _, err := ReadPrivate(n.NKeyFile); err != nil {
			return t, fmt.Errorf("nats.nkey_file: %w", err)
		}
	}
	if n.PasswordFile == "" {
		return t, nil
	}
	var err error
	t.User = cmp.Or(n.User, queue.RunnerUser)
	t.Password, err = ReadSecret(c.ResolvePath(n.PasswordFile))
	return t, err
}

// validateLogin refuses a password file without an address or beside a creds file, and
// a user without a password file.
func (n NATS) validateLogin() error {
	switch {
	case n.PasswordFile != "" && n.URL == "":
		return errors.New("nats.password_file is for nats.url, which is empty")
	case n.PasswordFile != "" && n.CredsFile != "":
		return errors.New("nats.password_file and nats.creds_file exclude each other: keep one")
	case n.NKeyFile != "" && (n.PasswordFile != "" || n.CredsFile != ""):
		return errors.New("nats.nkey_file excludes nats.password_file and nats.creds_file: keep one")
	case n.User != "" && n.PasswordFile == "":
		return errors.New("nats.user needs nats.password_file")
	case (n.CertFile == "") != (n.KeyFile == ""):
		return errors.New("nats.cert_file and nats.key_file belong together: set both")
	}
	if n.TLSFirst && n.URL == "" {
		return errors.New("nats.tls_first is for nats.url, which is empty")
	}
	for name, value := range map[string]string{"nkey_file": n.NKeyFile, "ca_file": n.CAFile, "cert_file": n.CertFile, "domain": n.Domain} {
		if value != "" && n.URL == "" {
			return fmt.Errorf("nats.%s is for nats.url, which is empty", name)
		}
	}
	return nil
}

// validateUsers names the first user that could not connect, or could do nothing.
func (c *Config) validateUsers() error {
	if err := c.NATS.validateLogin(); err != nil {
		return err
	}
	seen := map[string]string{PasswordVariable(queue.RunnerUser): queue.RunnerUser}
	for i, u := range c.NATS.Users {
		if err := u.validateLogin(i, c.NATS); err != nil {
			return err
		}
		if u.Password != "" && !strings.HasPrefix(u.Password, "$2") {
			return fmt.Errorf("nats.users[%d].password must be a bcrypt hash: this file holds no secrets, use password_file", i)
		}
		for _, g := range u.Roles {
			for _, name := range g.Accounts {
				if c.Accounts[name] == nil {
					return fmt.Errorf("nats.users[%d] is %s of account %q, which is not configured", i, g.Role, name)
				}
			}
		}
		if u.User == queue.LocalUser {
			return fmt.Errorf("nats.users[%d].user is %q, which is that of the program's own commands: choose another name", i, u.User)
		}
		if err := queue.CheckUser(u.QueueUser()); err != nil {
			return fmt.Errorf("nats.users[%d]: %w", i, err)
		}
		// Two of one variable would have one password on an external server.
		if other := seen[PasswordVariable(u.User)]; other != "" {
			return fmt.Errorf("nats.users[%d].user is %q, and user %q is there: names differ in more than case, - and _", i, u.User, other)
		}
		seen[PasswordVariable(u.User)] = u.User
	}
	return nil
}

// validateLogin refuses a user without exactly one login, and a creds file on the
// embedded server.
func (u User) validateLogin(i int, n NATS) error {
	ways := 0
	for _, way := range []string{u.Password, u.PasswordFile, u.CredsFile} {
		if way != "" {
			ways++
		}
	}
	switch {
	case u.User == "" || ways != 1:
		return fmt.Errorf("nats.users[%d] needs user and one of password_file and creds_file, which is for a server of your own (nats.url)", i)
	case u.CredsFile != "" && !n.External():
		return fmt.Errorf("nats.users[%d].creds_file is for an external server, and nats.url is empty: use password_file", i)
	}
	return nil
}

// QueueUser is what the configuration says of a user, without the password that a file holds.
func (u User) QueueUser() queue.User {
	user := queue.User{Name: u.User, Password: u.Password}
	for _, g := range u.Roles {
		user.Grants = append(user.Grants, queue.Grant{Role: queue.Role(g.Role), Accounts: g.Accounts})
	}
	return user
}

// NATSUsers are the users of the embedded server, with their passwords.
func (c *Config) NATSUsers() ([]queue.User, error) {
	users := make([]queue.User, 0, len(c.NATS.Users))
	for _, u := range c.NATS.Users {
		user := u.QueueUser()
		if u.PasswordFile != "" {
			secret, err := ReadSecret(c.ResolvePath(u.PasswordFile))
			if err != nil {
				return nil, err
			}
			user.Password = secret
		}
		users = append(users, user)
	}
	return users, nil
}

// LocalUser is the user of the program's own commands on the machine of the run, with
// every role. A user of the machine that can read its password, which changes with each
// run, can read the ledger too.
func LocalUser(accounts []string) queue.User {
	return queue.User{Name: queue.LocalUser, Password: rand.Text(), Grants: []queue.Grant{
		{Role: queue.RoleOperator, Accounts: accounts}, {Role: queue.RoleProducer, Accounts: accounts},
	}}
}

// PasswordVariable names the variable of a server's environment that holds a user's password.
func PasswordVariable(user string) string {
	return "PERENNIAL_NATS_" + strings.ToUpper(strings.ReplaceAll(user, "-", "_"))
}
