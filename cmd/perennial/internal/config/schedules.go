// The schedules of an account, and their proxy lists.

package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"

	"perennial/ledger/files"
	"perennial/schedules/plans"
)

// SettingsOf returns a short hash of an account's settings and schedules, which runners
// of one version compare. It excludes the secret, and the paths of its file and of
// ca_file, which may differ between machines.
func (c *Config) SettingsOf(account string) string {
	own := *c.Accounts[account]
	own.Secret, own.SecretFile, own.CAFile, own.Location = "", "", "", nil
	sorted := c.SchedulesOf(account)
	slices.SortFunc(sorted, func(a, b plans.Schedule) int { return cmp.Compare(a.Name, b.Name) })
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%#v%#v", own, sorted) // maps print in key order
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// SchedulesOf returns the schedules of one account.
func (c *Config) SchedulesOf(account string) (own []plans.Schedule) {
	for _, s := range c.Schedules {
		if s.Account == account {
			own = append(own, s)
		}
	}
	return own
}

// ResolvePath resolves a path of the configuration relative to the configuration's
// directory.
func (c *Config) ResolvePath(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(c.File), name)
}

// maxListFile bounds a proxy list, in bytes: over a million ids.
const maxListFile = 64 << 20

// ReadListFile reads the proxy list of a schedule.
func (c *Config) ReadListFile(name string) ([]byte, error) {
	return files.Read(c.ResolvePath(name), maxListFile)
}
