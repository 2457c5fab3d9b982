package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/config"
)

// The summary does not quote the error in a changed configuration. Viewers read the summary, and
// the file may contain a secret that was pasted by mistake.
func TestAChangedConfigurationIsNotQuoted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "perennial.yaml")
	if err := os.WriteFile(file, []byte("hunter2: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(file); err == nil || !strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("the error does not quote the file, so that this proves nothing: %v", err)
	}
	h := &Host{Config: &config.Config{File: file}}
	if said := h.configChanged("main"); !strings.Contains(said, "a restart would fail") || strings.Contains(said, "hunter2") {
		t.Error(said)
	}
}
