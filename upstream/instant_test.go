package upstream_test

import "testing"

// An instant that is valid with its offset may be in the year -1 or 10000 in UTC. It becomes the
// nearest instant that tables, events and pages can show.
func TestAnInstantOutsideTheYearsIsTheNearestInside(t *testing.T) {
	for said, want := range map[string]string{
		"0000-01-01T00:00:00+08:00": "0000-01-01T00:00:00Z",
		"0001-01-01T00:00:00+08:00": "0000-12-31T16:00:00Z",
		"9999-12-31T23:59:59-08:00": "9999-12-31T23:59:59.999999Z",
		"9999-12-31T23:59:59Z":      "9999-12-31T23:59:59Z",
	} {
		p, err := getting(t, `{"proxy_id":"px_1","expires_at":"`+said+`"}`).Proxy(t.Context(), "px_1")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.ExpiresAt.MarshalText(); err != nil || string(got) != want {
			t.Errorf("%s is read as %s (%v)", said, got, err)
		}
	}
}
