// The names of a runner: as a node, and as the holder of leases.

package daemon

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// bootID is a file of Linux that differs from one start of a machine to the next, and
// from machine to machine.
const bootID = "/proc/sys/kernel/random/boot_id"

// nodeOf names the runner of a data directory for people and for the placement of
// accounts: the machine, and the directory's path on it. It stays over a restart of the
// machine, so that what a person has given to the runner remains its own.
func nodeOf(dir string) string {
	path, err := filepath.Abs(dir)
	if err != nil {
		path = dir
	}
	return hostname() + "-" + digest(path)[:8]
}

// name is a runner's name among the others. Where another runner goes by the same one,
// it becomes the name of the holder, which no two runners have.
type name struct {
	mu   sync.Mutex
	node string
	said bool // the runner's own word was heard
}

func (n *name) get() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.node
}

// note looks at what all runners said last. It reports whether the name had to change:
// another holder has written over the runner's own word. A word from before that is of
// the machine's last start, and runs out.
func (n *name) note(all []Node, holder string) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range all {
		switch {
		case x.Node != n.node || x.Holder == "":
		case x.Holder == holder:
			n.said = true
		case n.said:
			n.node = holder
			return true
		}
	}
	return false
}

// holderOf names the runner of a data directory, whose lock this process has, as the
// holder of leases: a process that is started again there has the lease of the one that
// died, and need not wait until it has run out. After the node's name stand the start of
// the machine and the directory's place in it, so that a copy of the directory, or of the
// machine, is another holder. Where that cannot be read, the name is of this process alone.
func holderOf(dir string) string {
	boot, err := os.ReadFile(bootID)
	place, statErr := placeOf(dir)
	if err != nil || statErr != nil || len(bytes.TrimSpace(boot)) == 0 {
		return ProcessHolder()
	}
	return nodeOf(dir) + "-" + digest(strings.TrimSpace(string(boot)), place)[:16]
}

// digest is a hash of the parts, in hexadecimal.
func digest(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, " "))))
}

// ProcessHolder names this process and no other.
func ProcessHolder() string {
	return fmt.Sprintf("%s-%d-%08x", hostname(), os.Getpid(), rand.Uint32())
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// placeOf is the device and the inode of a directory.
func placeOf(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s has no inode", dir)
	}
	return fmt.Sprint(stat.Dev, " ", stat.Ino), nil
}
