// `perennial ledger verify`, which checks the ledger's file, its archives, the events stream
// and heads that were stored elsewhere.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/journal"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/files"
	"perennial/queue/outbox"
)

// verified is the JSON output of `ledger verify`.
type verified struct {
	OK bool `json:"ok"`
	ledger.Verified
	*ledger.Against

	Expected int `json:"expected,omitempty"` // number of heads given with --expect, all of which were found
}

// proof describes what `ledger verify` checks in addition to the file itself.
type proof struct {
	archives []string
	against  bool
	expect   []string
	temp     string
}

func (a ledgerCommands) ledgerVerify() *cobra.Command {
	var p proof
	c := &cobra.Command{
		Use: "verify [FILE]", Short: "Verify the ledger's chain, balances and file", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.withFile(cmd.Context(), args[0], func(ctx context.Context, l *ledger.Ledger) error {
					return a.verify(ctx, l, args[0], args[0], p)
				})
			}
			return a.withLedgerAs(anySchema, func(ctx context.Context, l *ledger.Ledger, account string) error {
				c, err := config.Load(a.configFile)
				if err != nil {
					return err
				}
				return a.verify(ctx, l, c.LedgerPath(account), "account "+account, p)
			})(cmd, args)
		},
	}
	c.Flags().StringArrayVar(&p.archives, "archive", nil, "an archive to include; repeat the flag for several archives, oldest first")
	c.Flags().BoolVar(&p.against, "against-events", false, "compare every row with its published event")
	c.Flags().StringVar(&p.temp, "temp", "", "directory for the second ledger that verification builds (default: the directory of the ledger, or TMPDIR if that directory is read-only)")
	c.Flags().StringArrayVar(&p.expect, "expect", nil, "a journal head, SEQ:HASH, that was kept elsewhere and that the ledger must contain; may be repeated")
	return c
}

// isSQLite returns an error if a file is not an SQLite database. Without this check, such a
// file would be reported as a damaged ledger, and an operator might replace a good ledger.
func isSQLite(file string) error {
	f, err := files.Open(file)
	if err != nil {
		return usage("%w", err)
	}
	defer func() { _ = f.Close() }()
	const magic = "SQLite format 3\x00"
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(f, head); err != nil || string(head) != magic {
		return &exitError{ExitFailed, fmt.Errorf("%s is no ledger: it does not begin as an SQLite file does\nname a ledger, a backup or an archive of Perennial", file)}
	}
	return nil
}

