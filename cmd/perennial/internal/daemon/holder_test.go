package daemon

import (
	"os"
	"path/filepath"
	"testing"
)

// TestADirectoryHasOneHolder: and a copy of it, or what takes its place, has another.
func TestADirectoryHasOneHolder(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if first, again := holderOf(dir), holderOf(dir+"/."); first != again {
		t.Errorf("one directory is held by %s and %s", first, again)
	}
	if holderOf(dir) == holderOf(other) {
		t.Errorf("two directories are held by %s", holderOf(dir))
	}
	gone := filepath.Join(dir, "gone")
	if first, again := holderOf(gone), holderOf(gone); first == again {
		t.Error("a directory that cannot be read has a lasting holder")
	}
	if _, err := os.Stat(bootID); err != nil {
		t.Errorf("this machine has no %s", bootID)
	}
}
