package plans

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
)

func TestAScheduleThatCannotWorkIsRefusedByField(t *testing.T) {
	for field, spoil := range map[string]func(*Schedule){
		"name":               func(s *Schedule) { s.Name = "Keep Alive" },
		"account":            func(s *Schedule) { s.Account = "" },
		"cron":               func(s *Schedule) { s.Cron = "61 * * * *" },
		"cron \"30 2 30 2":   func(s *Schedule) { s.Cron = "30 2 30 2 *" }, // never comes
		"cron \"@every -":    func(s *Schedule) { s.Cron = "@every -5m" },
		"cron \"TZ=UTC":      func(s *Schedule) { s.Cron = "TZ=UTC * * * * *" },
		"cron \"*/90":        func(s *Schedule) { s.Cron = "*/90 * * * *" },
		"use @every 36h":     func(s *Schedule) { s.Cron = "0 */36 * * *" },
		"*/13 in months":     func(s *Schedule) { s.Cron = "0 0 1 */13 *" },
		"above maximum":      func(s *Schedule) { s.Cron = "0 3 * * 8" },
		"timezone":           func(s *Schedule) { s.Timezone = "Mars/Olympus" },
		"timezone \"Local\"": func(s *Schedule) { s.Timezone = "Local" },
		"renew_before":       func(s *Schedule) { s.RenewBefore = 0 },
		"duration_days":      func(s *Schedule) { s.DurationDays = 45 },
		"duration_days is 1": func(s *Schedule) { s.DurationDays = 1110 },
		"budget_cents":       func(s *Schedule) { s.BudgetCents = -1 },
		"chunk":              func(s *Schedule) { s.Chunk = 101 },
	} {
		s := keepalive()
		spoil(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

func TestTheSpellingsOfACronAreAccepted(t *testing.T) {
	for _, spelling := range []string{"*/15 * * * *", "30 */15 * * * *", "@hourly", "@daily", "@every 90s", "0 9 * * MON-FRI"} {
		s := keepalive()
		s.Cron, s.Timezone, s.DurationDays = spelling, "America/New_York", 1080
		check(t, s.Validate())
	}
}

// Operating systems' cron accepts 7 for Sunday.
func TestSundayIsSevenToo(t *testing.T) {
	for seven, zero := range map[string]string{
		"0 3 * * 7": "0 3 * * 0", "0 3 * * 5-7": "0 3 * * 5,6,0", "0 3 * * 1-7/2": "0 3 * * 1,3,5,0", "30 0 3 * * 2,7": "30 0 3 * * 2,0",
		"0 3 * * 0-7": "0 3 * * 0-6", "0 3 1 * 7": "0 3 1 * 0", "*/60 * * * *": "0 * * * *",
	} {
		if a, b := calendarOf(t, seven, "UTC"), calendarOf(t, zero, "UTC"); !reflect.DeepEqual(a.spec, b.spec) {
			t.Errorf("%s is not %s", seven, zero)
		}
	}
}

func TestTrap11ALeadTimeNotShorterThanTheDurationIsRefused(t *testing.T) {
	for before, works := range map[time.Duration]bool{30*fact.Day - time.Second: true, 30 * fact.Day: false, 31 * fact.Day: false} {
		s := keepalive()
		s.RenewBefore = before
		if err := s.Validate(); (err == nil) != works {
			t.Errorf("renew_before %s: error %v", before, err)
		}
	}
}
