// The tokens file: people who may sign in with a token, and their roles. It contains only
// hashes of tokens.

package web

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"perennial/ledger/files"
)

// Token is an entry of the tokens file.
type Token struct {
	Name     string   `yaml:"name"`
	Role     Role     `yaml:"role"`
	Accounts []string `yaml:"accounts,omitempty"` // visible accounts; empty means all
	SHA256   string   `yaml:"sha256"`             // hash of the token, in hexadecimal
}

// tokenPrefix makes a token recognizable among other secrets.
const tokenPrefix = "pwt_"

const maxTokensFile = 1 << 20

// personName matches a person's name, often an email address.
var personName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$`)

func (t Token) check() error {
	switch {
	case !personName.MatchString(t.Name):
		return fmt.Errorf("name %.64q: use 1 to 64 letters, digits and . _ @ + -", t.Name)
	case t.Role != Viewer && t.Role != Operator:
		return fmt.Errorf("token of %s: role is %.32q and must be %s or %s", t.Name, string(t.Role), Viewer, Operator)
	case len(t.SHA256) != 2*sha256.Size:
		return fmt.Errorf("token of %s: sha256 must have %d hexadecimal digits", t.Name, 2*sha256.Size)
	}
	return nil
}

// ReadTokens reads the tokens file, which only its owner may read. It returns no tokens if the
// file does not exist.
func ReadTokens(path string) ([]Token, error) {
	text, err := files.Read(path, maxTokensFile, onlyOwner)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tokens file: %w", err)
	}
	if text, err = files.Text(text); err != nil {
		return nil, fmt.Errorf("tokens file %s %w", path, err)
	}
	var all []Token
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil && len(bytes.TrimSpace(text)) > 0 {
		return nil, fmt.Errorf("tokens file %s: %w", path, err)
	}
	for _, t := range all {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("tokens file %s: %w", path, err)
		}
	}
	return all, nil
}

func onlyOwner(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s has mode %04o, and others can read it: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	return nil
}

// AddToken creates a token, appends its hash to the file and returns the token, which is not
// stored.
func AddToken(path string, t Token) (token string, err error) {
	token = tokenPrefix + rand.Text() + rand.Text()
	t.SHA256 = hashOf(token)
	if err := t.check(); err != nil {
		return "", err
	}
	all, err := ReadTokens(path)
	if err != nil {
		return "", err
	}
	for _, have := range all {
		if have.Name == t.Name {
			return "", fmt.Errorf("tokens file %s: %s has a token: remove that entry first", path, t.Name)
		}
	}
	text, err := yaml.Marshal([]Token{t})
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	return token, errors.Join(err, f.Sync(), f.Close())
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return hex.EncodeToString(sum[:])
}

// owner returns the person whose token has the given hash. It compares every entry, even after
// a match, so that the time it takes reveals nothing.
func owner(all []Token, hash string) (p Person, ok bool) {
	have := []byte(hash)
	for _, t := range all {
		if subtle.ConstantTimeCompare(have, []byte(strings.ToLower(t.SHA256))) == 1 {
			p, ok = Person{Name: t.Name, Role: t.Role, Accounts: t.Accounts}, true
		}
	}
	return p, ok
}
