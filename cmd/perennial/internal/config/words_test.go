package config

import (
	"strings"
	"testing"
)

// No error repeats the key's value.
func TestConfigurationErrorsSayWhatAKeyTakes(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"accounts: {main: {base_url: 'http://127.0.0.1:1', app_id: sbx_app_a}}\nschedules:\n  - {name: k, cron: '@daily', renew_before: 72h, duration_days: 30, match: {country_code: US}}": "line 3: schedules[0].match.country_code must be a list, such as [a, b]",
		"accounts: {main: {base_url: 'http://127.0.0.1:1', app_id: sbx_app_a, sign_port: hunter2}}":                                                                                         "line 1: accounts.main.sign_port must be true or false, and is a text",
		"http: 8080\naccounts: {main: {base_url: 'http://127.0.0.1:1', app_id: sbx_app_a}}":                                                                                                 "line 1: http must hold keys of its own",
	} {
		_, err := Load(written(t, text))
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "unconvertible") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", says, err)
		}
	}
}
