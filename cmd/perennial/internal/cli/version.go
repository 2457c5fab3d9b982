// `perennial version`.

package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.output == "json" {
				return printJSON(a.stdout, map[string]string{"version": config.Version, "go": runtime.Version()})
			}
			_, err := fmt.Fprintf(a.stdout, "perennial %s (%s)\n", config.Version, runtime.Version())
			return err
		},
	}
}
