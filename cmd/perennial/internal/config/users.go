package config

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/roles"
)

// User is a NATS user and its permissions.
type User struct {
	User         string `yaml:"user" absent:"required" doc:"name of a user of the embedded server, or for nats-config"`
	PasswordFile string `yaml:"password_file" doc:"file with the password, mode 0600; or use creds_file"`
	Password     string `yaml:"password" doc:"bcrypt hash of the password, instead of password_file"`
	CredsFile    string `yaml:"creds_file" doc:"credentials file of a user whose account is a JWT; doctor logs in with it"`
	Roles        []Role `yaml:"roles"`
}

// Role is a user's role, and the accounts to which it applies.
type Role struct {
	Role     string   `yaml:"role" absent:"required" doc:"producer, subscriber, viewer or operator ([security.md](security.md#roles))"`
	Accounts []string `yaml:"accounts" absent:"required" doc:"accounts that the role is for"`
}

// Target returns the connection settings for an external NATS server. For an embedded server,
// the caller must add the address.
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
	t.User = cmp.Or(n.User, roles.RunnerUser)
	t.Password, err = ReadSecret(c.ResolvePath(n.PasswordFile))
	return t, err
}

// validate returns an error for conflicting nats keys, or for an invalid address of the
// embedded server.
func (n NATS) validate() error {
	for _, rule := range []struct {
		broken bool
		says   string
	}{
		{n.URL != "" && n.Context != "", "nats.url and nats.context exclude each other: keep one"},
		{n.SyncAlways && !n.External(), "nats.sync_always belongs to nats.url or nats.context, and both are empty: leave it out"},
		{n.PasswordFile != "" && n.URL == "", "nats.password_file is for nats.url, which is empty"},
		{n.PasswordFile != "" && n.CredsFile != "", "nats.password_file and nats.creds_file exclude each other: keep one"},
		{n.NKeyFile != "" && (n.PasswordFile != "" || n.CredsFile != ""), "nats.nkey_file excludes nats.password_file and nats.creds_file: keep one"},
		{n.User != "" && n.PasswordFile == "", "nats.user needs nats.password_file"},
		{(n.CertFile == "") != (n.KeyFile == ""), "nats.cert_file and nats.key_file belong together: set both"},
		{n.TLSFirst && n.URL == "", "nats.tls_first is for nats.url, which is empty"},
		{n.NKeyFile != "" && n.URL == "", "nats.nkey_file is for nats.url, which is empty"},
		{n.CAFile != "" && n.URL == "", "nats.ca_file is for nats.url, which is empty"},
		{n.CertFile != "" && n.URL == "", "nats.cert_file is for nats.url, which is empty"},
		{n.Domain != "" && n.URL == "", "nats.domain is for nats.url, which is empty"},
	} {
		if rule.broken {
			return errors.New(rule.says)
		}
	}
	if !n.External() {
		return embedded.CheckListen(n.Listen)
	}
	return nil
}

// validateUsers returns an error for each user without a usable login or without permissions.
func (c *Config) validateUsers() (all []error) {
	seen := map[string]string{PasswordVariable(roles.RunnerUser): roles.RunnerUser}
	for i, u := range c.NATS.Users {
		variable := PasswordVariable(u.User)
		if err := u.validate(c.NATS, seen[variable]); err != nil {
			all = append(all, fmt.Errorf("nats.users[%d]%w", i, err))
		}
		seen[variable] = u.User
	}
	return all
}

// validate requires exactly one login for a user, and no creds file on the embedded server. It
// also refuses a user with the password variable of another user, because both users would
// then share a password on an external server.
func (u User) validate(n NATS, other string) error {
	logins := slices.DeleteFunc([]string{u.Password, u.PasswordFile, u.CredsFile}, func(way string) bool { return way == "" })
	switch {
	case u.User == "" || len(logins) != 1:
		return errors.New(" needs user and one of password_file and creds_file, which is for a server of your own (nats.url)")
	case u.CredsFile != "" && !n.External():
		return errors.New(".creds_file is for an external server, and nats.url is empty: use password_file")
	case u.Password != "" && !strings.HasPrefix(u.Password, "$2"):
		return errors.New(".password must be a bcrypt hash: this file holds no secrets, use password_file")
	case u.User == roles.LocalUser:
		return fmt.Errorf(".user is %q, which is that of the program's own commands: choose another name", u.User)
	case other != "":
		return fmt.Errorf(".user is %q, and user %q is there: names differ in more than case, - and _", u.User, other)
	}
	if err := roles.CheckUser(u.QueueUser()); err != nil {
		return fmt.Errorf(": %w", err)
	}
	return nil
}

// QueueUser returns the configured user with its permissions. It does not read password_file.
func (u User) QueueUser() roles.User {
	user := roles.User{Name: u.User, Password: u.Password}
	for _, g := range u.Roles {
		user.Grants = append(user.Grants, roles.Grant{Role: queue.Role(g.Role), Accounts: g.Accounts})
	}
	return user
}

// NATSUsers returns the users of the embedded server with their passwords.
func (c *Config) NATSUsers() ([]roles.User, error) {
	users := make([]roles.User, 0, len(c.NATS.Users))
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

// LocalUser returns the NATS user for CLI commands on the runner's machine. The user has every
// role, and its password changes with each run. Only system users that can read the ledger can
// read the password.
func LocalUser(accounts []string) roles.User {
	return roles.User{Name: roles.LocalUser, Password: rand.Text(), Grants: []roles.Grant{
		{Role: queue.RoleOperator, Accounts: accounts}, {Role: queue.RoleProducer, Accounts: accounts},
	}}
}

// PasswordVariable returns the server's environment variable for a user's password.
func PasswordVariable(user string) string {
	return "PERENNIAL_NATS_" + strings.ToUpper(strings.ReplaceAll(user, "-", "_"))
}
