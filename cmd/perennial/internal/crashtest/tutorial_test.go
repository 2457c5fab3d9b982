package crashtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
)

// TestTheTutorialWorks runs docs/tutorials/get-started.md from its first line to its last:
// each command ends with 0, and prints the lines that the page shows below it.
func TestTheTutorialWorks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/tutorials/get-started.md")
	if err != nil {
		t.Fatal(err)
	}
	l := &lesson{w: &world{t: t, dir: t.TempDir()}}
	blocks := regexp.MustCompile("(?s)```(sh|yaml|text)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 20 {
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

// lesson is a reader who does what the page says.
type lesson struct {
	w       *world
	run     *process // of the terminal with the runner
	command []string // the last one that was typed
	said    string   // what it printed
}

// does types each line that begins with the program's name.
func (l *lesson) does(block string) {
	l.w.t.Helper()
	for line := range strings.Lines(block) {
		args := strings.Fields(line)
		if len(args) == 0 || args[0] != "perennial" {
			continue
		}
		switch args[1] {
		case "sandbox":
			sandbox := start(l.w.t, l.w.dir, "sandbox", "--listen", "127.0.0.1:0")
			sandbox.ready(&l.w.sandbox)
			l.replaces("http://127.0.0.1:8090", l.w.sandbox.Sandbox, "127.0.0.1:4222", "127.0.0.1:0", "127.0.0.1:8080", "127.0.0.1:0")
		case "run":
			if l.run != nil {
				l.run.terminate()
			}
			var line daemon.ReadyLine
			l.run, line = l.w.run()
			if len(line.Accounts) != 1 {
				l.w.t.Errorf("the runner has %v", line.Accounts)
			}
		default:
			l.command = args[1:]
			l.types()
		}
	}
}

func (l *lesson) types() {
	l.w.t.Helper()
	out, errs, code := l.w.cli(l.command...)
	if code != cli.ExitDone {
		l.w.t.Fatalf("%v: exit %d\n%s%s", l.command, code, out, errs)
	}
	l.said = out + errs
}

// appends adds to the configuration what the page shows. The schedule has no slot in this
// test but the one that is asked for.
func (l *lesson) appends(block string) {
	text, err := os.ReadFile(filepath.Join(l.w.dir, "perennial.yaml"))
	if err != nil {
		l.w.t.Fatal(err)
	}
	l.w.write("perennial.yaml", string(text)+strings.Replace(block, "*/15 * * * *", "0 0 1 1 *", 1), 0o600)
}

// replaces puts other addresses into the configuration, where those of the page may be taken.
func (l *lesson) replaces(oldAndNew ...string) {
	text, err := os.ReadFile(filepath.Join(l.w.dir, "perennial.yaml"))
	if err != nil {
		l.w.t.Fatal(err)
	}
	l.w.write("perennial.yaml", strings.NewReplacer(oldAndNew...).Replace(string(text)), 0o600)
}

// sees waits until the last command prints each of the lines, which differ in times. A
// command that changes something is not typed again.
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

// lacks is the first line of the block that the last command did not print.
func (l *lesson) lacks(block string) string {
	said := "\n" + shape(l.said)
	for line := range strings.Lines(block) {
		if !strings.Contains(said, "\n"+shape(line)) {
			return line
		}
	}
	return ""
}

// shape is a text without what differs from run to run: times, and the width of columns.
func shape(text string) string {
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`).ReplaceAllString(text, "TIME")
	text = regexp.MustCompile(`(\d+ \w+ ago|just now)`).ReplaceAllString(text, "AGO")
	return regexp.MustCompile(`[ ]+`).ReplaceAllString(text, " ")
}
