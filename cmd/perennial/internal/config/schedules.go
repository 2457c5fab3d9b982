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

// Beside is where a list of proxies lies: beside the configuration, unless
// its name is absolute.
func (c *Config) Beside(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(c.File), name)
}

// maxListFile bounds a list of proxies, in bytes: a million ids and more.
const maxListFile = 64 << 20

// ReadListed reads a list of proxies that a schedule names.
func (c *Config) ReadListed(name string) ([]byte, error) {
	return files.Read(c.Beside(name), maxListFile)
}
