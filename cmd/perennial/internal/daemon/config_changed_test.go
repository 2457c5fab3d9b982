package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/config"
)

// What is wrong with a changed configuration is not quoted: viewers read the summary, and the
// file may hold what was pasted into it by mistake.
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
