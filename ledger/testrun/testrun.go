// Package testrun says whether this is the larger run of the tests, and prepares the
// process of a package's tests. Only tests import it.
//
// `go test ./...` is for every developer and takes two minutes. `go test -tags check` is
// the larger run of `make check`. Tests that take long, or need a tool such as Chromium,
// have the build constraint `check`. A test whose size is a number uses Check.
package testrun

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"go.uber.org/goleak"
)

// Main is the TestMain of a package whose tests start no processes. It calls Prepare, runs
// the tests, and fails if goroutines are left at the end. It does not return.
func Main(m goleak.TestingM, options ...goleak.Option) {
	remove := Prepare()
	goleak.VerifyTestMain(m, append(options, goleak.IgnoreTopFunction(neverStarted), goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))...)
}

// neverStarted is a goroutine of nats.go that waits forever if the Put of an object ends before
// the goroutine reads the channel that it waits on. A connection that is not closed leaves other
// goroutines too.
const neverStarted = "github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"

// Prepare makes this process, and its children, cheaper to run many times. The processes collect
// garbage less often, which saves a fifth of the CPU time of a short process. They keep temporary
// files in memory. The returned function removes these files. Prepare does not override GOGC and
// TMPDIR from the environment.
func Prepare() (remove func()) {
	if os.Getenv("GOGC") == "" && os.Setenv("GOGC", strconv.Itoa(gcPercent)) == nil {
		debug.SetGCPercent(gcPercent)
	}
	return inMemory()
}

const (
	gcPercent = 400

	memory    = "/dev/shm" // where Linux keeps files in memory
	leastFree = 2 << 30    // required free bytes there
	prefix    = "perennial-tests-"
)

// inMemory sets TMPDIR to a directory in memory, if there is room. A sync takes no time there,
// and kill -9 loses no more than on a disk. disktest covers power cuts and failing disks, and
// `make check` runs the processes on a disk.
func inMemory() (remove func()) {
	var disk syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memory, &disk) != nil || disk.Bavail*uint64(disk.Bsize) < leastFree {
		return func() {}
	}
	removeAbandoned()
	dir, err := os.MkdirTemp(memory, prefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil || os.Setenv("TMPDIR", dir) != nil {
		return func() {}
	}
	return func() { _ = os.RemoveAll(dir) }
}

// removeAbandoned removes the directories of test runs that were killed. A directory's name
// contains the process id.
func removeAbandoned() {
	dirs, _ := filepath.Glob(filepath.Join(memory, prefix+"*"))
	for _, dir := range dirs {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if pid, err := strconv.Atoi(text); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = os.RemoveAll(dir)
		}
	}
}
