// Writes files at paths that a user chooses, without replacing a file that Perennial needs.

package cli

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/datadir"
	"perennial/ledger/files"
)

// outputs writes files at paths that a user chooses, each atomically. It reads the
// configuration to find files that it must not replace.
type outputs struct{ configFile string }

func (a *app) outputs() outputs { return outputs{a.configFile} }

// write writes a file, unless check refuses the path.
func (o outputs) write(path string, mode fs.FileMode, write func(io.Writer) error) error {
	if err := o.check(path); err != nil {
		return err
	}
	if err := files.Write(path, mode, write); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// check refuses to replace a database, such as a ledger, a backup or an archive. It also
// refuses every file that checkCopy refuses.
func (o outputs) check(path string) error {
	if _, err := os.Stat(path); err == nil && isSQLite(path) == nil {
		return needed(path, "a ledger, a copy of one or another SQLite database")
	}
	return o.checkCopy(path)
}

// checkCopy refuses to replace a ledger in use, an archive or a lock. It also refuses the
// configuration and files that the configuration refers to, such as a secret. It allows
// replacing other copies of a ledger.
func (o outputs) checkCopy(path string) error {
	switch name := filepath.Base(path); {
	case name == datadir.LockName:
		return needed(path, "the lock of a data directory")
	case strings.HasSuffix(name, "-wal"), strings.HasSuffix(name, "-shm"), strings.HasSuffix(name, "-journal"):
		return needed(path, "what SQLite keeps beside a database")
	case strings.HasSuffix(name, ".archive.db"):
		return needed(path, "an archive")
	case strings.HasSuffix(name, ".ledger.db") && config.Exists(filepath.Join(filepath.Dir(path), datadir.LockName)), config.Exists(path + "-wal"):
		return needed(path, "a ledger")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // nothing is replaced, because the file does not exist
	}
	names := []string{o.configFile, "perennial.yaml"}
	if c, err := config.Load(o.configFile); err == nil {
		names = append(names, c.File)
		for _, s := range c.Settings() {
			if name, ok := s.Value.(string); ok && strings.HasSuffix(s.Key, "_file") && name != "" {
				names = append(names, c.ResolvePath(name))
			}
		}
	}
	if slices.ContainsFunc(names, func(name string) bool {
		one, err := os.Stat(name)
		return err == nil && os.SameFile(info, one)
	}) {
		return needed(path, "the configuration, or a file that it names")
	}
	return nil
}

func needed(path, what string) error {
	return usage("%s is %s and is never written over\nname another file", path, what)
}
