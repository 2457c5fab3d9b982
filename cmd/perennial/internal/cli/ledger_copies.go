// `perennial ledger rebuild` and `ledger backup`, which make new files from the ledger.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger"
)

func (a ledgerCommands) ledgerRebuild() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "rebuild", Short: "Rebuild the ledger from its journal and compare", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withLedgerAs(anySchema, func(ctx context.Context, l *ledger.Ledger, account string) error {
				if out == "" {
					c, err := config.Load(a.configFile)
					if err != nil {
						return err
					}
					out = c.LedgerPath(account) + ".rebuilt"
				}
				if err := a.outputs().checkCopy(out); err != nil {
					return err
				}
				v, err := l.Rebuild(ctx, out)
				if errors.Is(err, fs.ErrExist) {
					return fmt.Errorf("%w\nmove it away, or name another file with --out", err)
				}
				return a.printFile(v, err, out, "identical to "+out)
			})(cmd, args)
		},
	}
	c.Flags().StringVar(&out, "out", "", "the new file (default: the ledger's name with .rebuilt)")
	return c
}

func (a ledgerCommands) ledgerBackup() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "backup FILE", Short: "Write a verified copy of the ledger", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withLedger(func(ctx context.Context, l *ledger.Ledger, _ string) error {
				if err := a.outputs().checkCopy(args[0]); err != nil {
					return err
				}
				v, err := l.Backup(ctx, args[0], force)
				if errors.Is(err, fs.ErrExist) {
					return fmt.Errorf("%w\nname another file, or replace it with --force", err)
				}
				if err == nil {
					if noted := l.NoteBackup(v, args[0]); noted != nil {
						fmt.Fprintf(a.stderr, "the backup is good, but perennial_backup_timestamp_seconds will not show it: %v\n", noted)
					}
				}
				return a.printFile(v, err, args[0], "copied to "+args[0]+" and verified there")
			})(cmd, args)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return c
}

// printFile prints the rows and head of a finished file. If err is not nil, it returns err.
func (a ledgerCommands) printFile(v ledger.Verified, err error, file, words string) error {
	if err != nil {
		return a.broken(err)
	}
	if a.output == "json" {
		return printJSON(a.stdout, struct {
			OK   bool   `json:"ok"`
			File string `json:"file"`
			ledger.Verified
		}{true, file, v})
	}
	_, err = fmt.Fprintf(a.stdout, "%d rows, head %s: %s\n", v.Rows, v.Head, words)
	return err
}
