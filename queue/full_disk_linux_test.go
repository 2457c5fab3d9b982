package queue

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What was free when the server started is not its limit: behind a full disk it
// starts in very little room.
func TestAServerStartedInLittleRoomUsesRoomMadeLater(t *testing.T) {
	dir := t.TempDir()
	err := syscall.Mount("perennial-test", dir, "tmpfs", 0, "size=24m,mode=0700")
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("the kernel lets this user mount no disk that could be full: %v", err)
	}
	check(t, err)
	t.Cleanup(func() { check(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	full := filepath.Join(dir, "full")
	check(t, os.WriteFile(full, make([]byte, 23<<20), 0o600))
	server := startServer(t, filepath.Join(dir, "nats"))
	q := connect(t, server)
	check(t, q.EnsureStreams(within(t), "main", 1))
	check(t, os.Remove(full))
	for range 64 {
		check(t, q.PublishCommand(within(t), "main", KindProxyRenew, make([]byte, 128<<10)))
	}
}
