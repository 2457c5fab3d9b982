package fact

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
)

var anInstant = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^"]*"`)

// Only the format of instants may differ, because hashes and consumers depend on each byte.
func TestAFactIsEncodedAsByTheStandardLibrary(t *testing.T) {
	all := samples(t)
	all["odd texts"] = CommandHeld{Reason: "ab\u2028<&>\x00\"\\\t\u007f\U0001f600"}
	for name, f := range all {
		data, err := encoded(f)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		if err := e.Encode(f); err != nil {
			t.Fatal(err)
		}
		want := anInstant.ReplaceAllString(strings.TrimSpace(text.String()), "T")
		if got := anInstant.ReplaceAllString(string(data), "T"); got != want {
			t.Errorf("%s\n%s\n%s", name, got, want)
		}
		for _, at := range anInstant.FindAllString(string(data), -1) {
			if _, err := time.Parse(instantFormat, at); err != nil || len(at) != len(instantFormat) {
				t.Errorf("%s has the instant %s", name, at)
			}
		}
	}
}

func TestInstantsHaveOnePrecision(t *testing.T) {
	zone := time.FixedZone("", 3600)
	for want, at := range map[string]time.Time{
		`"2026-11-21T11:00:00.000000Z"`: time.Date(2026, 11, 21, 12, 0, 0, 0, zone),
		`"2026-11-21T12:00:00.500000Z"`: time.Date(2026, 11, 21, 12, 0, 0, 500_000_000, time.UTC),
		`"2026-11-21T12:00:00.123456Z"`: time.Date(2026, 11, 21, 12, 0, 0, 123_456_789, time.UTC),
		`"0001-01-01T00:00:00.000000Z"`: {},
	} {
		var text bytes.Buffer
		if err := Encode(&text, at); err != nil || text.String() != want {
			t.Errorf("%s: %s %v", want, &text, err)
		}
	}
	if err := Encode(&bytes.Buffer{}, time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)); err == nil {
		t.Error("the year 10000 is written")
	}
}
