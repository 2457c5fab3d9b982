// `perennial schema`, which prints the JSON Schemas and the AsyncAPI document.

package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/schema"
)

func (a developCommands) schemaCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "schema [NAME]", Short: "Print JSON Schemas and the AsyncAPI document", Args: cobra.MaximumNArgs(1),
		Long: "Without a name: the AsyncAPI document, with every schema in it. NAME is a kind of command (order.create), a type of event (order.delivered), " +
			"a request (svc.status.request) or an answer (svc.status.answer) of the service, or one of dead, inbox.finished, inbox.refused and svc.error.",
		RunE: func(_ *cobra.Command, args []string) error {
			if dir != "" {
				return a.outputs().writeSchemas(dir)
			}
			return a.printSchema(args)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "write all of them into this directory")
	return c
}

func (o outputs) writeSchemas(dir string) error {
	files, err := schema.Files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // schemas are for other people's programs
		return err
	}
	for name, text := range files {
		err := o.write(filepath.Join(dir, name), 0o644, func(w io.Writer) error { _, err := w.Write(text); return err })
		if err != nil {
			return err
		}
	}
	return nil
}

// printSchema prints one schema, or the whole AsyncAPI document if args is empty.
func (a developCommands) printSchema(args []string) error {
	if len(args) == 0 || args[0] == "asyncapi" {
		document, err := schema.Document()
		if err == nil {
			_, err = a.stdout.Write(document)
		}
		return err
	}
	all, err := schema.All()
	if err != nil {
		return err
	}
	text := all.Text(args[0])
	if text == "" {
		return usage("there is no schema of %.64q: %s", args[0], nearestSchema(all.Names(), args[0]))
	}
	_, err = io.WriteString(a.stdout, text)
	return err
}

// nearestSchema suggests schemas for a mistyped name, as cobra does for commands.
func nearestSchema(names []string, name string) string {
	known := &cobra.Command{SuggestionsMinimumDistance: 3}
	for _, one := range names {
		known.AddCommand(&cobra.Command{Use: one, Run: func(*cobra.Command, []string) {}})
	}
	if near := known.SuggestionsFor(name); len(near) > 0 {
		return "did you mean " + strings.Join(near[:min(len(near), 5)], ", ") + "?"
	}
	return "names are such as order.create, order.delivered or svc.status.answer, and `perennial schema` has all of them"
}
