package crashtest

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each event that an operator should notice is one log entry, with the fields of docs/monitor.md.
func TestADayCanBeFollowedInTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 6)
	w.configure("", "schedules:\n  - {name: keep, cron: \"0 0 1 1 *\", renew_before: 300h, duration_days: 30, match: {proxy_ids: [px_5, px_6]}}\n")
	run, _ := w.run()
	w.mustCLI("renew", "px_4", "--id", "price", "--wait")
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "code", "code": "proxy_endpoint_unavailable"})
	w.cli("renew", "px_1", "--id", "r-1", "--wait")
	w.mustCLI("review", "resolve", "r-1", "--charged", "300", "--confirm-amount", "300", "--by", "ada", "--reason", "seen")
	w.mustCLI("account", "pause", "--by", "ada", "--reason", "a rest")
	w.mustCLI("account", "resume", "--by", "ada", "--reason", "on we go")
	w.mustCLI("sweep", "run", "keep")
	w.spends("700")
	w.cli("ledger", "reconcile")
	if code := run.terminate(); code != 0 {
		t.Fatalf("run ended with %d\n%s", code, run.stderr)
	}

	fields := documentedLogFields(t)
	said := map[string]int{}
	for line := range strings.Lines(run.stderr.String()) {
		var x map[string]any
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		for name := range x {
			if !fields[name] {
				t.Errorf("docs/monitor.md does not name the field %s of %s", name, line)
			}
		}
		msg, _ := x["msg"].(string)
		said[msg]++
	}
	for _, want := range []string{
		"perennial starts", "the account works", "in review: .*proxy_endpoint_unavailable.*", "answered: charged by ada: seen", "account paused: by ada: a rest",
		"account resumed: by ada: on we go", "sweep planned", "books and provider differ: .*", "perennial stops: .*", "perennial has stopped",
	} {
		times := 0
		for msg, n := range said {
			if regexp.MustCompile("^" + want + "$").MatchString(msg) {
				times += n
			}
		}
		if times != 1 {
			t.Errorf("%q is there %d times in\n%s", want, times, run.stderr)
		}
	}
}

func TestEveryFieldOfTheLogIsDocumented(t *testing.T) {
	t.Parallel()
	fields := documentedLogFields(t)
	named := regexp.MustCompile(`WithField\("([a-z_]+)"|logrus\.Fields\{([^}]*)\}`)
	names := 0
	for _, text := range sources(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			for _, name := range append([]string{m[1]}, keys(m[2])...) {
				if names++; name != "" && !fields[name] {
					t.Errorf("docs/monitor.md does not name the field %s", name)
				}
			}
		}
	}
	if names < 60 {
		t.Errorf("only %d fields were found", names)
	}
}

func keys(literal string) (names []string) {
	for _, m := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(literal, -1) {
		names = append(names, m[1])
	}
	return names
}

// documentedLogFields returns the fields of the first table after the heading Logs.
func documentedLogFields(t testing.TB) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/monitor.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Logs\n")
	section, _, _ = strings.Cut(section, "A day at")
	fields := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(section, -1) {
		fields[m[1]] = true
	}
	return fields
}

// sources returns the program's own source files by path.
func sources(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, room := range []string{"cmd", "jobs", "ledger", "queue", "schedules", "upstream"} {
		err := filepath.WalkDir("../../../../"+room, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
