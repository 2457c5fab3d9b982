// The text of the configuration file, read once and bounded.

package config

import (
	"errors"
	"fmt"
	"io/fs"
)

// MaxConfigBytes bounds the configuration, in bytes.
const MaxConfigBytes = 1 << 20

// configText is the configuration as it was read, once: a file that is changed
// meanwhile is not two.
type configText []byte

// ReadBytes implements koanf.Provider.
func (t configText) ReadBytes() ([]byte, error) { return t, nil }

// Read implements koanf.Provider, whose loader has a parser and does not call it.
func (configText) Read() (map[string]any, error) {
	return nil, errors.New("the configuration is read as text")
}

// notOthers refuses a configuration that every user may write: it decides which server
// is asked, and what may be spent. Write permission of the group is accepted: many
// systems give each user a group of its own.
func notOthers(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o002 == 0 {
		return nil
	}
	return fmt.Errorf("every user may write it (mode %04o)\ncheck its content, then run: chmod o-w %s", info.Mode().Perm(), path)
}
