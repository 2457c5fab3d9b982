package sleep

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestABackoffGrowsToItsBoundAndBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, began := Doubling(time.Second, 5*time.Second), time.Now()
		var waits []time.Duration
		for range 4 {
			waits = append(waits, b.Next())
		}
		if !slices.Equal(waits, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second}) {
			t.Errorf("%v", waits)
		}
		b.Reset()
		if err := b.Wait(t.Context()); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		by := Growing(time.Second, 2*time.Second)
		for range 20 {
			if d := by.Next(); d < time.Second/2 || d > 3*time.Second {
				t.Errorf("%s", d)
			}
		}
	})
}
