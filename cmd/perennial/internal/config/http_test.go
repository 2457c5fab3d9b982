package config

import (
	"strings"
	"testing"
)

func TestAnIdentityNamesTheKeyAndTheLine(t *testing.T) {
	const head = "accounts:\n  main: {base_url: http://127.0.0.1:1, app_id: sbx_app_a}\nhttp:\n  identity:\n    header: X-Auth-Request-Email\n"
	for text, says := range map[string]string{
		"    trusted: [10.0.0.7]\n    people: [{name: ada, role: viewer}]\n":                       `line 6: http.identity.trusted[0] is "10.0.0.7": write`,
		"    trusted: [10.0.0.7/32]\n    people: [{name: ada, role: admin}]\n":                     `line 7: http.identity.people[0].role is "admin" and must be viewer or operator`,
		"    trusted: [10.0.0.7/32]\n    people: [{name: ada, role: viewer, accounts: [other]}]\n": `http.identity.people[0].accounts names "other", which is not configured`,
		"    trusted: [10.0.0.7/32]\n":                                      "http.identity.people is empty",
		"    trust: [10.0.0.7/32]\n":                                        `"trust" is no key of the configuration`,
		"    people: [{name: ada, role: viewer}]\n":                         "http.identity.trusted is empty",
		"    trusted: [0.0.0.0/0]\n    people: [{name: a, role: viewer}]\n": "http.identity.trusted[0]",
	} {
		if _, err := Load(written(t, head+text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	c, err := Load(written(t, head+"    trusted: [10.0.0.7/32]\n    people: [{name: ada, role: viewer, accounts: [main]}]\n"))
	if err != nil || c.HTTP.Identity.People[0].Accounts[0] != "main" {
		t.Errorf("%v", err)
	}
}
