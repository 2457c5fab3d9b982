// The schedules of an account, and the lists of proxies that they name.

package config

import (
	"path/filepath"

	"perennial/ledger/files"
	"perennial/schedules"
)

// SchedulesOf are the schedules of one account.
func (c *Config) SchedulesOf(account string) (own []schedules.Schedule) {
	for _, s := range c.Schedules {
		if s.Account == account {
			own = append(own, s)
		}
	}
	return own
}

// ResolvePath is the path of a file that the configuration names: relative to the
// configuration's directory, unless it is absolute.
func (c *Config) ResolvePath(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(c.File), name)
}

// maxListFile bounds a list of proxies, in bytes: a million ids and more.
const maxListFile = 64 << 20

// ReadListFile reads the list of proxies that a schedule names.
func (c *Config) ReadListFile(name string) ([]byte, error) {
	return files.Read(c.ResolvePath(name), maxListFile)
}
