package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/queue/natstest"
)

// The store is closed to others, or refused if they may have changed it.
func TestTheStoreIsClosedToOthers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nats")
	start(t, dir).Shutdown()
	for mode, refused := range map[os.FileMode]bool{0o755: false, 0o750: false, 0o777: true, 0o775: true} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		server, err := Start(Config{Listen: "127.0.0.1:0", StoreDir: dir, Log: natstest.Quiet()})
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
