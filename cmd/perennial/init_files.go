package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"perennial/queue"
)

// What init writes: the configuration, the secret, and for a production account
// the users of its NATS server, each with a password of its own.

// natsUser is one that init makes.
type natsUser struct {
	name  string
	roles []queue.Role
	does  string
}

func (u natsUser) passwordFile() string { return u.name + ".password" }

// users are those of a production account: without them any client that reaches its
// NATS server could spend its money, and `perennial run` refuses that.
func (s *setup) users() []natsUser {
	if !strings.HasPrefix(s.appID, "live_app_") {
		return nil
	}
	return []natsUser{
		{"operator", []queue.Role{queue.RoleOperator, queue.RoleProducer}, "a person: every verb, events, and commands"},
		{"producer", []queue.Role{queue.RoleProducer}, "your programs: publish commands, and ask about them"},
	}
}

// usersYAML are the lines of nats.users.
func (s *setup) usersYAML(users []natsUser) string {
	if len(users) == 0 {
		return ""
	}
	lines := []string{"  users:                     # docs/security.md, Roles\n"}
	for _, u := range users {
		roles := make([]string, 0, len(u.roles))
		for _, r := range u.roles {
			roles = append(roles, fmt.Sprintf("{role: %s, accounts: [%s]}", r, s.account))
		}
		lines = append(lines, fmt.Sprintf("    - {user: %s, password_file: %s, roles: [%s]}\n", u.name, u.passwordFile(), strings.Join(roles, ", ")))
	}
	return strings.Join(lines, "")
}

// yaml is the configuration with what most people change first.
func (s *setup) yaml(users []natsUser) string {
	return fmt.Sprintf(`data_dir: ./perennial-data   # relative to the directory of this file
nats:
  listen: 127.0.0.1:4222     # an embedded server; set url for one of your own
%shttp: {listen: 127.0.0.1:8080}
accounts:
  %s:
    base_url: %q
    app_id: %q
    secret_file: %q
    rate_per_second: 5
    concurrency: 8
    daily_limit_cents: 0     # 0: no limit
# schedules:
#   - name: keepalive
#     account: %s
#     cron: "*/15 * * * *"
#     renew_before: 72h
#     duration_days: 30
#     budget_cents: 0        # 0: no limit
`, s.usersYAML(users), s.account, s.baseURL, s.appID, s.account+".secret", s.account)
}

// newFile is one to be written.
type newFile struct {
	path, text string
	mode       fs.FileMode
}

// writeAll writes all files or none, and none that make no configuration.
func (s *setup) writeAll(files []newFile) (err error) {
	var written []string
	defer func() {
		for _, path := range written {
			if err != nil {
				err = errors.Join(err, os.Remove(path))
			}
		}
	}()
	for _, f := range files {
		if err := writeNew(f.path, f.text, f.mode); err != nil {
			return err
		}
		written = append(written, f.path)
	}
	_, err = loadConfig(s.file)
	return err
}

// say names what was written, and what each user is for.
func (s *setup) say(files []newFile, users []natsUser) {
	for _, f := range files {
		fmt.Fprintf(s.app.stderr, "wrote %s\n", f.path)
	}
	for _, u := range users {
		fmt.Fprintf(s.app.stderr, "NATS user %s, password in %s: %s\n", u.name, s.beside(u.passwordFile()), u.does)
	}
}

// writeNew writes a file that must not be there yet.
func writeNew(path, text string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
