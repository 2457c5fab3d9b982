package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Another directory has another holder. A directory that cannot be read has a new holder each time.
func TestADirectoryHasOneHolder(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if first, again := HolderOf(dir), HolderOf(dir+"/."); first != again {
		t.Errorf("one directory is held by %s and %s", first, again)
	}
	if HolderOf(dir) == HolderOf(other) {
		t.Errorf("two directories are held by %s", HolderOf(dir))
	}
	gone := filepath.Join(dir, "gone")
	if first, again := HolderOf(gone), HolderOf(gone); first == again {
		t.Error("a directory that cannot be read has a lasting holder")
	}
	if _, err := os.Stat(bootID); err != nil {
		t.Errorf("this machine has no %s", bootID)
	}
}

// A node keeps its name over a restart of the machine. It gets its own name if another runner uses
// the same one.
func TestANodeKeepsItsName(t *testing.T) {
	dir := t.TempDir()
	first, again := NodeOf(dir), NodeOf(dir+"/.")
	if first != again || first == NodeOf(t.TempDir()) {
		t.Errorf("one directory is the node %s and %s", first, again)
	}
	if holder := HolderOf(dir); !strings.HasPrefix(holder, first+"-") {
		t.Errorf("the holder %s does not show that it is the node %s", holder, first)
	}
	own, other := Node{Node: "a", Holder: "a-1"}, Node{Node: "a", Holder: "a-2"}
	n := Name{node: "a"}
	if n.Note([]Node{other}, "a-1") || n.Get() != "a" {
		t.Error("the word of the machine's last start took the name")
	}
	if n.Note([]Node{{Node: "b", Holder: "b-1"}, own}, "a-1") || n.Get() != "a" {
		t.Error("the runner's own word took the name")
	}
	if !n.Note([]Node{other}, "a-1") || n.Get() != "a-1" {
		t.Errorf("two runners are called %s", n.Get())
	}
	if n.Note([]Node{other, own}, "a-1") {
		t.Error("the name changed twice")
	}
}
