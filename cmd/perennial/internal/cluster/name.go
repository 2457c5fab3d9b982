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

// bootID is a Linux file that differs for each boot and machine.
const bootID = "/proc/sys/kernel/random/boot_id"

// NodeOf names the runner of a data directory for people and for the placement: the
// machine and the directory's path. It survives a reboot, so that accounts given to the
// runner by an operator remain its own.
func NodeOf(dir string) string {
	path, err := filepath.Abs(dir)
	if err != nil {
		path = dir
	}
	return hostname() + "-" + digest(path)[:8]
}

// Name is the name by which other runners know a runner. If another runner uses the same
// name, this runner takes its unique holder name instead.
type Name struct {
	mu   sync.Mutex
	node string
	said bool // the runner's own message was heard
}

// Get returns the name.
func (n *Name) Get() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.node
}

// Set sets the name with which the runner begins.
func (n *Name) Set(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.node = node
}

// Note checks the last messages of all runners, and reports whether the name had to
// change because another holder overwrote the runner's own message. An earlier message
// is from the machine's last boot and expires.
func (n *Name) Note(all []Node, holder string) (changed bool) {
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

// HolderOf names the runner of a locked data directory as a lease holder. A restarted
// process gets the lease of its dead predecessor without waiting for its expiry. The
// name includes the boot and the directory's inode, so that a copy of the directory or
// machine is another holder. If these cannot be read, the name is unique to this
// process.
func HolderOf(dir string) string {
	boot, err := os.ReadFile(bootID)
	place, statErr := placeOf(dir)
	if err != nil || statErr != nil || len(bytes.TrimSpace(boot)) == 0 {
		return ProcessHolder()
	}
	return NodeOf(dir) + "-" + digest(strings.TrimSpace(string(boot)), place)[:16]
}

// digest returns a hash of the parts, in hexadecimal.
func digest(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, " "))))
}

// ProcessHolder returns a name unique to this process.
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

// placeOf returns the device and inode of a directory.
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
