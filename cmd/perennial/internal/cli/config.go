// `perennial config show`: the effective configuration.

package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
)

func (a setupCommands) configCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "config", Short: "Check and show the configuration"}, &cobra.Command{
		Use: "show", Aliases: []string{"check"}, Short: "Check the file, and show every key with its value and source",
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
	})
}
