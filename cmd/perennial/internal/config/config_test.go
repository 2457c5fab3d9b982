package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestTrap25AmbiguousNumbersAndTimesAreRefused: a limit of
// 0.99 is not "no limit", and 72 without a unit is not 72 nanoseconds.
func TestTrap25AmbiguousNumbersAndTimesAreRefused(t *testing.T) {
	for _, c := range []struct{ account, schedule, says string }{
		{"daily_limit_cents: 0.99", "renew_before: 72h", "0.99 is not a whole number"},
		{"daily_limit_cents: 5", "renew_before: 72h, budget_cents: 12.5", "12.5 is not a whole number"},
		{"daily_limit_cents: 5", "renew_before: 72h, budget_cents: 99999999999999999999", "is not a whole number"},
		{"daily_limit_cents: 5", "renew_before: 72h, replace: {enabled: true, max_cents: 4.5}", "4.5 is not a whole number"},
		{"daily_limit_cents: 5", "renew_before: 72", "72 has no unit: write it as 72h or 72s"},
		{"daily_limit_cents: 5", "renew_before: 3d", `"3d" is not a time: write it as 72h, 15m or 30s`},
		{"daily_limit_cents: 5", "renew_before: 30s", "renew_before is 30s"},
		{"reconcile_every: 1", "renew_before: 72h", "1 has no unit"},
		{"warn_before: [24]", "renew_before: 72h", "24 has no unit"},
		{"daily_limit_cents: 5", "schedules: []", `line 3 or 4: "schedules" is a key of the configuration, and not one of this place in it`},
		{"daily_limit_cents: 5", "renew_before: 72h, budget_cent: 5", `line 4: "budget_cent" is no key of the configuration, did you mean "budget_cents"?`},
	} {
		_, err := Load(configOf(t, c.account, c.schedule))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %s: %v", c.account, c.schedule, err)
		}
	}
	good, err := Load(configOf(t, "rate_per_second: 0.5", "renew_before: 72h, budget_cents: 1000"))
	if err != nil || good.Schedules[0].BudgetCents != 1000 || good.Accounts["main"].RatePerSecond != 0.5 {
		t.Errorf("%+v %v", good, err)
	}
}

