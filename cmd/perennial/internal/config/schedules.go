// An account's schedules, and the lists of proxies that they use.

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

// SettingsOf returns a short hash of an account's settings and schedules. Runners of one
// version use it to compare their settings. The hash excludes the secret and the paths of
// secret_file and ca_file, which may differ between machines.
func (c *Config) SettingsOf(account string) string {
	own := *c.Accounts[account]
	own.Secret, own.SecretFile, own.CAFile, own.Location = "", "", "", nil
	sorted := c.SchedulesOf(account)
	slices.SortFunc(sorted, func(a, b plans.Schedule) int { return cmp.Compare(a.Name, b.Name) })
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%#v%#v", own, sorted) // fmt prints maps in key order
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

// ResolvePath joins a relative path in the configuration to the configuration's directory.
// An absolute path stays as it is.
func (c *Config) ResolvePath(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(c.File), name)
}

// maxListFile limits a list of proxies, in bytes. A list of that size has more than a million
// ids.
const maxListFile = 64 << 20

// ReadListFile reads a schedule's list of proxies.
func (c *Config) ReadListFile(name string) ([]byte, error) {
	return files.Read(c.ResolvePath(name), maxListFile)
}