// withFile calls do with a backup, an archive or a rebuilt ledger.
func (a ledgerCommands) withFile(ctx context.Context, file string, do func(ctx context.Context, l *ledger.Ledger) error) (err error) {
	if err := isSQLite(file); err != nil {
		return err
	}
	c, err := config.Load(a.configFile)
	follows := err == nil && a.externalNATS(c) // a backup may end before the stream ends, which is not a fault
	l, err := ledger.Open(ctx, ledger.Config{Path: file, Clock: time.Now, ReadOnly: true, Inspect: true, Follows: follows})
	if err != nil && files.Writable(file) != nil {
		err = fmt.Errorf("%w\nSQLite writes beside a ledger that is no backup: copy it, with its -wal where there is one, to a directory that can be written, and verify that", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return do(ctx, l)
}

// verifyIn returns the directory in which a file is verified: --temp, the file's directory
// if it is writable, or TMPDIR.
func verifyIn(temp, file string) (string, error) {
	if temp != "" {
		return temp, nil
	}
	err := files.Writable(file)
	if err == nil {
		return filepath.Dir(file), nil
	}
	if temp = os.Getenv("TMPDIR"); temp != "" {
		return temp, nil
	}
	return "", fmt.Errorf("%s is verified with a second ledger of its size, which cannot be made beside it: %w\nuse --temp DIR, a directory that has room for it, or set TMPDIR", file, err)
}

func (a ledgerCommands) verify(ctx context.Context, l *ledger.Ledger, file, name string, p proof) error {
	room, err := verifyIn(p.temp, file)
	if err != nil {
		return err
	}
	l.VerifyIn(room)
	expected := make([]chain.Head, 0, len(p.expect))
	for _, text := range p.expect {
		h, err := chain.ParseHead(text)
		if err != nil {
			return usage("--expect: %w", err)
		}
		expected = append(expected, h)
	}
	v, err := l.VerifyWith(ctx, p.archives...)
	if err == nil {
		err = l.Expect(ctx, expected, p.archives...)
	}
	if err != nil {
		return a.broken(err)
	}
	out := verified{OK: true, Verified: v, Expected: len(expected)}
	if p.against {
		if out.Against, err = a.verifyAgainst(ctx, l); err != nil {
			return a.broken(err)
		}
	}
	if a.output == "json" {
		return printJSON(a.stdout, out)
	}
	return a.printVerified(name, out)
}

func (a ledgerCommands) printVerified(name string, v verified) error {
	_, err := fmt.Fprintf(a.stdout, "%s: %d rows, schema, chain, balances and projections hold; head %s\n", name, v.Rows, v.Head)
	if v.Behind != nil {
		fmt.Fprintf(a.stdout, "%s: they follow row %d %s, which was archived: prove it from row 1 with --archive FILE for each archive\n", name, v.Behind.Seq, v.Behind.Hash)
	}
	for _, x := range v.Backdated {
		fmt.Fprintf(a.stdout, "%s: row %d says %s, when later ones had been booked: it is booked at %s\n", name, x.Seq, x.Time.Format(time.RFC3339), x.BookedAt.Format(time.RFC3339))
	}
	if v.Expected > 0 {
		fmt.Fprintf(a.stdout, "%s: %d heads that were kept elsewhere are here\n", name, v.Expected)
	}
	if v.Against != nil {
		fmt.Fprintf(a.stdout, "%s: %d rows are on the events stream as they are here, %d are not published yet\n", name, v.Published, v.Unpublished)
		if v.NotHere > 0 {
			fmt.Fprintf(a.stdout, "%s: the stream has %d further rows, which are not folded here yet\n", name, v.NotHere)
		}
		if v.Removed > 0 {
			fmt.Fprintf(a.stdout, "%s: the stream begins with row %d: what was before is archived, and the snapshot beside the stream contains it\n", name, v.Removed+1)
		}
	}
	return err
}

func (a ledgerCommands) verifyAgainst(ctx context.Context, l *ledger.Ledger) (*ledger.Against, error) {
	c, account, err := a.configured()
	if err != nil {
		return nil, err
	}
	h, err := a.openHistory(c, account)
	if err != nil {
		return nil, err
	}
	defer h.close()
	noted, err := l.Published(ctx) // read before the stream, because a runner may publish and record more meanwhile
	if err != nil {
		return nil, err
	}
	result, err := l.VerifyAgainst(ctx, h.events(ctx, 1))
	if err == nil {
		err = missingEvents(noted, uint64(result.Removed+result.Published))
	}
	if err == nil && result.Removed > 0 {
		err = h.checkSnapshot(ctx, result.Removed)
	}
	return &result, err
}

// missingEvents returns an error if the stream lacks events that the ledger has recorded as
// published. The advice in the error depends on the cause. `perennial run` publishes again
// the events that a power cut may have lost, but no others.
func missingEvents(noted ledger.Published, last uint64) error {
	why, then := journal.HeldFromNote(noted).Missing(last), journal.RefillAdvice
	if why == "" {
		why = outbox.Held{Last: uint64(noted.Seq), Firm: uint64(noted.Seq)}.Missing(last)
		then = "a power cut explains it: `perennial run` publishes them again from the ledger"
	}
	if why == "" {
		return nil
	}
	return &chain.BrokenError{Check: "events", Seq: int64(last) + 1, Detail: why + "\n" + then}
}

// checkSnapshot returns an error if the snapshot that a restore needs is missing or damaged. It
// is for a stream that no longer has the events up to and including the given row.
func (h *history) checkSnapshot(ctx context.Context, removed int64) (err error) {
	missing := &chain.BrokenError{Check: "events", Seq: removed, Detail: "its event was removed and no snapshot beside the stream contains it: `perennial ledger archive` stores it again"}
	snapshot, open, err := h.snapshot(ctx)
	if err != nil {
		return err
	}
	if snapshot == nil || snapshot.Seq < removed {
		return missing
	}
	content, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return ledger.CheckSnapshot(content, *snapshot)
}

// broken returns err. If err contains a failed check, the exit code is 1 and -o json prints
// it.
func (a ledgerCommands) broken(err error) error {
	broken, ok := errors.AsType[*chain.BrokenError](err)
	if !ok {
		return err
	}
	if a.output == "json" {
		_ = printJSON(a.stdout, map[string]any{"ok": false, "check": broken.Check, "seq": broken.Seq, "detail": broken.Detail})
	}
	return &exitError{ExitFailed, err}
}
