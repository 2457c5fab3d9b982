package main

import (
	"strings"
	"testing"
)

// TestACeilingOfNothingIsRefusedOnEveryPath: a 0 that a script computed wrong
// bought without a ceiling.
func TestACeilingOfNothingIsRefusedOnEveryPath(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	w.write("zero.csv", "id,duration_days,offer_code,quantity,max_total_cents\nz,30,off_us_1,1,0\n", 0o600)
	w.write("zero.jsonl", `{"id":"z","duration_days":30,"proxy_ids":["px_1"],"max_total_cents":0}`, 0o600)
	const says = "max_total_cents is 0 and must be at least 1: leave it out for no ceiling"
	for _, args := range []string{
		"order --item off_us_1=1 --max-total-cents 0", "renew px_1 --max-total-cents 0", "renew px_1 --max-total-cents=0",
		"submit zero.csv", "submit zero.jsonl",
	} {
		if _, errs, code := w.cli(strings.Fields(args)...); code != exitUsage || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d %s", args, code, errs)
		}
	}
	for _, args := range []string{"order --item off_us_1=1", "renew px_1"} { // a default is no ceiling of 0
		if _, errs, code := w.cli(strings.Fields(args)...); code != exitUnreachable {
			t.Errorf("%s: exit %d %s", args, code, errs)
		}
	}
}
