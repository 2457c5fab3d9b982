package cli

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"perennial/cmd/perennial/internal/config"
	"perennial/queue"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

type setup struct {
	app        *app
	in         *bufio.Reader
	account    string
	baseURL    string
	caFile     string // the certificates of a private authority
	appID      string
	secretFile string // an existing file with the secret, or - for standard input
	file       string
	noDoctor   bool
	sandbox    bool // for `perennial sandbox` with its demo fixture
}

// trialSandbox is the address at which init --sandbox expects `perennial sandbox` to listen.
const trialSandbox = "127.0.0.1:8090"

func (a setupCommands) initCommand() *cobra.Command {
	s := &setup{app: a.app}
	c := newCommand("init", "Create perennial.yaml and a secret file", func(ctx context.Context, _ []string) error {
		s.in = bufio.NewReader(a.stdin)
		return s.run(ctx)
	})
	c.Long = "Asks for the provider's address, the App ID and the API Secret, unless flags set them.\nWrites the secret to a separate file that only the current user may read."
	f := c.Flags()
	f.StringVar(&s.account, "name", "main", "short name of the account: lower case letters, digits and -")
	f.StringVar(&s.baseURL, "base-url", "", "address of the provider's API")
	f.StringVar(&s.caFile, "ca-file", "", "PEM file of the private authority that signed the provider's certificate (default: the system's authorities)")
	f.StringVar(&s.appID, "app-id", "", "App ID: sbx_app_… or live_app_…")
	f.StringVar(&s.secretFile, "secret-file", "", "read the API Secret from this file, and copy it to NAME.secret; - is the standard input")
	f.StringVar(&s.file, "out", "perennial.yaml", "the configuration file to write; an existing file is never overwritten")
	f.BoolVar(&s.sandbox, "sandbox", false, "configure a trial without questions. If perennial-data has the sandbox of an earlier trial, the runner starts that sandbox itself; otherwise start 'perennial sandbox' separately, at --base-url (default http://"+trialSandbox+")")
	f.BoolVar(&s.noDoctor, "no-doctor", false, "only write the files, without running doctor")
	return c
}

func (s *setup) run(ctx context.Context) error {
	if err := queue.ValidAccount(s.account); err != nil {
		return usage("--name: %w", err)
	}
	if err := s.trial(); err != nil {
		return err
	}
	if err := notThere(s.file); err != nil {
		return err
	}
	users, files, err := s.credentials(ctx)
	if err != nil {
		return err
	}
	files = append(files, newFile{s.file, s.yaml(users), 0o644})
	if err := s.writeAll(files); err != nil {
		return err
	}
	s.say(files, users)
	return s.examine(ctx)
}

