package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The error says once which directory lacks how much, and the ledger is unchanged.
func TestAnArchiveThatFindsNoRoomSaysWhere(t *testing.T) {
	t.Parallel()
	small := t.TempDir()
	err := syscall.Mount("perennial-test", small, "tmpfs", 0, "size=128k,mode=0700")
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("the kernel lets this user mount no disk that could be full: %v", err)
	}
	check(t, err)
	t.Cleanup(func() { check(t, syscall.Unmount(small, syscall.MNT_DETACH)) })
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), append(history(), over()...)...)
	check(t, b.Close())
	before, err := os.ReadFile(b.path)
	check(t, err)
	x := archiveOf(t, b.path, 40)
	x.Dir = small
	_, err = x.Run(t.Context())
	full, ok := errors.AsType[*NoRoomError](err)
	if !ok || full.Dir != small || full.Takes <= full.Free || strings.Count(err.Error(), "\n") != 2 || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("%v", err)
	}
	after, err := os.ReadFile(b.path)
	left, listed := os.ReadDir(small)
	if err := errors.Join(err, listed); err != nil || string(before) != string(after) || len(left) > 0 {
		t.Errorf("the ledger is the same: %t, left behind: %v, %v", string(before) == string(after), left, err)
	}
	x.Dir = t.TempDir()
	if _, err := x.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
