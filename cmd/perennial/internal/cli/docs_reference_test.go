package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The reference in docs/cli.md is between these marks.
const (
	commandsBegin = "<!-- commands: begin -->\n"
	commandsEnd   = "<!-- commands: end -->\n"
)

// docs/cli.md has every visible command with its line of help and its flags.
func TestTheReferenceIsThatOfTheCommands(t *testing.T) {
	const page = "../../../../docs/cli.md"
	before, rest, found := strings.Cut(text(t, page), commandsBegin)
	stored, after, closed := strings.Cut(rest, commandsEnd)
	if !found || !closed {
		t.Fatalf("%s has no place for the reference", page)
	}
	var reference strings.Builder
	writeReference(&reference, (&app{}).root())
	if stored == reference.String() {
		return
	}
	if !*update {
		t.Fatal("docs/cli.md differs from the commands: go test ./cmd/perennial/internal/cli -run Reference -update")
	}
	if err := os.WriteFile(page, []byte(before+commandsBegin+reference.String()+commandsEnd+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeReference writes a command and its subcommands: what each does, its usage and its flags. The
// help explains the flags.
func writeReference(w *strings.Builder, c *cobra.Command) {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() { // such as the program's helper processes
			continue
		}
		if !sub.HasParent() || sub.Parent() == c.Root() {
			fmt.Fprintf(w, "\n### %s\n", sub.Name())
		}
		if !sub.HasAvailableSubCommands() {
			writeCommand(w, sub)
		}
		writeReference(w, sub)
	}
}

func writeCommand(w *strings.Builder, c *cobra.Command) {
	var flags []string
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			flags = append(flags, "`--"+f.Name+"`")
		}
	})
	fmt.Fprintf(w, "- `%s`: %s.", strings.TrimSuffix(strings.TrimPrefix(c.UseLine(), "perennial "), " [flags]"), strings.TrimSuffix(c.Short, "."))
	if len(flags) > 0 {
		fmt.Fprintf(w, " %s", strings.Join(flags, " "))
	}
	w.WriteString("\n")
}