// credentials asks for the address and the credentials. It returns the NATS users of a
// production account, and the files with the secrets. The embedded sandbox needs none.
func (s *setup) credentials(ctx context.Context) (users []natsUser, files []newFile, err error) {
	if s.baseURL == config.EmbeddedSandbox {
		return nil, nil, nil
	}
	if path := s.secretPath(); config.Exists(path) && !s.inPlace() {
		return nil, nil, usage("%s exists already and is not overwritten\nuse --secret-file %s to use it, or another --name", path, path)
	}
	if err := s.ask(&s.baseURL, "--base-url", "Address of the provider's API (https://…): ", upstream.CheckBaseURL); err != nil {
		return nil, nil, err
	}
	if err := s.roots(); err != nil {
		return nil, nil, err
	}
	checkAppID := func(text string) error { _, err := upstream.EnvironmentOf(text); return err }
	if err := s.ask(&s.appID, "--app-id", "App ID (sbx_app_… or live_app_…): ", checkAppID); err != nil {
		return nil, nil, err
	}
	users = s.users()
	for _, u := range users {
		if err := notThere(s.beside(u.passwordFile())); err != nil {
			return nil, nil, err
		}
	}
	secret, err := s.secret(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !s.inPlace() {
		files = append(files, newFile{s.secretPath(), secret + "\n", 0o600})
	}
	for _, u := range users {
		files = append(files, newFile{s.beside(u.passwordFile()), rand.Text() + "\n", 0o600})
	}
	return users, files, nil
}

func (s *setup) examine(ctx context.Context) error {
	if !s.noDoctor {
		s.app.configFile, s.app.account = s.file, s.account
		if err := (setupCommands{s.app}).examine(ctx); err != nil {
			return err
		}
	}
	return s.sayNext()
}

func (s *setup) trial() error {
	if !s.sandbox {
		return nil
	}
	if s.appID+s.secretFile+s.caFile != "" {
		return usage("--sandbox excludes --app-id, --secret-file and --ca-file")
	}
	if s.baseURL == "" && config.Exists(s.beside(filepath.Join("perennial-data", "sandbox.db"))) { // of a run without configuration
		s.baseURL, s.noDoctor = config.EmbeddedSandbox, true
		return nil
	}
	s.baseURL = cmp.Or(s.baseURL, "http://"+trialSandbox)
	s.appID, s.secretFile = sandbox.DemoSandboxAppID, "-"
	s.in, s.noDoctor = bufio.NewReader(strings.NewReader(sandbox.DemoSandboxSecret)), true
	return nil
}

func (s *setup) roots() (err error) {
	if s.caFile == "" {
		return nil
	}
	if _, err := config.ReadRoots(s.caFile); err != nil {
		return usage("--ca-file: %w", err)
	}
	s.caFile, err = filepath.Abs(s.caFile)
	return err
}

func (s *setup) beside(name string) string { return filepath.Join(filepath.Dir(s.file), name) }

func (s *setup) secretPath() string { return s.beside(s.account + ".secret") }

// inPlace reports whether --secret-file already names the file at secretPath.
func (s *setup) inPlace() bool {
	if s.secretFile == "" || s.secretFile == "-" {
		return false
	}
	given, err := os.Stat(s.secretFile)
	if err != nil {
		return false
	}
	there, err := os.Stat(s.secretPath())
	return err == nil && os.SameFile(given, there)
}

func notThere(path string) error {
	if config.Exists(path) {
		return usage("%s exists already and is not overwritten\nmove it away, or choose an --out in another directory", path)
	}
	return nil
}

// ask asks the user for an answer, unless a flag gave the answer. It repeats the question until
// the answer is valid.
func (s *setup) ask(answer *string, flag, question string, wrong func(string) error) error {
	if *answer != "" && wrong(*answer) != nil {
		return usage("%s %w", flag, wrong(*answer))
	}
	for *answer == "" || wrong(*answer) != nil {
		if *answer != "" {
			fmt.Fprintln(s.app.stderr, "it", wrong(*answer))
		}
		fmt.Fprint(s.app.stderr, question)
		line, err := s.in.ReadString('\n')
		*answer = strings.TrimSpace(line)
		if err != nil && *answer == "" {
			return usage("nothing was answered\nuse --base-url, --app-id and --secret-file")
		}
	}
	return nil
}

// secret reads the API Secret from --secret-file or standard input, without echo on a
// terminal.
func (s *setup) secret(ctx context.Context) (string, error) {
	var text []byte
	var err error
	switch {
	case s.secretFile == "-":
		text, err = io.ReadAll(io.LimitReader(s.in, 4096))
	case s.secretFile != "":
		text, err = readNamed(ctx, s.secretFile, config.MaxSecretBytes)
	case isTerminal(os.Stdin):
		fmt.Fprint(s.app.stderr, "API Secret (not shown): ")
		text, err = term.ReadPassword(int(os.Stdin.Fd()))
		fmt.Fprintln(s.app.stderr)
	default:
		var line string
		line, err = s.in.ReadString('\n')
		text = []byte(line)
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		return "", usage("the secret cannot be read: %w", err)
	}
	secret, err := config.ParseSecret(text)
	if err != nil {
		return "", usage("the secret %w\nuse --secret-file FILE", err)
	}
	return secret, nil
}

type natsUser struct {
	name string
	role queue.Role
	does string
}

func (u natsUser) passwordFile() string { return u.name + ".password" }

// users returns the NATS users of a production account. Without users, any client that reaches
// the NATS server could spend money. `perennial run` would therefore refuse to start. Each user
// has one role, so that a leaked password exposes only that role. CLI commands on the runner's
// machine do not need these users, because the runner creates a user for them.
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
	provider := fmt.Sprintf("    base_url: %q\n", s.baseURL)
	if s.caFile != "" {
		provider += fmt.Sprintf("    ca_file: %q\n", s.caFile)
	}
	if s.baseURL != config.EmbeddedSandbox {
		provider += fmt.Sprintf("    app_id: %q\n    secret_file: %q\n", s.appID, s.account+".secret")
	}
	return fmt.Sprintf(`data_dir: ./perennial-data   # relative to the directory of this file
nats:
  listen: 127.0.0.1:4222     # an embedded server; set url for one of your own
%shttp: {listen: 127.0.0.1:8080}
accounts:
  %s:
%s    rate_per_second: 5
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
`, s.usersYAML(users), s.account, provider, s.account)
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

func (s *setup) say(files []newFile, users []natsUser) {
	for _, f := range files {
		fmt.Fprintf(s.app.stderr, "wrote %s\n", f.path)
	}
	for _, u := range users {
		fmt.Fprintf(s.app.stderr, "NATS user %s, password in %s: %s\n", u.name, s.beside(u.passwordFile()), u.does)
	}
}

func (s *setup) sayNext() error {
	next := "Next: "
	if s.sandbox && s.baseURL != config.EmbeddedSandbox {
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
