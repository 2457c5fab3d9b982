package crashtest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/daemon"
)

const readme = "../../../../README.md"

func codeBlocks(t testing.TB, language string) []string {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no %s block", readme, language)
	}
	return blocks
}

// TestReadmeCommandsWork runs the README's quick start unchanged, beside a runner without
// configuration.
func TestReadmeCommandsWork(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	run := start(t, w.dir, "run", "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	var line daemon.ReadyLine
	run.ready(&line)
	ran := 0
	for _, block := range codeBlocks(t, "sh") {
		for text := range strings.Lines(block) {
			command, _, _ := strings.Cut(text, " #")
			args := strings.Fields(command)
			if len(args) == 0 || args[0] != "perennial" || args[1] == "run" || args[1] == "sandbox" || args[1] == "watch" || args[1] == "bench" || args[1] == "demo" {
				continue
			}
			ran++
			if out, errs, code := w.cli(args[1:]...); code != 0 {
				t.Errorf("%s: exit %d\n%s%s", strings.TrimSpace(text), code, out, errs)
			}
		}
	}
	if ran < 4 {
		t.Errorf("only %d commands of the README were run", ran)
	}
}
