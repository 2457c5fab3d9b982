//go:build check

// Runners with different clocks. A process cannot change the kernel's clock, so that it replaces
// its own time.Now at its start. shiftVariable says by how much.

package clustertest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// shiftVariable is the environment variable with the shift of a process's wall clock. The value is
// a duration for time.ParseDuration, in whole seconds.
const shiftVariable = "PERENNIAL_CLUSTERTEST_CLOCK"

// shifted replaces time.Now: shiftedBase plus the monotonic time since then. It must not call
// time.Now.
func shifted() time.Time { return shiftedBase.Add(time.Since(shiftedBase)) }

var shiftedBase time.Time

// clocksShift reports whether this architecture can shift clocks. Elsewhere all runners have the
// true time.
const clocksShift = runtime.GOARCH == "amd64"

// shiftClock shifts the wall clock of this process by shiftVariable. Durations and timers are not
// affected.
func shiftClock() error {
	text := os.Getenv(shiftVariable)
	if text == "" {
		return nil
	}
	by, err := time.ParseDuration(text)
	if err != nil || by%time.Second != 0 {
		return fmt.Errorf("%s=%s: not a number of seconds: %w", shiftVariable, text, err)
	}
	// Time.Add would shift the monotonic reading too. In a time with a monotonic reading, bits 30
	// to 62 of the first word are the wall seconds (package time).
	shiftedBase = time.Now()
	*(*uint64)(unsafe.Pointer(&shiftedBase)) += uint64(by/time.Second) << 30
	before := time.Now()
	if err := replace(time.Now, shifted); err != nil {
		return err
	}
	return shiftProblem(by, before)
}

// shiftProblem compares the shifted clock with the kernel's, and returns an error if it is wrong.
func shiftProblem(by time.Duration, before time.Time) error {
	var kernel syscall.Timeval
	if err := syscall.Gettimeofday(&kernel); err != nil {
		return err
	}
	const most = 10 * time.Second // a machine may stop for a while between two readings
	now := time.Now()
	off := now.Round(0).Sub(time.Unix(kernel.Unix())) - by
	if monotonic := now.Sub(before); off.Abs() > most || monotonic < 0 || monotonic > most || time.Since(now) > most {
		return fmt.Errorf("the clock was to be shifted by %s and is %s off; the monotonic one moved by %s", by, off, monotonic)
	}
	return nil
}

// replace makes every call of a function jump to another one of the same type. Nothing may call it
// meanwhile, and the compiler must not have inlined it: time.Now is too large for that.
func replace(old, by func() time.Time) error {
	if !clocksShift {
		return fmt.Errorf("clocks are not shifted on %s", runtime.GOARCH)
	}
	from, to := entry(old), entry(by)
	const size = 5 // JMP rel32
	distance := int64(uintptr(to)) - int64(uintptr(from)) - size
	page := uintptr(os.Getpagesize())
	into := uintptr(from) % page
	if distance != int64(int32(distance)) || into+size > page {
		return fmt.Errorf("no jump of %d bytes can be written at %p", distance, from)
	}
	whole := unsafe.Slice((*byte)(unsafe.Add(from, -int(into))), page)
	if err := syscall.Mprotect(whole, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC); err != nil {
		return fmt.Errorf("make the code of time.Now writable: %w", err)
	}
	jump := []byte{0xE9, byte(distance), byte(distance >> 8), byte(distance >> 16), byte(distance >> 24)}
	copy(whole[into:], jump)
	return syscall.Mprotect(whole, syscall.PROT_READ|syscall.PROT_EXEC)
}

func entry(f func() time.Time) unsafe.Pointer {
	return **(**unsafe.Pointer)(unsafe.Pointer(&f))
}

var mostShift = flag.Duration("cluster.clocks", 30*time.Second, "how far the clock of a runner may be from the true time, either way, in whole seconds. "+
	"The provider takes five minutes; a wait that another runner wrote lasts longer by the difference of the clocks, so do rounds")

// drawnShift draws the shift of one runner. One in four has the true time.
func drawnShift(random *rand.Rand) time.Duration {
	if random.IntN(4) == 0 {
		return 0
	}
	return time.Duration(random.IntN(2*int(*mostShift/time.Second)+1))*time.Second - mostShift.Truncate(time.Second)
}

// drawnShifts draws the shifts of a test's runners. A single runner has the true time, because no
// other clock differs from it.
func drawnShifts(t *testing.T, runners int) []time.Duration {
	random, out := seeded(t, "clocks"), make([]time.Duration, runners)
	if runners == 1 || !clocksShift {
		return out
	}
	for n := range out {
		out[n] = drawnShift(random)
	}
	t.Logf("clocks of the runners: %v", out)
	return out
}

// spread returns the largest difference between two runners' clocks.
func (r *rig) spread() time.Duration {
	least, most := time.Duration(0), time.Duration(0)
	for _, one := range r.runners {
		least, most = min(least, one.shift), max(most, one.shift)
	}
	return most - least
}

// setClock starts a stopped runner with another clock.
func (o *runner) setClock(random *rand.Rand) {
	o.rig.t.Helper()
	before := o.shift
	if clocksShift {
		o.shift = drawnShift(random)
	}
	o.rig.clocksWere = max(o.rig.clocksWere, (before - o.shift).Abs())
	o.rig.t.Logf("clock of runner %d: %s, before %s", o.n, o.shift, before)
	o.start()
}

// clock returns the environment that sets the runner's clock.
func (o *runner) clock() []string {
	if o.shift == 0 {
		return nil
	}
	return []string{shiftVariable + "=" + o.shift.String()}
}
