//go:build check

package crashtest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// The data directory has no byte left while commands arrive, and /readyz reports it. Once there is
// room again, the runner accepts each command once.
func TestAFullDiskUnderTheEmbeddedNATSIsWaitedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	smallDisk(t, filepath.Join(w.dir, "data"))
	run, line := w.run()
	w.readySays(line, ready)
	all := load()[:60]
	all[:20].publish(t, line.NATS)
	all[:20].await(t, line.NATS)
	full := filepath.Join(w.dir, "data", "full")
	fill(t, full)
	w.readySays(line, "the disk cannot be written") // before anything had to be written
	c := all[20:]
	c.publish(t, line.NATS) // as far as the disk allows
	w.readySays(line, "stores nothing")
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	w.readySays(line, ready)
	c.publish(t, line.NATS)
	c.await(t, line.NATS)
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("exit %d\n%s", code, run.stderr)
	}
	checkBooks(t, w, all.ids())
}

func smallDisk(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("perennial-test", dir, "tmpfs", 0, "size=32m,mode=0700")
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("the kernel lets this user mount no disk that could be full: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func fill(t testing.TB, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
}
