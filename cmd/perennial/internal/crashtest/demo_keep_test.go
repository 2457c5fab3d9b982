//go:build check

package crashtest

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// The printed link opens the pages.
func TestAKeptDemoSignsIn(t *testing.T) {
	t.Parallel()
	run := start(t, t.TempDir(), "demo", "--keep")
	var link string
	for link == "" {
		line, err := run.stdout.ReadString('\n')
		if err != nil {
			t.Fatalf("%v\n%s", err, run.stderr)
		}
		if m := regexp.MustCompile(`^Pages: (http://\S+/login\?code=\S+)`).FindStringSubmatch(line); m != nil {
			link = m[1]
		}
	}
	response, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), "Sign in") {
		t.Errorf("%d %v\n%s", response.StatusCode, err, body)
	}
	if code := run.terminate(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
