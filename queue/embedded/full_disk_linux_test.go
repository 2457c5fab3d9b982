package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/publish"
	"perennial/queue/streams"
)

// The free space at the server's start is not its limit: after a full disk it starts with
// very little room.
func TestAServerStartedInLittleRoomUsesRoomMadeLater(t *testing.T) {
	dir := t.TempDir()
	err := syscall.Mount("perennial-test", dir, "tmpfs", 0, "size=24m,mode=0700")
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("the kernel lets this user mount no disk that could be full: %v", err)
	}
	natstest.Check(t, err)
	t.Cleanup(func() { natstest.Check(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	full := filepath.Join(dir, "full")
	natstest.Check(t, os.WriteFile(full, make([]byte, 23<<20), 0o600))
	server := start(t, filepath.Join(dir, "nats"))
	q := connect(t, server)
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), q.JetStream()))
	natstest.Check(t, os.Remove(full))
	for range 64 {
		natstest.Check(t, publish.New(q.JetStream()).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindProxyRenew, Data: make([]byte, 128<<10)}))
	}
}
