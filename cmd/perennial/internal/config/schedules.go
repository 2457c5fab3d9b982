// The schedules of an account, and the lists of proxies that they name.

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

// SettingsOf is a short hash of an account's settings and schedules, by which runners of one
// version compare theirs. The secret is not in it, nor are the paths of its
// file and of ca_file, which may differ between machines.
func (c *Config) SettingsOf(account string) string {
	own := *c.Accounts[account]
	own.Secret, own.SecretFile, own.CAFile, own.Location = "", "", "", nil
	sorted := c.SchedulesOf(account)
	slices.SortFunc(sorted, func(a, b plans.Schedule) int { return cmp.Compare(a.Name, b.Name) })
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%#v%#v", own, sorted) // maps are printed in the order of their keys
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// SchedulesOf are the schedules of one account.
func (c *Config) SchedulesOf(account string) (own []plans.Schedule) {
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