// TestTrap25OnlyPlainDigitsAreWholeNumbers writes every whole number that the
// configuration has in forms that YAML reads as another, or as none.
func TestTrap25OnlyPlainDigitsAreWholeNumbers(t *testing.T) {
	const head = "accounts:\n  main:\n    base_url: http://127.0.0.1:1\n    app_id: sbx_app_a\n"
	const schedule = "schedules:\n  - name: keep\n    cron: '@daily'\n    renew_before: 72h\n"
	keys := map[string]string{
		"accounts.main.concurrency": head + "    concurrency: %s\n", "accounts.main.daily_limit_cents": head + "    daily_limit_cents: %s\n",
		"accounts.main.listing_loss_percent": head + "    listing_loss_percent: %s\n", "accounts.main.listing_loss_min": head + "    listing_loss_min: %s\n",
		"accounts.main.replicas": head + "    replicas: %s\n", "schedules[0].duration_days": head + schedule + "    duration_days: %s\n",
		"schedules[0].keep.at_least": head + schedule + "    duration_days: 30\n    keep:\n      at_least: %s\n",
	}
	for _, key := range []string{"budget_cents", "daily_budget_cents", "monthly_budget_cents", "approve_over_cents", "chunk"} {
		keys["schedules[0]."+key] = head + schedule + "    duration_days: 30\n    " + key + ": %s\n"
	}
	keys["webhooks[0].concurrency"] = head + "webhooks:\n  - name: b\n    url: https://example.com\n    concurrency: %s\n"
	for _, key := range []string{"max_cents", "per_day", "after"} {
		keys["schedules[0].replace."+key] = head + schedule + "    duration_days: 30\n    replace:\n      " + key + ": %s\n"
	}
	if n := integerKeys(reflect.TypeFor[Config]()); n != len(keys) {
		t.Errorf("the configuration has %d whole numbers and the test %d", n, len(keys))
	}
	for key, text := range keys {
		line := strings.Count(text, "\n")
		for _, value := range []string{"700.00", "0200000", "1e4", "", "null", "~", "1_000", "0x10", "0o17", "0b1", "+5", `"700"`, "'700'", "true", "[700]", ".inf", "7,00", "99999999999999999999"} {
			_, err := Load(written(t, fmt.Sprintf(text, value)))
			if want := fmt.Sprintf("line %d: %s: ", line, key); err == nil || !strings.Contains(err.Error(), want) || !isInvalid(err) {
				t.Errorf("%s: %q: %v", key, value, err)
			}
		}
		good := "3"
		if strings.HasSuffix(key, "days") {
			good = "30"
		}
		if _, err := Load(written(t, fmt.Sprintf(text, good))); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	_, err := Load(written(t, head+schedule+"    duration_days: 30\n    <<: {budget_cents: 1e4}\n"))
	if err == nil || !strings.Contains(err.Error(), "line 10: schedules[0].budget_cents: 1e4") {
		t.Errorf("a merged key: %v", err)
	}
}

// integerKeys counts the whole numbers of a structure and of what it holds.
func integerKeys(t reflect.Type) (n int) {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return 0
	}
	for field := range t.Fields() {
		switch {
		case field.Tag.Get("koanf") == "":
		case isInteger(field.Type):
			n++
		default:
			n += integerKeys(field.Type)
		}
	}
	return n
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "perennial.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func configOf(t *testing.T, account, schedule string) string {
	t.Helper()
	text := "accounts:\n  main: {base_url: http://127.0.0.1:1, app_id: sbx_app_a, " + account + "}\n" +
		"schedules:\n  - {name: keep, cron: '@daily', duration_days: 30, " + schedule + "}\n"
	return written(t, text)
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// TestPathsOfAFileLieBesideIt: docs/decisions/0013.
func TestPathsOfAFileLieBesideIt(t *testing.T) {
	const account = "accounts:\n  main: {base_url: http://127.0.0.1:1, app_id: sbx_app_a}\n"
	for head, want := range map[string]string{"data_dir: books\n": "books", "data_dir: ./a/../books\n": "books", "": "perennial-data", "data_dir: /srv/books\n": "/srv/books"} {
		path := written(t, head+account)
		if !filepath.IsAbs(want) {
			want = filepath.Join(filepath.Dir(path), want)
		}
		if c, err := Load(path); err != nil || c.DataDir != want {
			t.Errorf("%q: %+v %v", head, c, err)
		}
		path = written(t, "nats: {url: 'nats://127.0.0.1:1', creds_file: run.creds}\n"+account)
		if c, err := Load(path); err != nil || c.NATS.CredsFile != filepath.Join(filepath.Dir(path), "run.creds") {
			t.Errorf("creds_file: %+v %v", c, err)
		}
	}
}

// TestWhatTheProgramKnowsIsNoKey: fields that no file may set.
func TestWhatTheProgramKnowsIsNoKey(t *testing.T) {
	const account = "{base_url: http://127.0.0.1:1, app_id: sbx_app_a"
	for _, text := range []string{
		"accounts: {main: " + account + "}}\nfile: x\n", "accounts: {main: " + account + "}}\nembedded: true\n", "accounts: {main: " + account + "}}\nrefillevents: true\n",
		"accounts: {main: " + account + ", secret: s}}\n", "accounts: {main: " + account + ", location: UTC}}\n",
	} {
		if _, err := Load(written(t, text)); !isInvalid(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Load(written(t, "accounts: {main: "+account+"}}\n")); err != nil {
		t.Error(err)
	}
}

// Of two keys with one name the later would win unseen, at any depth, in another case and
// in a second document of the file.
func TestTrap63AKeyThatAppearsTwiceIsRefused(t *testing.T) {
	const head = "accounts:\n  main:\n    base_url: http://127.0.0.1:1\n    app_id: sbx_app_a\n"
	const schedule = "schedules:\n  - name: keep\n    cron: '@daily'\n    renew_before: 72h\n    duration_days: 30\n"
	if _, err := Load(written(t, head+"    daily_limit_cents: 1\n"+schedule+"    budget_cents: 1\n")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a limit":               head + "    daily_limit_cents: 1\n    daily_limit_cents: 999999\n",
		"in another case":       head + "    daily_limit_cents: 1\n    Daily_Limit_Cents: 999999\n",
		"neither as documented": head + "    DAILY_LIMIT_CENTS: 1\n    Daily_Limit_Cents: 999999\n",
		"quoted":                head + "    daily_limit_cents: 1\n    \"daily_limit_cents\": 999999\n",
		"with a blank":          head + "    daily_limit_cents: 1\n    \"daily_limit_cents \": 999999\n",
		"an account":            head + "  main:\n    base_url: http://127.0.0.1:2\n    app_id: sbx_app_b\n",
		"the accounts":          head + head,
		"a budget":              head + schedule + "    budget_cents: 1\n    budget_cents: 0\n",
		"a label":               head + schedule + "    match:\n      labels: {team: red, team: blue}\n",
		"a second document":     head + "    daily_limit_cents: 1\n---\n" + head + "    daily_limit_cents: 999999\n",
		"a second, broken one":  head + "---\n\tx\n",
		"only in another case":  head + "    Daily_Limit_Cents: 999999\n",
		"the first in capitals": strings.ToUpper(head[:8]) + head[8:],
	} {
		if c, err := Load(written(t, text)); err == nil || !isInvalid(err) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}
