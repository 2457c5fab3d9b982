// The names of a runner: as a node, and as a lease holder.

package cluster

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

// bootID is a Linux file whose content differs for each boot of each machine.
const bootID = "/proc/sys/kernel/random/boot_id"

// NodeOf returns the node name of the runner that uses a data directory: the host name and a
// hash of the directory's path. The name survives a reboot, so an account that an operator
// pinned to the runner stays pinned.
func NodeOf(dir string) string {
	path, err := filepath.Abs(dir)
	if err != nil {
		path = dir
	}
	return hostname() + "-" + digest(path)[:8]
}

// Name is a runner's node name. If another runner uses the same node name, this runner takes
// its unique holder name instead.
type Name struct {
	mu        sync.Mutex
	node      string
	heardSelf bool // this runner has received its own heartbeat
}

// Get returns the name.
func (n *Name) Get() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.node
}

// Set sets the initial name.
func (n *Name) Set(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.node = node
}

// Note checks the last heartbeats of all runners. If another runner has overwritten this
// runner's heartbeat, Note changes the name and returns true. Until this runner has received
// its own first heartbeat, Note ignores heartbeats with another holder. They are left from
// the machine's previous boot and expire.
func (n *Name) Note(all []Node, holder string) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range all {
		switch {
		case x.Node != n.node || x.Holder == "":
		case x.Holder == holder:
			n.heardSelf = true
		case n.heardSelf:
			n.node = holder
			return true
		}
	}
	return false
}

// HolderOf returns the lease holder name of the runner that has locked a data directory. A
// restarted process has the name of its dead predecessor, so it gets the lease without waiting
// for the lease to expire. The name depends on the boot and on the directory's inode. A copy
// of the directory or of the machine therefore has another name. If the boot or the inode
// cannot be read, the name is unique to this process.
func HolderOf(dir string) string {
	boot, err := os.ReadFile(bootID)
	place, statErr := inodeOf(dir)
	if err != nil || statErr != nil || len(bytes.TrimSpace(boot)) == 0 {
		return ProcessHolder()
	}
	return NodeOf(dir) + "-" + digest(strings.TrimSpace(string(boot)), place)[:16]
}

// digest returns a hash of the parts, in hexadecimal.
func digest(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, " "))))
}

// ProcessHolder returns a lease holder name that is unique to this process.
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

// inodeOf returns the device and inode of a directory.
func inodeOf(dir string) (string, error) {
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
