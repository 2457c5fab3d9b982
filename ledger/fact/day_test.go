package fact

import (
	_ "embed"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones of the list must exist on every machine

	"perennial/ledger/testrun"
)

//go:embed testdata/zones.txt
var zones string

// The test covers every day of two years in every zone of the tz database; the larger run
// covers ten years.
func TestTrap51DaysFollowOneAnotherInEveryZone(t *testing.T) {
	count, until := 0, time.Date(2022, 1, 1, 0, 0, 0, 0, time.UTC)
	if testrun.Check {
		until = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	for name := range strings.Lines(zones) {
		zone, err := time.LoadLocation(strings.TrimSpace(name))
		if err != nil {
			t.Fatal(err)
		}
		count++
		checkDays(t, zone, time.Date(2019, 12, 31, 12, 0, 0, 0, time.UTC), until)
	}
	if count < 500 {
		t.Fatalf("%d zones", count)
	}
}

func checkDays(t *testing.T, zone *time.Location, from, until time.Time) {
	t.Helper()
	for at := StartOfDay(from, zone); at.Before(until); {
		next := NextDay(at, zone)
		length := next.Sub(at)
		if length < 20*time.Hour || length > 50*time.Hour || at.In(zone).Day() == next.In(zone).Day() {
			t.Fatalf("%s: the day of %s takes %s", zone, at.In(zone), length)
		}
		insides := []time.Time{at, next.Add(-time.Nanosecond)}
		if length != 24*time.Hour {
			insides = append(insides, at.Add(time.Second), at.Add(time.Hour), at.Add(length/2), next.Add(-time.Hour))
		}
		for _, inside := range insides {
			if begin, end := StartOfDay(inside, zone), NextDay(inside, zone); !begin.Equal(at) || !end.Equal(next) {
				t.Fatalf("%s: %s is of the day from %s to %s, want %s to %s", zone, inside.In(zone), begin.In(zone), end.In(zone), at.In(zone), next.In(zone))
			}
		}
		month := StartOfMonth(at, zone)
		if month.After(at) || at.Sub(month) > 31*24*time.Hour || !StartOfDay(month, zone).Equal(month) {
			t.Fatalf("%s: the month of %s begins %s", zone, at.In(zone), month.In(zone))
		}
		at = next
	}
}

func TestTrap51MidnightThatDoesNotExist(t *testing.T) {
	for _, c := range []struct{ zone, now, start, next string }{
		{"America/Santiago", "2026-09-05T23:30:00-04:00", "2026-09-05T00:00:00-04:00", "2026-09-06T01:00:00-03:00"},
		{"America/Havana", "2026-03-08T12:00:00-04:00", "2026-03-08T01:00:00-04:00", "2026-03-09T00:00:00-04:00"},
		{"Atlantic/Azores", "2026-10-25T00:30:00-01:00", "2026-10-25T00:00:00Z", "2026-10-26T00:00:00-01:00"},
		{"Asia/Kathmandu", "2026-01-01T00:00:00+05:45", "2026-01-01T00:00:00+05:45", "2026-01-02T00:00:00+05:45"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		read := func(text string) time.Time {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		now := read(c.now)
		if got := StartOfDay(now, zone); !got.Equal(read(c.start)) {
			t.Errorf("%s: the day of %s began %s, want %s", c.zone, c.now, got.In(zone), c.start)
		}
		if got := NextDay(now, zone); !got.Equal(read(c.next)) {
			t.Errorf("%s: the day after %s begins %s, want %s", c.zone, c.now, got.In(zone), c.next)
		}
	}
	toronto, err := time.LoadLocation("America/St_Johns") // the clock went from 00:01 back to 23:01
	if err != nil {
		t.Fatal(err)
	}
	for at := time.Date(2010, 11, 6, 0, 0, 0, 0, time.UTC); at.Before(time.Date(2010, 11, 9, 0, 0, 0, 0, time.UTC)); at = at.Add(time.Minute) {
		begin, end := StartOfDay(at, toronto), NextDay(at, toronto)
		if begin.After(at) || !end.After(at) || !StartOfDay(end.Add(-time.Second), toronto).Equal(begin) {
			t.Fatalf("%s is of the day from %s to %s", at.In(toronto), begin.In(toronto), end.In(toronto))
		}
	}
}
