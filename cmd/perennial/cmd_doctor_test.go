package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// examined runs the doctor and gives its findings by name.
func examined(t *testing.T, w *world, wantCode int) map[string]finding {
	t.Helper()
	out, errs, code := w.cli("doctor", "-o", "json")
	if code != wantCode {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	found := map[string]finding{}
	for line := range strings.Lines(out) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		found[f.Check] = f
	}
	return found
}

// TestDoctor: everything is ok on a working machine, and what is not is named
// with what to do.
func TestDoctor(t *testing.T) {
	w := newWorld(t, 1)
	w.run()
	found := examined(t, w, 0)
	for _, check := range []string{"signature", "clock", "environment", "scope orders:read", "nats", "streams", "disk", "ledger"} {
		if !found[check].OK {
			t.Errorf("%s: %+v", check, found[check])
		}
	}
	w.control("POST", "/clock", []byte(`{"offset_seconds":120}`))
	if f := examined(t, w, exitFailed)["clock"]; f.OK || !strings.Contains(f.Do, "NTP") {
		t.Errorf("two minutes off: %+v", f)
	}
	w.control("POST", "/clock", []byte(`{"offset_seconds":3600}`))
	if f := examined(t, w, exitFailed)["clock"]; f.OK || !strings.Contains(f.Seen, "stale_timestamp") {
		t.Errorf("an hour off: %+v", f)
	}
	w.control("POST", "/clock", []byte(`{"offset_seconds":0}`))
	w.control("POST", "/keys", []byte(`{"app_id":"`+worldAppID+`","revoked":true}`))
	if f := examined(t, w, exitFailed)["signature"]; f.OK || !strings.Contains(f.Seen, "api_key_revoked") {
		t.Errorf("a revoked key: %+v", f)
	}
}
