// Tests of the names of a runner.

package daemon

import (
	"os"
	"path/filepath"
	"strings"
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

// TestANodeKeepsItsName over a restart of the machine, and has one of its own where another
// goes by the same.
func TestANodeKeepsItsName(t *testing.T) {
	dir := t.TempDir()
	first, again := nodeOf(dir), nodeOf(dir+"/.")
	if first != again || first == nodeOf(t.TempDir()) {
		t.Errorf("one directory is the node %s and %s", first, again)
	}
	if holder := holderOf(dir); !strings.HasPrefix(holder, first+"-") {
		t.Errorf("the holder %s does not show that it is the node %s", holder, first)
	}
	own, other := Node{Node: "a", Holder: "a-1"}, Node{Node: "a", Holder: "a-2"}
	n := name{node: "a"}
	if n.note([]Node{other}, "a-1") || n.get() != "a" {
		t.Error("the word of the machine's last start took the name")
	}
	if n.note([]Node{{Node: "b", Holder: "b-1"}, own}, "a-1") || n.get() != "a" {
		t.Error("the runner's own word took the name")
	}
	if !n.note([]Node{other}, "a-1") || n.get() != "a-1" {
		t.Errorf("two runners are called %s", n.get())
	}
	if n.note([]Node{other, own}, "a-1") {
		t.Error("the name changed twice")
	}
}
