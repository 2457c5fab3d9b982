package queue

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"perennial/ledger/files"
)

// TestTheStoreIsClosedToOthers, or refused where they may have changed it.
func TestTheStoreIsClosedToOthers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nats")
	startServer(t, dir).Shutdown()
	for mode, refused := range map[os.FileMode]bool{0o755: false, 0o750: false, 0o777: true, 0o775: true} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		server, err := StartEmbedded(EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: dir, Log: quiet()})
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), "chmod go-w "+dir) {
			t.Errorf("%v: %v", mode, err)
		}
		if err != nil {
			continue
		}
		server.Shutdown()
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v: %v %v", mode, info, err)
		}
	}
}

// TestALockThatIsNoFileIsRefused, at once.
func TestALockThatIsNoFileIsRefused(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link": func(path string) error { return os.Symlink("elsewhere", path) },
	} {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(dir, 0o700), put(filepath.Join(dir, LockName))); err != nil {
			t.Fatal(err)
		}
		if _, err := LockDir(dir); !errors.Is(err, files.ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
		if exists, _ := filepath.Glob(filepath.Join(dir, "elsewhere")); len(exists) > 0 {
			t.Error("the link was followed")
		}
	}
}
