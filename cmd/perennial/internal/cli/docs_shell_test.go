// Checks of the commands in the documents: the program's own against its flags and arguments,
// others against the files that they name.

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// checkShell checks that bash can parse the block, and that each of its commands is known and
// complete.
func checkShell(t *testing.T, b fenced) error {
	t.Helper()
	bash := exec.CommandContext(t.Context(), "bash", "-n")
	bash.Stdin = strings.NewReader(b.text)
	if out, err := bash.CombinedOutput(); err != nil {
		return fmt.Errorf("bash: %w\n%s", err, out)
	}
	dir := repository // cd changes it for the rest of the block
	for _, words := range commandsOf(b.text) {
		for len(words) > 0 && (words[0] == "exec" || regexp.MustCompile(`^[A-Za-z_]+=`).MatchString(words[0])) {
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		if words[0] == "cd" && len(words) == 2 {
			dir = filepath.Join(dir, words[1])
		}
		if err := checkCommand(t, dir, words); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
		}
	}
	return nil
}

// commandsOf splits a script into the words of its commands. Pipes, lists and redirections end a
// command. Quotes and $(…) keep spaces.
func commandsOf(script string) (all [][]string) {
	script = strings.ReplaceAll(script, "\\\n", " ")
	word := regexp.MustCompile(`^(?:'[^']*'|"[^"]*"|\$\([^)]*\)|[^\s'"#|&;<>]|#\b)+`)
	var words []string
	end := func() {
		if len(words) > 0 {
			all = append(all, words)
		}
		words = nil
	}
	for script != "" {
		switch m := word.FindString(script); {
		case m != "":
			words = append(words, strings.Trim(m, `'"`))
			script = script[len(m):]
		case script[0] == '#':
			_, script, _ = strings.Cut(script, "\n")
			end()
		case script[0] == '<' || script[0] == '>':
			script = strings.TrimLeft(script, "<> ")
			script = script[len(word.FindString(script)):]
		default:
			if strings.ContainsRune("\n|&;", rune(script[0])) {
				end()
			}
			script = script[1:]
		}
	}
	end()
	return all
}

// checkCommand checks one command of an sh block.
func checkCommand(t *testing.T, dir string, words []string) error {
	t.Helper()
	if words[0] == "curl" { // to the sandbox: TestTheTutorialsWork sends the same requests
		return nil
	}
	if err := checkPayloads(t, words); err != nil {
		return err
	}
	switch args := words[1:]; words[0] {
	case "perennial":
		return checkPerennial(args)
	case "go":
		return checkGoCommand(args)
	case "make":
		return checkTargets(t, args)
	case "npm":
		return checkNPM(t, dir, args)
	case "cd":
		return exists(dir)
	case "umask", "for", "do", "echo", "done", ".", "nats-server", "kill": // TestTheClusterOfTheDocumentWorks runs them
		return nil
	case "nats":
		return checkOneOf(args, "req", "sub", "stream")
	case "docker":
		return checkOneOf(args, "compose")
	case "pip":
		return exists(filepath.Join(dir, args[len(args)-1]))
	case "node", "python3":
		return exists(filepath.Join(dir, args[0]))
	default:
		if !strings.Contains(words[0], "/") {
			return errors.New("the test knows no such command: add it")
		}
		return exists(filepath.Join(dir, words[0]))
	}
}

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

func checkOneOf(args []string, known ...string) error {
	if len(args) == 0 || !slices.Contains(known, args[0]) {
		return fmt.Errorf("it is none of %v: add it to the test", known)
	}
	return nil
}

// checkPayloads checks a JSON word as the body of the command or verb before it.
func checkPayloads(t *testing.T, words []string) error {
	t.Helper()
	for i, w := range words {
		if !strings.HasPrefix(w, "{") {
			continue
		}
		kind := regexp.MustCompile(`(order\.create|proxy\.renew)(\.bulk|\.high)?$`).FindStringSubmatch(words[i-1])
		verb := regexp.MustCompile(`^perennial\.svc\.\w+\.(\w+)$`).FindStringSubmatch(words[i-1])
		switch {
		case kind != nil:
			if err := fits(t, kind[1], w); err != nil {
				return err
			}
		case verb != nil:
			if err := fits(t, "svc."+verb[1]+".request", w); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s takes no body that is known", words[i-1])
		}
	}
	return nil
}

// checkPerennial checks that the command exists and takes these flags and arguments.
func checkPerennial(args []string) error {
	found, rest, err := (&app{}).root().Find(args)
	if err != nil {
		return err
	}
	if err := found.ParseFlags(rest); err != nil {
		return err
	}
	if !found.Runnable() {
		return errors.New("it is a group of commands")
	}
	return found.ValidateArgs(found.Flags().Args())
}

// checkSynopsis checks that the words before the first placeholder are a command. The flags must
// belong to it or to one of its subcommands.
func checkSynopsis(synopsis string) error {
	words := strings.Fields(strings.TrimPrefix(synopsis, "perennial "))
	if words[0] == "COMMAND" {
		return nil
	}
	found, rest, err := (&app{}).root().Find(words)
	if err != nil {
		return err
	}
	if found.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && !regexp.MustCompile(`^[A-Z[]`).MatchString(rest[0]) {
		return fmt.Errorf("%q has no command %q", found.CommandPath(), rest[0])
	}
	for _, flag := range regexp.MustCompile(`(^|[ [])--?[a-z][a-z-]*`).FindAllString(strings.Join(words, " "), -1) {
		if !hasFlag(found, strings.TrimLeft(flag, " [-")) {
			return fmt.Errorf("%q has no flag %s", found.CommandPath(), flag)
		}
	}
	return nil
}

func hasFlag(c *cobra.Command, name string) bool {
	c.InitDefaultHelpFlag()
	is := func(flags *pflag.FlagSet) bool {
		return flags.Lookup(name) != nil || len(name) == 1 && flags.ShorthandLookup(name) != nil
	}
	return is(c.Flags()) || is(c.InheritedFlags()) || slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return hasFlag(sub, name) })
}

// checkGoCommand checks that packages of this module exist, and checks `go run` of the program as a
// command of the program.
func checkGoCommand(args []string) error {
	if err := checkOneOf(args, "build", "install", "run", "test"); err != nil {
		return err
	}
	for i, w := range args {
		path, isPath := strings.CutPrefix(strings.TrimSuffix(w, "/..."), "./")
		if !isPath || w == "./..." {
			continue
		}
		if err := exists(filepath.Join(repository, path)); err != nil {
			return err
		}
		if path == "cmd/perennial" && args[0] == "run" {
			return checkPerennial(args[i+1:])
		}
		if args[0] == "run" {
			return nil
		}
	}
	return nil
}

func checkTargets(t *testing.T, args []string) error {
	t.Helper()
	for _, target := range args {
		if !strings.Contains(target, "=") && !strings.Contains(text(t, repository+"/Makefile"), "\n"+target+":") {
			return fmt.Errorf("the Makefile has no target %s", target)
		}
	}
	return nil
}

func checkNPM(t *testing.T, dir string, args []string) error {
	t.Helper()
	if args[0] == "ci" {
		return exists(filepath.Join(dir, "package-lock.json"))
	}
	if args[0] != "run" || !strings.Contains(text(t, filepath.Join(dir, "package.json")), `"`+args[1]+`":`) {
		return errors.New("package.json has no such script")
	}
	return nil
}
