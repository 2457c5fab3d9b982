package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The example's flags are known, and it has a valid number of arguments.
func TestEveryCommandHasAnExampleThatItUnderstands(t *testing.T) {
	named := 0
	walk((&app{}).root(), func(path string, c *cobra.Command) {
		if c.HasSubCommands() && usageExamples[path] == "" || c.Hidden {
			return
		}
		line, _, _ := strings.Cut(usageExamples[path], " <")
		line, _, _ = strings.Cut(line, " >")
		words := shellWords(line)
		found, rest, err := (&app{}).root().Find(words)
		if err != nil || found.CommandPath() != c.CommandPath() || line == "" {
			t.Errorf("the example of %q leads to %q: %v", path, found.CommandPath(), err)
			return
		}
		named++
		if err := found.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if err := found.ValidateArgs(found.Flags().Args()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	})
	if named != len(usageExamples) {
		t.Errorf("%d examples, and %d commands have one", len(usageExamples), named)
	}
}

// shellWords splits a line at spaces outside of single quotes.
func shellWords(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}

// The error lists the subcommands, also if the user asks for help.
func TestAnUnknownSubcommandNamesThoseThereAre(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"schedules lst": "it has list, show, plan, run, approve, decline, forecast, history, pause, resume", "ledger balanc": "balance, entries,", "webhook lst": "list, test, replay, remove",
		"help nope": `unknown command "nope"`, "help webhook lst": "list, test, replay, remove", "help schedules lst": "it has list, show, plan",
	} {
		var out, errs bytes.Buffer
		code := Program{Args: strings.Fields(line), Stdout: &out, Stderr: &errs}.Main(t.Context())
		if code != ExitUsage || !strings.Contains(errs.String(), want) || out.Len() > 0 || strings.Count(errs.String(), "\n") > 3 {
			t.Errorf("%s ended with %d: %s%s", line, code, out.String(), errs.String())
		}
	}
	for line, want := range map[string]string{"help ledger balance": "perennial ledger balance [flags]", "help": "NEEDS ATTENTION\n"} {
		var out, errs bytes.Buffer
		if code := (Program{Args: strings.Fields(line), Stdout: &out, Stderr: &errs}).Main(t.Context()); code != ExitDone || !strings.Contains(out.String(), want) {
			t.Errorf("%s ended with %d: %s%s", line, code, out.String(), errs.String())
		}
	}
}

// The root help has 52 lines at most. The help of other commands has one line for global flags,
// which `options` describes.
func TestTheHelpFitsOnOneScreen(t *testing.T) {
	t.Parallel()
	if _, out, _ := perennial(t, "--help"); strings.Count(out, "\n") > 52 {
		t.Errorf("%d lines:\n%s", strings.Count(out, "\n"), out)
	}
	if _, out, _ := perennial(t, "order", "--help"); strings.Count(out, "--account") != 1 || !strings.Contains(out, "\nGlobal flags: --account, --config, --json, --nats, --output, --verbose") {
		t.Error(out)
	}
	if _, out, _ := perennial(t, "options"); !strings.Contains(out, "-a, --account string") {
		t.Error(out)
	}
}

// The help does not show the old names.
func TestOldNamesOfBackupsWork(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"backup", "restore", "archive", "rebuild"} {
		if code, out, errs := perennial(t, "ledger", name, "--help"); code != ExitDone || !strings.Contains(out, "perennial ledger "+name) {
			t.Errorf("%s: %d %s%s", name, code, out, errs)
		}
	}
	if _, out, _ := perennial(t, "ledger", "--help"); strings.Contains(out, "restore") {
		t.Error(out)
	}
}

// Completion offers the values of flags and the names in the configuration. If no runner answers,
// it offers nothing else.
func TestCompletionOffersWhatIsKnown(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	text := "accounts:\n  main: {base_url: http://127.0.0.1:1, app_id: sbx_app_a, secret_file: s}\n  shop: {base_url: http://127.0.0.1:1, app_id: sbx_app_b, secret_file: s}\n" +
		"nats: {listen: \"127.0.0.1:0\"}\nschedules:\n  - {name: keep, cron: \"@hourly\", renew_before: 72h, duration_days: 30}\n"
	if err := os.WriteFile("perennial.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"-o j": "json", "wallet -a s": "shop", "wallet --account ": "main shop", "sweep run ": "keep", "sweep run keep ": "",
		"order --priority ": "high bulk", "order --scenario p": "partial", "ledger export --format b": "beancount", "operations list --state rev": "review",
		"watch --type sweep.": "sweep.* sweep.failed sweep.finished sweep.held sweep.missed sweep.planned", "renew px_": "",
	} {
		var out, errs bytes.Buffer
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		code := Program{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}.Main(t.Context())
		values, _, _ := strings.Cut(out.String(), ":")
		if got := strings.Join(strings.Fields(values), " "); code != ExitDone || got != want {
			t.Errorf("%q gives %q, not %q (%d %s)", line, got, want, code, errs.String())
		}
	}
}

// Two builds of the manual are identical, even by different users.
func TestTheManualHasAPageForEachCommand(t *testing.T) {
	one, two := filepath.Join(t.TempDir(), "man1"), t.TempDir()
	for i, dir := range []string{one, two} {
		t.Setenv("USER", []string{"ann", "builder"}[i])
		if code := (Program{Args: []string{"manual", dir}, Stdout: &bytes.Buffer{}, Stderr: os.Stderr}).Main(t.Context()); code != ExitDone {
			t.Fatalf("it ended with %d", code)
		}
	}
	for path := range usageExamples {
		name := "perennial-" + strings.ReplaceAll(path, " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(one, name))
		again, _ := os.ReadFile(filepath.Join(two, name))
		if err != nil || !bytes.Equal(page, again) || !bytes.Contains(page, []byte("EXAMPLE")) {
			t.Errorf("%s: %v\n%.300s", name, err, page)
		}
	}
}
