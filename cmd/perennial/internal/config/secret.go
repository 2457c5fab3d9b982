package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"perennial/ledger/files"
)

// SecretOf reads an account's API Secret from its environment variable, a systemd credential,
// or its file.
func (c *Config) SecretOf(name string) (string, error) {
	a := c.Accounts[name]
	if a.Secret != "" {
		return a.Secret, nil
	}
	return readFrom(c, secretSources{"account " + name, SecretVariable(name), name + ".secret", a.SecretFile}, ParseSecret)
}

// CheckSecrets reads the secrets of all accounts and webhooks, and returns an error with every
// fault.
func (c *Config) CheckSecrets() error {
	var d decoder
	add := func(err error) {
		if err != nil {
			d.check(errors.New(strings.ReplaceAll(err.Error(), "\n", ": ")))
		}
	}
	for _, name := range c.AccountNames() {
		if _, err := c.SecretOf(name); !c.Embedded {
			add(err)
		}
		for _, w := range c.WebhooksOf(name) {
			_, err := c.WebhookSecrets(w)
			add(err)
		}
	}
	return d.err(c.File)
}

// secretSources lists the sources of a secret. The first source that exists is used.
type secretSources struct {
	of         string // owner of the secret, such as "account main"
	variable   string // environment variable
	credential string // systemd credential
	file       string // path in the configuration; may be ""
}

// readFrom reads a secret and parses it with parse. The errors of parse must not quote the
// text.
func readFrom[S any](c *Config, from secretSources, parse func([]byte) (S, error)) (secret S, err error) {
	if text := os.Getenv(from.variable); text != "" {
		plain, err := files.Text([]byte(text))
		if err == nil {
			secret, err = parse(plain)
		}
		if err != nil {
			err = invalid("%s: the variable %s %w", from.of, from.variable, err)
		}
		return secret, err
	}
	path := from.file
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		if credential := filepath.Join(dir, from.credential); path == "" || Exists(credential) {
			path = credential
		}
	}
	if path == "" {
		return secret, invalid("%s has no secret\nset secret_file in %s, or %s in the environment", from.of, c.File, from.variable)
	}
	if secret, err = readSecret(c.ResolvePath(path), parse); err != nil {
		err = invalid("%s: %w", from.of, err)
	}
	return secret, err
}

// namedSecret returns the path of an unreadable secret file for an error text. It returns "" if
// the path may be a secret pasted in place of a path.
func namedSecret(path string) string {
	if Exists(path) || slices.Contains([]string{".secret", ".password", ".txt", ".key"}, filepath.Ext(path)) {
		return " " + path
	}
	return ""
}

// SecretVariable returns the name of the environment variable for an account's secret.
func SecretVariable(account string) string {
	return "PERENNIAL_" + strings.ReplaceAll(strings.ToUpper(account), "-", "_") + "_SECRET"
}

func cause(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	return err
}

// MaxSecretBytes limits a secret file, in bytes.
const MaxSecretBytes = 4 << 10

// ReadSecret reads a secret file that no other user of the machine may read.
func ReadSecret(path string) (string, error) { return readSecret(path, ParseSecret) }

func readSecret[S any](path string, parse func([]byte) (S, error)) (secret S, err error) {
	text, err := ReadPrivate(path)
	if err != nil {
		return secret, err
	}
	if secret, err = parse(text); err != nil {
		err = invalid("the secret file %s %w", path, err)
	}
	return secret, err
}

// ReadPrivate reads a small text file that no other user of the machine may read.
func ReadPrivate(path string) ([]byte, error) {
	text, err := files.Read(path, MaxSecretBytes, private)
	if err == nil {
		if text, err = files.Text(text); err != nil {
			err = invalid("the secret file %s %w", path, err)
		}
	}
	if _, said := errors.AsType[*Error](err); said || err == nil {
		return text, err
	}
	if errors.Is(err, files.ErrNotRegular) || errors.Is(err, files.ErrTooLarge) {
		return nil, invalid("the secret file %s is not a file of at most %d bytes\nsecret_file names a file that holds the secret and nothing else", path, MaxSecretBytes)
	}
	// Do not quote a name that does not look like a path: it may be the secret itself.
	return nil, invalid("the secret file%s cannot be read: %w\nsecret_file names a file that holds the secret, not the secret", namedSecret(path), cause(err))
}

func private(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 == 0 || providedByRoot(info) {
		return nil
	}
	return invalid("the secret file %s may be read by others (mode %04o)\nrun: chmod 600 %s", path, info.Mode().Perm(), path)
}

// providedByRoot reports whether a file belongs to root and is readable only by a group of this
// process. Kubernetes and packages provide secrets in this way to a process that does not run
// as root.
func providedByRoot(info fs.FileInfo) bool {
	groups, err := os.Getgroups()
	return err == nil && os.Geteuid() != 0 && readableByGroup(info, append(groups, os.Getegid()))
}

func readableByGroup(info fs.FileInfo, groups []int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0 && info.Mode().Perm()&0o037 == 0 && slices.Contains(groups, int(stat.Gid))
}

// ParseSecret returns the secret in a text without surrounding spaces. Its errors never quote
// the text.
func ParseSecret(text []byte) (string, error) {
	text, err := files.Text(text)
	secret := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case secret == "":
		return "", errors.New("is empty")
	case strings.ContainsAny(secret, "\t\r\n"):
		return "", errors.New("has a line break, or a tab, within the secret: it holds the secret alone, in one line")
	}
	return secret, nil
}
