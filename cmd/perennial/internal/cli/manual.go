// `perennial manual`, which writes the manual pages for `make install`.

package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"perennial/cmd/perennial/internal/config"
)

func (a developCommands) manualCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "manual DIRECTORY",
		Short:  "Write the manual pages into a directory",
		Args:   cobra.ExactArgs(1),
		Hidden: true, // only `make install` needs it
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // readable by every user, as manual pages usually are
				return fmt.Errorf("write the manual pages: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // so that the same program always writes the same pages
			walk(root, func(_ string, c *cobra.Command) {
				if by := c.Flags().Lookup("by"); by != nil && by.DefValue == operator() {
					by.DefValue = "" // the default would name the user who builds the pages
				}
			})
			header := &doc.GenManHeader{Title: "PERENNIAL", Section: "1", Source: "perennial " + config.Version, Manual: "Perennial"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write the manual pages: %w", err)
			}
			return nil
		},
	}
}
