package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// secretOf reads an account's API Secret: from its environment variable, a
// systemd credential, or its file.
func (c *config) secretOf(name string) (string, error) {
	a := c.Accounts[name]
	variable := secretVariable(name)
	switch {
	case a.secret != "":
		return a.secret, nil
	case os.Getenv(variable) != "":
		return os.Getenv(variable), nil
	}
	path := a.SecretFile
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		if credential := filepath.Join(dir, name+".secret"); path == "" || exists(credential) {
			path = credential
		}
	}
	if path == "" {
		return "", usage("account %s has no secret\nset secret_file in %s, or %s in the environment", name, c.file, variable)
	}
	if !filepath.IsAbs(path) && c.file != "" {
		path = filepath.Join(filepath.Dir(c.file), path)
	}
	secret, err := readSecret(path)
	if err != nil {
		return "", usage("account %s: %w", name, err)
	}
	return secret, nil
}

// namedSecret is the path of a secret file that cannot be read, where it can be no
// secret: "" for a word that may have been pasted in the place of a path.
func namedSecret(path string) string {
	if exists(path) || slices.Contains([]string{".secret", ".password", ".txt", ".key"}, filepath.Ext(path)) {
		return " " + path
	}
	return ""
}

// secretVariable is the environment variable of an account's secret.
func secretVariable(account string) string {
	return "PERENNIAL_" + strings.ReplaceAll(strings.ToUpper(account), "-", "_") + "_SECRET"
}

// cause is what went wrong with a file, without the file's name.
func cause(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	return err
}

// maxSecret bounds a secret file, in bytes.
const maxSecret = 4 << 10

// readSecret reads a secret file that no other user of the machine may read.
func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		// A name that is none of a file is not repeated: it may be the secret itself.
		return "", usage("the secret file%s cannot be read: %w\nsecret_file names a file that holds the secret, not the secret", namedSecret(path), cause(err))
	}
	if !info.Mode().IsRegular() || info.Size() > maxSecret {
		return "", usage("the secret file %s is not a file of at most %d bytes\nsecret_file names a file that holds the secret and nothing else", path, maxSecret)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", usage("the secret file %s may be read by others (mode %04o)\nrun: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", usage("the secret file cannot be read: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", usage("the secret file %s is empty", path)
	}
	return secret, nil
}
