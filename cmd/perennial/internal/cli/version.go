// `perennial version`.

package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
)

func (a developCommands) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.output == "json" {
				return printJSON(a.stdout, map[string]string{"version": config.Version, "commit": config.Commit(), "go": runtime.Version()})
			}
			built := runtime.Version()
			if commit := config.Commit(); commit != "" {
				built = "commit " + commit + ", " + built
			}
			_, err := fmt.Fprintf(a.stdout, "perennial %s (%s)\n", config.Version, built)
			return err
		},
	}
}
