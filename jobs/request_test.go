package jobs

import (
	"strings"
	"testing"

	"perennial/jobs/command"
	"perennial/jobs/desk"
)

func TestARequestIsReadAsStrictlyAsACommand(t *testing.T) {
	for body, want := range map[string]string{
		`{"reason":"","reason":"good"}`:   `"reason" appears twice`,
		`{"Reason":"good"}`:               "not known",
		`{"reasons":"good"}`:              "not known",
		`{"reason":"good"}{"reason":"x"}`: "follows",
		`{"reason":"good"} x`:             "follows",
		`{"reason":7}`:                    "must be text",
		`{"charged":"yes"}`:               "true or false",
		`{"charged_cents":1.5}`:           "charged_cents",
		`{"charged_cents":"1"}`:           "a whole number",
		"{\"reason\":\"\xff\"}":           "UTF-8",
		`[]`:                              "one JSON object",
		`"x"`:                             "one JSON object",
		`{"reason":"good"`:                "not valid JSON",
		`{"charged":true,"reason":"a","charged":false}`: `"charged" appears twice`,
	} {
		if err := command.DecodeRequest([]byte(body), new(desk.Resolution)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gave %v, want %q", body, err, want)
		}
	}
	for _, body := range []string{"", " \n", "null", "{}", `{"reason":"good"}`, "\t{\"charged\":null}\n"} {
		check(t, command.DecodeRequest([]byte(body), new(desk.Resolution)))
	}
	var x desk.Resolution
	check(t, command.DecodeRequest([]byte(`{"id":"a/1","charged":true,"charged_cents":9007199254740993,"line":"px_1"}`), &x))
	if x.ID != "a/1" || x.Charged == nil || !*x.Charged || x.ChargedCents != 9007199254740993 || x.ProxyID != "px_1" {
		t.Errorf("%+v", x)
	}
}
