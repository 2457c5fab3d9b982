package plans

import (
	"testing"
	"time"
)

func TestADurationLosesNoDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		24 * time.Hour: "1 day", 72 * time.Hour: "3 days", 36 * time.Hour: "36h", 90 * time.Minute: "1h30m", 100*time.Hour + 30*time.Minute: "100h30m",
		10 * time.Minute: "10m", time.Minute: "1m", 30 * time.Second: "30s", 90 * time.Second: "1m30s", 10 * time.Hour: "10h",
	} {
		if got := daysOf(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
