package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const settingsFile = `data_dir: ./data
nats: {url: "nats://ada:hunter2@127.0.0.1:4222,nats://hunter3@127.0.0.1:1"}
accounts:
  main: &base
    base_url: https://example.com
    app_id: sbx_app_a
    secret_file: main.secret
    warn_before: [24h, 90m]
  other:
    <<: *base
    app_id: sbx_app_b
schedules:
  - {name: keep, cron: "@hourly", renew_before: 72h,
     duration_days: 30}
`

func writeConfig(t *testing.T, text string) (path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "perennial.yaml")
	for name, content := range map[string]string{path: text, filepath.Join(dir, "main.secret"): "hunter4"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// Every key has its line or "default". Secrets are not shown.
func TestSettingsSayValueAndPlace(t *testing.T) {
	c, err := Load(writeConfig(t, settingsFile))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, s := range c.Settings() {
		if text := fmt.Sprint(s); strings.Contains(text, "hunter") {
			t.Errorf("%s holds a secret", s.Key)
		}
		if _, twice := all[s.Key]; twice {
			t.Errorf("%s is there twice", s.Key)
		}
		all[s.Key] = fmt.Sprintf("%v, %s", s.Value, s.From)
	}
	for key, want := range map[string]string{
		"http.listen":                       "127.0.0.1:8080, default",
		"tracing.sample":                    "1, default",
		"accounts.main.base_url":            "https://example.com, line 5",
		"accounts.main.warn_before":         "[24h0m0s 1h30m0s], line 8",
		"accounts.main.reconcile_every":     "1h0m0s, default",
		"accounts.main (secret)":            "(not shown), secret_file",
		"accounts.other.app_id":             "sbx_app_b, line 11",
		"accounts.other.base_url":           "https://example.com, line 5",
		"schedules[0].duration_days":        "30, line 14",
		"schedules[0].replace.enabled":      "false, default",
		"schedules[0].replace.per_day":      "10, default",
		"schedules[0].match.proxy_ids_file": ", default",
		"nats.listen":                       "127.0.0.1:4222, default",
	} {
		if all[key] != want {
			t.Errorf("%s is %q, want %q", key, all[key], want)
		}
	}
	t.Setenv("PERENNIAL_MAIN_SECRET", "hunter5")
	for _, s := range c.Settings() {
		if s.Key == "accounts.main (secret)" && !strings.HasPrefix(s.From, "PERENNIAL_MAIN_SECRET") {
			t.Errorf("the secret is from %s", s.From)
		}
	}
}

// The error has the line of the key, or of the section that should have it.
func TestAWrongValueIsSaidWithItsLine(t *testing.T) {
	for change, want := range map[string]string{
		"app_id: sbx_app_b\n|app_id: demo\n":                   "line 11: accounts.other.app_id",
		"base_url: https://|base_url: http://":                 "line 5: accounts.main.base_url",
		"duration_days: 30|duration_days: 31":                  "line 13: schedules[0]: ",
		"cron: \"@hourly\"|account: nobody, cron: \"@hourly\"": "line 13: schedules[0].account",
		"sbx_app_b\n|sbx_app_b\n    concurrency: 2000\n":       "line 12: accounts.other.concurrency must be 1 to 1024, and is 2000",
	} {
		from, to, _ := strings.Cut(change, "|")
		text := strings.Replace(settingsFile, from, to, 1)
		if _, err := Load(writeConfig(t, text)); text == settingsFile || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", change, err, want)
		}
	}
}

// The behaviour of an account counts, and not the path of its secret.
func TestRunnersCompareTheirSettings(t *testing.T) {
	hash := func(replace ...string) string {
		c, err := Load(writeConfig(t, strings.NewReplacer(replace...).Replace(settingsFile)))
		if err != nil {
			t.Fatal(err)
		}
		return c.SettingsOf("main")
	}
	as := hash()
	for _, same := range [][]string{{"main.secret", "./main.secret"}, {"sbx_app_b", "sbx_app_c"}, {"./data", "./data-2"}} {
		if got := hash(same...); got != as {
			t.Errorf("%v: %s, and not %s", same, got, as)
		}
	}
	for _, other := range [][]string{{"90m", "80m"}, {"[24h, 90m]", "[]"}, {"72h", "73h"}, {"sbx_app_a", "sbx_app_c"}} {
		if hash(other...) == as {
			t.Errorf("%v is the same", other)
		}
	}
}

// [] would suggest that nothing is published.
func TestSettingsShowWhatAnAbsentListMeans(t *testing.T) {
	c, err := Load(writeConfig(t, strings.ReplaceAll(settingsFile, "    warn_before: [24h, 90m]\n", "")))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Settings() {
		if s.Key == "accounts.main.warn_before" && fmt.Sprint(s.Value, s.From) != "[24h 1h]default" {
			t.Errorf("%v, %s", s.Value, s.From)
		}
	}
}
