// The name under which a process holds the leases of its accounts.

package daemon

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
)

// bootID is a file of Linux that differs from one start of a machine to the next, and
// from machine to machine.
const bootID = "/proc/sys/kernel/random/boot_id"

// holderOf names the runner of a data directory, whose lock this process has: a process
// that is started again there has the lease of the one that died, and need not wait
// until it has run out. The name has the start of the machine and the directory's place
// in it, so that a copy of the directory, or of the machine, is another runner. Where
// that cannot be read, the name is of this process alone.
func holderOf(dir string) string {
	boot, err := os.ReadFile(bootID)
	place, statErr := placeOf(dir)
	if err != nil || statErr != nil || len(bytes.TrimSpace(boot)) == 0 {
		return ProcessHolder()
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(string(boot)) + " " + place))
	return fmt.Sprintf("%s-%x", hostname(), hash[:8])
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
