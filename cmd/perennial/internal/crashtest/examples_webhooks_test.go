//go:build check

package crashtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The code of docs/webhooks.md accepts only bodies that the library of the Standard Webhooks signs,
// under the new secret or the old one.
func TestTheExamplesVerifyWebhooks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	const id, body = "main/0123456789abcdef/7", `{"text":"ümlaut"}`
	other := "whsec_" + strings.Repeat("b3RoZXIt", 4)
	signed := func(at time.Time, body string, secrets ...string) map[string]string {
		var words []string
		for _, secret := range secrets {
			wh, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			word, err := wh.Sign(id, at, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, word)
		}
		return map[string]string{"webhook-id": id, "webhook-timestamp": fmt.Sprint(at.Unix()), "webhook-signature": strings.Join(words, " ")}
	}
	now := time.Now()
	cases := []struct {
		headers map[string]string
		want    bool
	}{
		{signed(now, body, hookSecret), true}, {signed(now, body, other, hookSecret), true}, {signed(now.Add(-4*time.Minute), body, hookSecret), true},
		{signed(now, body, other), false}, {signed(now, body+" ", hookSecret), false}, {signed(now.Add(-time.Hour), body, hookSecret), false}, {signed(now.Add(time.Hour), body, hookSecret), false},
		{map[string]string{"webhook-id": id, "webhook-timestamp": fmt.Sprint(now.Unix()), "webhook-signature": "v1,é v2,x v1, "}, false},
	}
	for language, driver := range map[string][]string{
		"python":     {"python3", "-c", "\nimport json, sys\nx = json.load(sys.stdin)\nprint(json.dumps([verified(x['secret'], h, x['body'].encode()) for h in x['headers']]))\n"},
		"javascript": {"node", "-e", "\nconst x = JSON.parse(require('node:fs').readFileSync(0));\nconsole.log(JSON.stringify(x.headers.map((h) => verified(x.secret, h, Buffer.from(x.body)))));\n"},
	} {
		code := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
		input := map[string]any{"secret": hookSecret, "body": body}
		var headers []map[string]string
		var want []bool
		for _, c := range cases {
			headers, want = append(headers, c.headers), append(want, c.want)
		}
		input["headers"] = headers
		text, err := json.Marshal(input)
		if err != nil || code == nil {
			t.Fatalf("%s: %v", language, err)
		}
		c := exec.CommandContext(t.Context(), driver[0], driver[1], string(code[1])+driver[2])
		c.Stdin = strings.NewReader(string(text))
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", language, err, out)
		}
		if got := decode[[]bool](t, string(out)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s says %v, want %v", language, got, want)
		}
	}
}
