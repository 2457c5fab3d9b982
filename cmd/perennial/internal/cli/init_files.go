// The files that `perennial init` writes: the configuration, the secret, and the passwords of
// NATS users for a production account.

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"

	"perennial/cmd/perennial/internal/config"
	"perennial/queue"
	"perennial/upstream"
)

// natsUser is a NATS user that init creates.
type natsUser struct {
	name string
	role queue.Role
	does string
}

func (u natsUser) passwordFile() string { return u.name + ".password" }

// users returns the NATS users of a production account. Without users, any client that
// reaches its NATS server could spend money, so `perennial run` would refuse to start. Each
// user has one role, so that a leaked password exposes only that role. CLI commands on the
// runner's machine do not need these users, because the runner creates a user for them.
func (s *setup) users() []natsUser {
	if env, _ := upstream.EnvironmentOf(s.appID); env != upstream.Production {
		return nil
	}
	return []natsUser{
		{"operator", queue.RoleOperator, "a person who decides: every verb, and events"},
		{"producer", queue.RoleProducer, "programs that order and renew: publish commands, and ask about them"},
		{"subscriber", queue.RoleSubscriber, "programs that read events"},
		{"viewer", queue.RoleViewer, "a person who looks: verbs that change nothing, and events"},
	}
}

// usersYAML returns the lines of nats.users.
func (s *setup) usersYAML(users []natsUser) string {
	if len(users) == 0 {
		return ""
	}
	lines := []string{"  users:                     # docs/security.md, Roles\n"}
	for _, u := range users {
		lines = append(lines, fmt.Sprintf("    - {user: %s, password_file: %s, roles: [{role: %s, accounts: [%s]}]}\n", u.name, u.passwordFile(), u.role, s.account))
	}
	return strings.Join(lines, "")
}

// yaml returns the configuration, with the settings that most operators change first.
func (s *setup) yaml(users []natsUser) string {
	return fmt.Sprintf(`data_dir: ./perennial-data   # relative to the directory of this file
nats:
  listen: 127.0.0.1:4222     # an embedded server; set url for one of your own
%shttp: {listen: 127.0.0.1:8080}
accounts:
  %s:
    base_url: %q
%s    app_id: %q
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
#     match: {country_code: [US]}   # without it: every proxy
#     budget_cents: 0        # of a run, and the next run has it again; 0: no limit
#     daily_budget_cents: 0  # of a day
#     approve_over_cents: 0  # a plan over it needs an approval; 0: none does
`, s.usersYAML(users), s.account, s.baseURL, s.caLine(), s.appID, s.account+".secret", s.account)
}

// caLine returns the line of ca_file, or "".
func (s *setup) caLine() string {
	if s.caFile == "" {
		return ""
	}
	return fmt.Sprintf("    ca_file: %q\n", s.caFile)
}

type newFile struct {
	path, text string
	mode       fs.FileMode
}

// writeAll writes all files. If a file cannot be written or the configuration does not load,
// writeAll removes the files that it has written.
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
	_, err = config.Load(s.file)
	return err
}

// say prints the written files and the purpose of each user.
func (s *setup) say(files []newFile, users []natsUser) {
	for _, f := range files {
		fmt.Fprintf(s.app.stderr, "wrote %s\n", f.path)
	}
	for _, u := range users {
		fmt.Fprintf(s.app.stderr, "NATS user %s, password in %s: %s\n", u.name, s.beside(u.passwordFile()), u.does)
	}
}

// sayNext prints the next commands.
func (s *setup) sayNext() error {
	next := "Next: "
	if s.sandbox {
		_, listen, _ := strings.Cut(s.baseURL, "://")
		next += "perennial sandbox --listen " + listen + controlBeside(listen) + ", and in another terminal "
	}
	next += "perennial run"
	if s.file != "perennial.yaml" {
		next += " --config " + s.file
	}
	_, err := fmt.Fprintln(s.app.stderr, next)
	return err
}

// controlBeside returns the flag for the sandbox's control interface, at the port after the
// API's port. It returns "" if there is no such port.
func controlBeside(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	n, wrong := strconv.Atoi(port)
	if err != nil || wrong != nil || n <= 0 || n >= 1<<16-1 {
		return ""
	}
	return " --control " + net.JoinHostPort(host, strconv.Itoa(n+1))
}

// writeNew writes a file that must not exist yet.
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
