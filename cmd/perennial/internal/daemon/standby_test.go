package daemon

import (
	"strings"
	"testing"
	"time"
)

// A standby that does not advance is not ready, and neither is one whose account has no leader. A
// standby that lags but advances is ready.
func TestAStandbyThatStandsStillSaysSo(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		looks []standbyLook
		want  string
	}{
		"even":        {[]standbyLook{{at(0), 5, 5, true}, {at(60), 5, 5, true}}, ""},
		"coming on":   {[]standbyLook{{at(0), 5, 90, true}, {at(15), 6, 90, true}, {at(30), 7, 90, true}, {at(45), 8, 99, true}}, ""},
		"behind":      {[]standbyLook{{at(0), 5, 9, true}, {at(20), 5, 9, true}}, ""},
		"stands":      {[]standbyLook{{at(0), 5, 9, true}, {at(21), 5, 9, true}}, "not advanced past row 5 of 9 since 2026-01-02T12:00:00Z"},
		"none":        {[]standbyLook{{at(0), 5, 5, true}, {at(10), 5, 5, false}, {at(21), 5, 5, false}}, "no runner has held the account's lease since 2026-01-02T12:00:00Z"},
		"none, then":  {[]standbyLook{{at(0), 5, 5, true}, {at(21), 5, 5, false}, {at(26), 5, 5, true}}, ""},
		"never seen":  {[]standbyLook{{at(0), 0, 0, false}, {at(10), 0, 0, false}}, ""},
		"comes again": {[]standbyLook{{at(0), 5, 9, true}, {at(30), 5, 9, true}, {at(35), 6, 9, true}}, ""},
	} {
		var s standbyState
		for _, look := range c.looks {
			s.note(look)
		}
		if got := s.problem; (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	var s standbyState
	s.note(standbyLook{at(0), 5, 9, true})
	if lag := s.lag; lag != 4 {
		t.Errorf("it is %d rows behind, want 4", lag)
	}
}
