package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// version is set by the release build (-ldflags "-X main.version=…").
var version = "0.1.0"

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.output == "json" {
				return printJSON(a.stdout, map[string]string{"version": version, "go": runtime.Version()})
			}
			_, err := fmt.Fprintf(a.stdout, "perennial %s (%s)\n", version, runtime.Version())
			return err
		},
	}
}
