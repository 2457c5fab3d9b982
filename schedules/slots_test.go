package schedules

import (
	"testing"
	"time"
)

func calendarOf(t testing.TB, cron, zone string) Calendar {
	t.Helper()
	s := keepalive()
	s.Cron, s.Timezone = cron, zone
	c, err := s.Calendar()
	check(t, err)
	return c
}

func at(text string) time.Time {
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return parsed
}

func TestAnHourThatComesTwiceFiresOncePerInstant(t *testing.T) {
	c := calendarOf(t, "30 1 * * *", "America/New_York")
	slots, _ := c.Between(at("2026-10-31T12:00:00Z"), at("2026-11-02T12:00:00Z"))
	want(t, "slots", slots, []time.Time{at("2026-11-01T05:30:00Z"), at("2026-11-01T06:30:00Z"), at("2026-11-02T06:30:00Z")})
}

func TestAnHourThatDoesNotExistIsSkippedAndNothingHangs(t *testing.T) {
	c := calendarOf(t, "30 2 * * *", "America/New_York")
	slots, _ := c.Between(at("2026-03-07T12:00:00Z"), at("2026-03-09T12:00:00Z"))
	want(t, "slots", slots, []time.Time{at("2026-03-09T06:30:00Z")})
}

func TestSlotsFollowTheZoneOfTheSchedule(t *testing.T) {
	c := calendarOf(t, "0 9 * * *", "Asia/Tokyo")
	want(t, "next", c.Next(noon), at("2026-11-22T00:00:00Z"))
	if !c.Is(at("2026-11-22T00:00:00Z")) || c.Is(noon) {
		t.Fatal("Is does not know the calendar's slots")
	}
}

func TestEverySlotsStayWhereTheyAreAfterARestart(t *testing.T) {
	c := calendarOf(t, "@every 7m", "")
	first := c.Next(noon)
	for _, after := range []time.Duration{0, 1, time.Second, first.Sub(noon) - 1} {
		want(t, "next", c.Next(noon.Add(after)), first)
	}
	if first.Unix()%420 != 0 {
		t.Fatalf("%s is not aligned to the epoch", first)
	}
	want(t, "the one after", c.Next(first), first.Add(7*time.Minute))
}

func TestALongDowntimeIsBoundedAndEndsAtTheNewestSlot(t *testing.T) {
	c := calendarOf(t, "@every 1s", "")
	slots, more := c.Between(noon.AddDate(-2, 0, 0), noon)
	if !more || len(slots) > maxMissed+1 || len(slots) < maxMissed/2 || !slots[len(slots)-1].Equal(noon) {
		t.Fatalf("more %v, %d slots", more, len(slots))
	}
	burst := calendarOf(t, "* * * 1 1 *", "") // every second of one day of the year
	slots, more = burst.Between(at("2025-06-01T00:00:00Z"), noon)
	if !more || len(slots) == 0 || !slots[len(slots)-1].Equal(at("2026-01-01T23:59:59Z")) {
		t.Fatalf("more %v, %d slots", more, len(slots))
	}
}

func TestTheStartIsJitteredByAHashWithinItsBounds(t *testing.T) {
	hourly, quick := calendarOf(t, "@hourly", ""), calendarOf(t, "@every 10s", "")
	seen := map[time.Duration]bool{}
	for n := range 50 {
		slot := noon.Add(time.Duration(n) * time.Hour)
		late := hourly.Start(slot).Sub(slot)
		if late < 0 || late > 30*time.Second || late != hourly.Start(slot).Sub(slot) {
			t.Fatalf("%s after its slot", late)
		}
		seen[late] = true
		if late := quick.Start(slot).Sub(slot); late < 0 || late > time.Second {
			t.Fatalf("%s after a slot of every 10 s", late)
		}
	}
	if len(seen) < 25 {
		t.Fatalf("only %d different starts of 50", len(seen))
	}
}
