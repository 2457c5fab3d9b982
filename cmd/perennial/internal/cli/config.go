// `perennial config`, which checks the configuration and shows its values.

package cli

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
)

func (a setupCommands) configCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "config", Short: "Check and show the configuration"}, a.configShow(), a.configCheck())
}

// CheckedConfig is what `config check` prints about a valid configuration.
type CheckedConfig struct {
	File      string   `json:"file"` // "" for the embedded defaults
	Accounts  []string `json:"accounts"`
	Schedules int      `json:"schedules"`
}

func (a setupCommands) configCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Check the configuration file and its secrets, and report every error", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := config.Load(a.configFile)
			if err == nil {
				err = c.CheckSecrets()
			}
			if err != nil {
				return err
			}
			out := CheckedConfig{File: c.File, Accounts: c.AccountNames(), Schedules: len(c.Schedules)}
			if a.output == "json" {
				return printJSON(a.stdout, out)
			}
			_, err = fmt.Fprintf(a.stdout, "%s is valid: %s, %s; a running `perennial run` reads it when it is started again\n", cmp.Or(out.File, "the embedded configuration"),
				english.Plural(len(out.Accounts), "account", ""), english.Plural(out.Schedules, "schedule", ""))
			return err
		},
	}
}

func (a setupCommands) configShow() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show every key with its value and source",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := config.Load(a.configFile)
			if err != nil {
				return err
			}
			list := a.listing("KEY", "VALUE", "FROM")
			for _, s := range c.Settings() {
				text, err := json.Marshal(s.Value)
				if err != nil {
					return err
				}
				said := string(text)
				if word, ok := s.Value.(string); ok {
					said = word
				} else if said == "null" {
					said = ""
				}
				if err := list.add("", s, s.Key, said, s.From); err != nil {
					return err
				}
			}
			return list.end(nil)
		},
	}
}
