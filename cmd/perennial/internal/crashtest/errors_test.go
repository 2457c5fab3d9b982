package crashtest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

var updateErrors = flag.Bool("update", false, "write testdata/errors.txt anew")

// TestErrorsOfTheCommandLine provokes every error of testdata/errors.txt, so that a changed error
// shows in that file. Lines that begin with $ are the input. With -update the test rewrites the
// others.
func TestErrorsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	const golden = "testdata/errors.txt"
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, 3)
	w.configure("", `schedules:
  - {name: keepalive, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30}
  - {name: dear, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30, match: {proxy_ids: [px_1]}, approve_over_cents: 1}
`)
	run, line := w.run()
	awaitReady(t, line)
	w.mustCLI("renew", "px_1", "--id", "shop-renew", "--wait")
	w.mustCLI("order", "off_us_1=1", "--id", "shop-order", "--wait")
	if _, _, code := w.cli("order", "off_nosuch=1", "--id", "shop-refused", "--wait"); code == cli.ExitDone {
		t.Fatal("an offer that does not exist was bought")
	}
	for name, text := range map[string]string{
		"no_column.csv": "id,offer_code\na,off_us_1\n", "days.csv": "id,offer_code,quantity,days\na,off_us_1,1,30\n", "broken.jsonl": `{"id":"a"` + "\n",
		"twice.jsonl": `{"id":"a","duration_days":30,"proxy_ids":["px_1"]}` + "\n" + `{"id":"a","duration_days":60,"proxy_ids":["px_1"]}` + "\n", "empty.csv": "",
		"faults.yaml": "accounts:\n  main:\n    base_url: http://example.com\n    app_id: app\n    secret_file: nosuch\nschedules:\n  - {name: a, cron: \"0 0 1 *\", renew_before: 72h, duration_days: 31}\n",
	} {
		w.write(name, text, 0o600)
	}
	var got strings.Builder
	for section := range strings.SplitSeq(string(want), "\n") {
		switch {
		case section == "$ stop":
			w.stopped(run)
			fmt.Fprintf(&got, "\n$ stop\n")
		case strings.HasPrefix(section, "$ "):
			fmt.Fprintf(&got, "\n%s\n%s", section, w.mistake(strings.TrimPrefix(section, "$ ")))
		case strings.HasPrefix(section, "# "):
			fmt.Fprintf(&got, "\n%s\n", section)
		}
	}
	text := strings.TrimPrefix(got.String(), "\n")
	if *updateErrors {
		if err := os.WriteFile(golden, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	wanted := map[string]bool{}
	for entry := range strings.SplitSeq(string(want), "\n\n") {
		wanted[strings.TrimSpace(entry)] = true
	}
	for entry := range strings.SplitSeq(text, "\n\n") {
		if !wanted[strings.TrimSpace(entry)] {
			t.Errorf("go test with -update, and read what changed in %s:\n%s", golden, entry)
		}
	}
	if !t.Failed() && text != string(want) {
		t.Errorf("%s has other entries, or another order: go test with -update", golden)
	}
}

// mistake runs a command in this process and returns its exit code and output.
func (w *world) mistake(command string) string {
	w.t.Helper()
	var out, errs bytes.Buffer
	args := []string{"--config", filepath.Join(w.dir, "perennial.yaml")}
	for arg := range strings.FieldsSeq(command) {
		args = append(args, strings.ReplaceAll(arg, "DIR", w.dir))
	}
	code := cli.Program{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}.Main(w.t.Context())
	text := strings.ReplaceAll(out.String()+errs.String(), w.dir, "DIR")
	for _, c := range changes {
		text = c.find.ReplaceAllString(text, c.with)
	}
	return fmt.Sprintf("exit %d\n%s", code, text)
}

var changes = []struct {
	find *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`cli-[a-z2-7]{26}`), "cli-ID"},
	{regexp.MustCompile(`trc_\w+`), "TRACE"},
	{regexp.MustCompile(`(?m)^[\w-]+ is (accepted|sending|open|waiting)\n`), ""}, // the state at the time of the command
	{regexp.MustCompile(`\bpid \d+`), "pid N"},
}
