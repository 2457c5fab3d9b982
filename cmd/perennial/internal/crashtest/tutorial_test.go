package crashtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// TestTheTutorialsWork runs each page of docs/tutorials from the first line to the last. Each
// command must exit with 0 and print the lines that the page shows below it.
func TestTheTutorialsWork(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../../../docs/tutorials/*.md")
	if err != nil || len(pages) < 2 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			learn(t, string(text))
		})
	}
}

func learn(t *testing.T, page string) {
	t.Helper()
	l := &lesson{w: &world{t: t, dir: t.TempDir()}}
	blocks := regexp.MustCompile("(?s)```(sh|yaml|text)\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) < 10 {
		t.Fatalf("the page has %d blocks", len(blocks))
	}
	for _, b := range blocks {
		switch b[1] {
		case "sh":
			l.does(b[2])
		case "yaml":
			l.appends(b[2])
		default:
			l.sees(b[2])
		}
	}
}

// lesson plays a reader who follows the page.
type lesson struct {
	w       *world
	run     *process // in the page's other terminal
	command []string // the last command typed
	said    string   // the command's output
}

// typed matches the arguments of a line, quoted or not.
var typed = regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`)

// does runs each line that begins with the program's name, and sends each curl line's fault to the
// sandbox.
func (l *lesson) does(block string) {
	l.w.t.Helper()
	for line := range strings.Lines(block) {
		var args []string
		for _, m := range typed.FindAllStringSubmatch(line, -1) {
			args = append(args, m[1]+m[2]+m[3])
		}
		switch {
		case len(args) > 0 && args[0] == "curl":
			var fault map[string]any
			if err := json.Unmarshal([]byte(args[len(args)-1]), &fault); err != nil {
				l.w.t.Fatalf("%s: %v", line, err)
			}
			l.w.fault(fault)
		case len(args) == 0 || args[0] != "perennial":
		case args[1] == "sandbox":
			start(l.w.t, l.w.dir, "sandbox", "--listen", "127.0.0.1:0").ready(&l.w.sandbox)
			l.replaces("http://127.0.0.1:8090", l.w.sandbox.Sandbox, "127.0.0.1:4222", "127.0.0.1:0", "127.0.0.1:8080", "127.0.0.1:0")
		case args[1] == "run":
			l.runs()
		default:
			l.command = args[1:]
			l.types()
		}
	}
}

// runs restarts the runner of the page's other terminal.
func (l *lesson) runs() {
	l.w.t.Helper()
	if l.run != nil {
		l.run.terminate()
	}
	l.run, _ = l.w.run()
}

func (l *lesson) types() {
	l.w.t.Helper()
	out, errs, code := l.w.cli(l.command...)
	if code != cli.ExitDone {
		l.w.t.Fatalf("%v: exit %d\n%s%s", l.command, code, out, errs)
	}
	l.said = out + errs
}

// appends adds the shown text to the configuration. The schedule gets a cron that does not fire
// during the test.
func (l *lesson) appends(block string) {
	text, err := os.ReadFile(filepath.Join(l.w.dir, "perennial.yaml"))
	if err != nil {
		l.w.t.Fatal(err)
	}
	l.w.write("perennial.yaml", string(text)+strings.Replace(block, "*/15 * * * *", "0 0 1 1 *", 1), 0o600)
}

// replaces changes the page's addresses in the configuration, because they may be in use.
func (l *lesson) replaces(oldAndNew ...string) {
	text, err := os.ReadFile(filepath.Join(l.w.dir, "perennial.yaml"))
	if err != nil {
		l.w.t.Fatal(err)
	}
	l.w.write("perennial.yaml", strings.NewReplacer(oldAndNew...).Replace(string(text)), 0o600)
}

// sees waits until the last command prints each of the lines. It repeats the command, unless the
// command changes something.
func (l *lesson) sees(block string) {
	l.w.t.Helper()
	changes := l.command[0] == "order" || l.command[0] == "init" || l.command[0] == "demo"
	await(l.w.t, strings.Join(l.command, " ")+" shows what the page does", func() bool {
		missing := l.lacks(block)
		if missing == "" {
			return true
		}
		if changes {
			l.w.t.Fatalf("%v does not print %q:\n%s", l.command, missing, l.said)
		}
		l.types()
		return false
	})
}

// lacks returns the first line of the block that the last command did not print. A line "…" stands
// for lines that the page omits.
func (l *lesson) lacks(block string) string {
	said := "\n" + shape(l.said)
	for line := range strings.Lines(block) {
		if line != "…\n" && !strings.Contains(said, "\n"+shape(line)) {
			return line
		}
	}
	return ""
}

// shape removes what differs between runs: times, and the width of columns.
func shape(text string) string {
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`).ReplaceAllString(text, "TIME")
	text = regexp.MustCompile(`(?m)(\d+ \w+ ago|just now|\bnow$)`).ReplaceAllString(text, "AGO")
	return regexp.MustCompile(`[ ]+`).ReplaceAllString(text, " ")
}
