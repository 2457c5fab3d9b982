package plans

import (
	"strings"
	"testing"
)

func TestReplaceIsCheckedWithTheConfiguration(t *testing.T) {
	for _, r := range []Replace{{Enabled: true}, {MaxCents: -1}, {Enabled: true, MaxCents: 1, After: 6}, {Enabled: true, MaxCents: 1, PerDay: -1}} {
		s := keepalive()
		s.Replace = r
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "replace") {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
