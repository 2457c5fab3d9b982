// Detection of changes in the configuration file since the runner read it.

package daemon

import (
	"os"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/config"
)

// reread caches the last read of the configuration file. Its zero value is ready to use.
type reread struct {
	mu     sync.Mutex
	at     time.Time // the file's modification time at the last read
	config *config.Config
	err    error
}

// read returns the configuration in the file. It reads the file again only if the file was
// modified.
func (r *reread) read(file string) (*config.Config, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.Equal(info.ModTime()) {
		r.at = info.ModTime()
		r.config, r.err = config.Load(file)
	}
	return r.config, r.err
}

// configChanged returns a message if the file cannot be loaded, or if an account's settings
// or schedules in the file differ from those in use. Otherwise it returns "". A changed file
// takes effect at the next start.
func (h *Host) configChanged(account string) string {
	if h.Config.File == "" {
		return ""
	}
	now, err := h.reread.read(h.Config.File)
	switch {
	case err != nil:
		// Do not show the error: it may quote the file, and every viewer can read this message.
		return "the configuration file has changed since the runner read it, and a restart would fail: `perennial config show` says why"
	case now.Accounts[account] == nil:
		return "the configuration file no longer has this account: restart the runner to apply that"
	case now.SettingsOf(account) != h.Config.SettingsOf(account):
		return "the configuration file has changed since the runner read it: restart the runner to apply it"
	}
	return ""
}
