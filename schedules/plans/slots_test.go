package plans

import (
	"strings"
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

func TestAnHourThatComesTwiceFiresOnce(t *testing.T) {
	for cron, want := range map[string][]string{
		"30 1 * * *": {"2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"},
		"0 1,2 * * *": {
			"2026-11-01T05:00:00Z", "2026-11-01T07:00:00Z", "2026-11-02T06:00:00Z", "2026-11-02T07:00:00Z",
		},
		"45 59 1 * * *": {"2026-11-01T05:59:45Z", "2026-11-02T06:59:45Z"},
	} {
		wantSlots(t, calendarOf(t, cron, "America/New_York"), "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z", want)
	}
}

func TestAnHourThatDoesNotExistFiresAtItsEnd(t *testing.T) {
	for cron, want := range map[string][]string{
		"30 2 * * *":     {"2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"},
		"*/20 2 * * *":   {"2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z", "2026-03-09T06:20:00Z", "2026-03-09T06:40:00Z"},
		"30 2 8 3 *":     {"2026-03-08T07:00:00Z"},
		"0,30 2,3 * * 0": {"2026-03-08T07:00:00Z", "2026-03-08T07:30:00Z"},
		"59 59 1 8 3 *":  {"2026-03-08T06:59:59Z"},
		"0 0 3 8 3 *":    {"2026-03-08T07:00:00Z"},
	} {
		wantSlots(t, calendarOf(t, cron, "America/New_York"), "2026-03-07T12:00:00Z", "2026-03-09T12:00:00Z", want)
	}
	wantSlots(t, calendarOf(t, "0 0 * * *", "America/Santiago"), "2026-09-05T12:00:00Z", "2026-09-07T12:00:00Z", // midnight does not exist
		[]string{"2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"})
	wantSlots(t, calendarOf(t, "0 9 * * *", "Pacific/Apia"), "2011-12-29T12:00:00Z", "2012-01-01T12:00:00Z", // a whole day does not exist
		[]string{"2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z", "2011-12-31T19:00:00Z"})
}

func TestHourlySlotsFollowElapsedTime(t *testing.T) {
	c := calendarOf(t, "*/30 * * * *", "America/New_York")
	for _, day := range []string{"2026-11-01", "2026-03-08", "2026-06-01"} {
		slots, _ := c.Between(at(day+"T03:00:00Z"), at(day+"T10:00:00Z"))
		want(t, "slots in seven hours", len(slots), 14)
	}
}

// The test walks through a year in a zone whose clock changes by half an hour.
func TestSlotsAreTheSameFromWhereverOneLooks(t *testing.T) {
	c := calendarOf(t, "*/10 1,2 * * *", "Australia/Lord_Howe")
	var all []time.Time
	for slot := c.Next(at("2026-01-01T00:00:00Z")); slot.Year() == 2026; slot = c.Next(slot) {
		all = append(all, slot)
	}
	want(t, "slots of a year: three fewer when the clock goes forward", len(all), 365*12-3)
	for i, slot := range all[1:] {
		for _, before := range []time.Duration{1, time.Second, slot.Sub(all[i])} {
			want(t, "next", c.Next(slot.Add(-before)), slot)
		}
		if !c.Is(slot) {
			t.Fatalf("%s is not one of its own slots", slot)
		}
	}
}

func wantSlots(t *testing.T, c Calendar, from, to string, expected []string) {
	t.Helper()
	slots, _ := c.Between(at(from), at(to))
	texts := make([]string, 0, len(slots))
	for _, s := range slots {
		texts = append(texts, s.Format(time.RFC3339))
	}
	want(t, "slots", texts, expected)
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

func TestALongDowntimeIsBoundedAtTheNewestSlot(t *testing.T) {
	c := calendarOf(t, "@every 1s", "")
	slots, more := c.Between(noon.AddDate(-2, 0, 0), noon)
	if !more || len(slots) > MaxMissed+1 || len(slots) < MaxMissed/2 || !slots[len(slots)-1].Equal(noon) {
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

// A day whose clock is set forward at midnight has no midnight. An hourly schedule of that day
// still runs in its other hours.
func TestAnHourlyDayWithoutAMidnightHasItsSlots(t *testing.T) {
	for _, c := range []struct {
		cron, zone, from, to string
		slots                []string
	}{
		{"0 * 24 4 *", "Africa/Cairo", "2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z", hours("2026-04-23T22:00:00Z", 23)}, // Friday begins at 01:00
		{"0 * * * 5", "Africa/Cairo", "2026-04-22T00:00:00Z", "2026-04-27T00:00:00Z", hours("2026-04-23T22:00:00Z", 23)},
		{"0 * * * 0", "Asia/Beirut", "2026-03-27T00:00:00Z", "2026-04-01T00:00:00Z", hours("2026-03-28T22:00:00Z", 23)},
		{"0 * 25 10 *", "Europe/Berlin", "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z", hours("2026-10-24T22:00:00Z", 25)}, // an hour comes twice
		{"0 * 1 1 *", "Asia/Kathmandu", "2026-01-01T00:00:00Z", "2026-12-01T00:00:00Z", hours("2026-01-01T00:15:00Z", 18)},
	} {
		wantSlots(t, calendarOf(t, c.cron, c.zone), c.from, c.to, c.slots)
	}
}

// An hourly schedule has one slot in each hour of a year, from every starting point.
func TestHourlySlotsOfAYearAreOneEachHour(t *testing.T) {
	for _, zone := range []string{"Africa/Cairo", "Asia/Beirut", "Europe/Berlin", "America/Santiago", "UTC"} {
		c, slot := calendarOf(t, "0 * * * *", zone), at("2026-01-01T00:00:00Z")
		for slot.Year() == 2026 {
			next := c.Next(slot)
			if next.Sub(slot) != time.Hour || !c.Next(next.Add(-time.Second)).Equal(next) || !c.Is(next) {
				t.Fatalf("%s: %s after %s", zone, next, slot)
			}
			slot = next
		}
	}
}

func TestRenewBeforeUnderTheLongestDistanceOfTwoSlotsIsWarnedOf(t *testing.T) {
	for _, c := range []struct {
		cron, zone string
		before     time.Duration
		says       string
	}{
		{"0 3 * * *", "UTC", 24 * time.Hour, ""},
		{"0 3 * * *", "UTC", 12 * time.Hour, "no run comes between Sun 2026-11-22 03:00 UTC and Mon 2026-11-23 03:00 UTC: a proxy that becomes due after the first may expire before the second, 24h0m0s later"},
		{"0 3 * * *", "Europe/Berlin", 24 * time.Hour, "between Sat 2027-10-30 03:00 CEST and Sun 2027-10-31 03:00 CET"},
		{"*/15 * * * 1-5", "UTC", 48 * time.Hour, "between Fri 2026-11-27 23:45 UTC and Mon 2026-11-30 00:00 UTC"},
		{"*/15 * * * 1-5", "UTC", 72 * time.Hour, ""},
		{"* * * 1-6 *", "UTC", 720 * time.Hour, "between Wed 2027-06-30 23:59 UTC and Sat 2028-01-01 00:00 UTC"},
		{"* * * * *", "UTC", time.Minute, ""},
		{"* * * * * *", "UTC", time.Hour, ""},
		{"@every 2h", "UTC", time.Hour, "2h0m0s later"},
		{"0 0 29 2 *", "UTC", 720 * time.Hour, "and Tue 2028-02-29 00:00 UTC"},
	} {
		s := keepalive()
		s.Cron, s.Timezone, s.RenewBefore = c.cron, c.zone, c.before
		if late := s.Late(noon); (late == "") != (c.says == "") || !strings.Contains(late, c.says) {
			t.Errorf("%s in %s, %s before: %q", c.cron, c.zone, c.before, late)
		}
	}
}

func hours(from string, n int) (all []string) {
	for i := range n {
		all = append(all, at(from).Add(time.Duration(i)*time.Hour).Format(time.RFC3339))
	}
	return all
}
