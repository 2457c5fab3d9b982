// What the process of `perennial bench` uses: time, CPU, allocations, memory.

package cli

import (
	"runtime"
	"sync"
	"syscall"
	"time"
)

// consumed is what this process had used at an instant.
type consumed struct {
	at        time.Time
	cpuMicros int64
	mallocs   uint64
}

func usedNow() consumed {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return consumed{at: time.Now(), cpuMicros: cpuMicros(), mallocs: m.Mallocs}
}

// resources is what this process has used so far; zero where the system does not say.
func resources() (used syscall.Rusage) {
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used
}

// cpuMicros is the CPU time of this process, user and system.
func cpuMicros() int64 {
	used := resources()
	return used.Utime.Nano()/1000 + used.Stime.Nano()/1000
}

// peakMemory is the largest resident size of this process, in bytes.
func peakMemory() int64 { return resources().Maxrss << 10 }

// firstTaken notes what the process has used when the runner takes its first command.
type firstTaken struct {
	once sync.Once
	at   chan consumed
}

func (f *firstTaken) reached(point string) {
	if point == "intake.delivered" {
		f.once.Do(func() { f.at <- usedNow() })
	}
}
