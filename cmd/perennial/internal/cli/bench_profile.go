// The profiles of `perennial bench`.

package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// mutexFraction is how many contended locks stand for one in the profile: seldom enough
// to cost nothing that a measurement would show.
const mutexFraction = 100

// profiledPart runs a part of the runner under the profilers that were asked for.
func (b *bench) profiledPart(l load, do func() error) error {
	switch {
	case b.profiles != "":
		return b.profiledTo(l.name, do)
	case b.profile != "" && l.profiled:
		return cpuProfiled(b.profile, do)
	}
	return do()
}

// profiledTo writes all profiles of a part. What was allocated before it is in a file of
// its own, to be taken off: go tool pprof -base.
func (b *bench) profiledTo(part string, do func() error) error {
	if err := os.MkdirAll(b.profiles, 0o700); err != nil {
		return err
	}
	path := func(kind string) string { return filepath.Join(b.profiles, part+kind+".pprof") }
	if err := writeProfile("allocs", path("allocs-before")); err != nil {
		return err
	}
	before := runtime.SetMutexProfileFraction(mutexFraction)
	defer runtime.SetMutexProfileFraction(before)
	if err := cpuProfiled(path("cpu"), do); err != nil {
		return err
	}
	return errors.Join(writeProfile("allocs", path("allocs")), writeProfile("heap", path("heap")), writeProfile("mutex", path("mutex")))
}

// writeProfile writes one of the runtime's own profiles.
func writeProfile(name, path string) error {
	if name != "mutex" {
		runtime.GC() // allocations show in the profile behind the next collection
	}
	return outputs{}.write(path, 0o600, func(w io.Writer) error { return pprof.Lookup(name).WriteTo(w, 0) })
}

func cpuProfiled(path string, do func() error) error {
	return outputs{}.write(path, 0o600, func(w io.Writer) error {
		if err := pprof.StartCPUProfile(w); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		return do()
	})
}
