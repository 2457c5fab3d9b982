package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/journal"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/files"
	"perennial/ledger/report"
	"perennial/ledger/tables"
	"perennial/queue/outbox"
)

func (a ledgerCommands) ledgerCommand() *cobra.Command {
	c := &cobra.Command{Use: "ledger", Short: "Balances, entries, statements and reconciliation"}
	c.AddCommand(a.ledgerBalance(), a.ledgerEntries(), a.ledgerStatement(), a.ledgerExport(), a.ledgerVerify(), a.ledgerReconcile(), a.ledgerRecord(),
		hidden(a.backupCreate("backup FILE")), hidden(a.backupRestore()), hidden(a.backupArchive()), hidden(a.backupRebuild())) // their names before the group `backup`
	return c
}

func (a ledgerCommands) backupCommand() *cobra.Command {
	c := &cobra.Command{Use: "backup", Aliases: []string{"backups"}, Short: "Create and restore backups, archive old rows, and rebuild the ledger"}
	c.AddCommand(a.backupCreate("create FILE"), a.backupRestore(), a.backupArchive(), a.backupRebuild())
	return c
}

// openLedger opens the account's ledger file for reading. A runner may be using the ledger.
func (a *app) openLedger(ctx context.Context) (*ledger.Ledger, string, error) {
	return a.openLedgerAs(ctx, checkedSchema)
}

// schemaMode determines whether a ledger file with a changed schema is accepted.
type schemaMode bool

const (
	checkedSchema schemaMode = false
	anySchema     schemaMode = true // accepts any schema, to inspect the file
)

// openLedgerAs is like openLedger, but the caller selects which schemas are accepted.
func (a *app) openLedgerAs(ctx context.Context, mode schemaMode) (*ledger.Ledger, string, error) {
	c, account, err := a.configured()
	if err != nil {
		return nil, "", err
	}
	l, err := ledger.Open(ctx, ledger.Config{Path: c.LedgerPath(account), Clock: time.Now, ReadOnly: true, Inspect: bool(mode), Follows: c.NATS.External()})
	return l, account, err
}

func (a *app) withLedger(do func(ctx context.Context, l *ledger.Ledger, account string) error) action {
	return a.withLedgerAs(checkedSchema, do)
}

// eachLedger calls do with the ledger of every selected account. If only one account is
// selected, it passes "" as account.
func (a *app) eachLedger(ctx context.Context, do func(ctx context.Context, l *ledger.Ledger, account string) error) error {
	return a.eachAccount(ctx, func(one *app, account string) error {
		return one.withLedger(func(ctx context.Context, l *ledger.Ledger, _ string) error { return do(ctx, l, account) })(ctx, nil)
	})
}

// withLedgerAs is like withLedger, but the caller selects which schemas are accepted.
func (a *app) withLedgerAs(mode schemaMode, do func(ctx context.Context, l *ledger.Ledger, account string) error) action {
	return func(ctx context.Context, _ []string) (err error) {
		l, account, err := a.openLedgerAs(ctx, mode)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		return do(ctx, l, account)
	}
}

func (a ledgerCommands) ledgerBalance() *cobra.Command {
	var by string
	var limit int
	c := newCommand("balance", "Show wallet, charges, refunds, and suspense (charges whose result is unknown)", func(ctx context.Context, _ []string) error {
		if _, known := countedBy[by]; by != "" && !known {
			return usage("--by %s: use order, renewal, ip, label or day", by)
		}
		if by != "" {
			return a.listTotals(ctx, by, limit)
		}
		return a.eachAccount(ctx, func(one *app, _ string) error {
			return one.withLedger(func(ctx context.Context, l *ledger.Ledger, account string) error {
				p, err := l.Money.Position(ctx, account)
				if err != nil {
					return err
				}
				c, err := l.Report().Corrections(ctx)
				if err != nil {
					return err
				}
				return a.printBalance(p.WithUnbooked(), c)
			})(ctx, nil)
		})
	})
	c.Flags().StringVar(&by, "by", "", "break spending down: by order, renewal, ip, label or day")
	limitFlag(c, &limit, 1000, "with --by: how many")
	return c
}

// countedBy maps each grouping of totals to the heading of its count column.
var countedBy = map[string]string{"order": "PROXIES", "renewal": "PROXIES", "ip": "RENEWALS", "label": "COMMANDS", "day": "CHARGES"}

func (a ledgerCommands) listTotals(ctx context.Context, by string, limit int) error {
	heading := strings.ToUpper(by)
	if by == "day" {
		heading += " (UTC)"
	}
	list := a.listing("nothing was spent", heading, countedBy[by], "CHARGED", "REFUNDED", "OUTSIDE", "NET")
	return list.end(a.eachLedger(ctx, func(ctx context.Context, l *ledger.Ledger, account string) error {
		currency, err := l.Currency(ctx)
		if err != nil {
			return err
		}
		totals, err := l.Money.TotalsBy(ctx, by, limit)
		if err != nil {
			return err
		}
		for _, x := range totals {
			list.add(account, x, x.Subject, countText(by, x), money(x.ChargedCents, currency), money(x.RefundedCents, currency),
				money(x.RecordedCents, currency), money(x.NetCents, currency))
		}
		return nil
	}))
}

// countText formats the count of a total. It returns "" for the total of all groups that are not
// listed, because the total's name already includes the count. The count is not known for an
// order that an operator resolved, because no reply from the provider gave the number of
// proxies.
func countText(by string, x tables.BookTotal) string {
	switch {
	case x.Rest:
		return ""
	case by == "order" && x.Count == 0 && x.ChargedCents > 0:
		return "not known"
	}
	return strconv.FormatInt(x.Count, 10)
}

// printBalance prints a balance. The provider's own sums lack what corrections took back.
func (a ledgerCommands) printBalance(b tables.Balance, c report.Corrections) error {
	rows := [][]string{
		{"funding", money(b.FundingCents, b.Currency)},
		{"external", money(b.ExternalCents, b.Currency)},
		{"charged (gross)", money(b.ChargedCents, b.Currency)},
		{"  of which suspense", money(b.SuspenseCents, b.Currency)},
		{"refunded", money(b.RefundedCents, b.Currency)},
		{"net spent", money(b.ChargedCents-b.RefundedCents, b.Currency)},
		{"wallet", money(b.WalletCents, b.Currency)},
		{"journal head", b.Head.String()},
	}
	if c.Count > 0 {
		rows = slices.Insert(rows, 5, []string{"  corrections", c.Text(b.Currency)})
	}
	if u := b.Unbooked; u != nil && u.Operations > 0 {
		rows = append(rows, []string{"not booked yet", unbookedText(*u, b.Currency)})
	}
	return a.printTable(b, []string{"ACCOUNT", b.Account}, rows)
}

// unbookedText formats the estimated cost of operations that are not booked yet. It never
// shows an unknown price as zero.
func unbookedText(u tables.Unbooked, currency string) string {
	return fmt.Sprintf("%s by %s (estimate)", fact.Sum{Cents: u.EstimateCents.Or(0), Lacks: u.Unknown}.Text(currency), english.Plural(u.Operations, "operation", ""))
}

func (a ledgerCommands) ledgerEntries() *cobra.Command {
	var from int64
	var since time.Duration
	var limit int
	c := newCommand("entries", "List postings in the order they were booked", a.withLedger(func(ctx context.Context, l *ledger.Ledger, _ string) error {
		currency, err := l.Currency(ctx)
		if err != nil {
			return err
		}
		if since > 0 {
			seq, err := l.SeqAt(ctx, time.Now().Add(-since))
			if err != nil {
				return err
			}
			from = max(from, seq+1)
		}
		buffered, out := *a.app, bufio.NewWriter(a.stdout) // there may be millions of entries
		buffered.stdout = out
		list := buffered.listing("no entries", "SEQ", "TIME", "KIND", "ACCOUNT", "AMOUNT", "OPERATION", "ABOUT", "BY", "REASON")
		next, err := l.Money.EachPosting(ctx, from, limit, func(p tables.Posting) error {
			list.add("", p, strconv.FormatInt(p.Seq, 10), p.Time.Format(time.RFC3339), kindText(p), p.Account, money(p.AmountCents, currency), p.Operation,
				cmp.Or(p.ProxyID, p.OrderNo), fact.Signed(p.By, p.User), p.Reason)
			return list.err
		})
		if err == nil {
			err = list.end(nil)
		}
		return errors.Join(err, out.Flush(), a.entriesContinue(next))
	}))
	wholeVar(c.Flags(), &from, "from", 0, "start at this journal sequence")
	c.Flags().Var(span{&since}, "since", "only entries booked within this time, such as 1d or 12h")
	limitFlag(c, &limit, 1000, "how many")
	return c
}

// entriesContinue prints how to continue a list after its limit. next is 0 if the list is
// complete.
func (a ledgerCommands) entriesContinue(next int64) error {
	if next == 0 {
		return nil
	}
	_, err := fmt.Fprintf(a.stderr, "there are more entries: continue with --from %d, or ask for more with --limit\n", next)
	return err
}

func kindText(p tables.Posting) string {
	if p.CorrectsSeq == 0 {
		return p.Kind
	}
	return fmt.Sprintf("%s, corrects %d", p.Kind, p.CorrectsSeq)
}

func (a ledgerCommands) ledgerExport() *cobra.Command {
	var from, to, format, file string
	var included bool
	c := newCommand("export", "Export the entries of a period: CSV, JSON lines, Beancount", a.withLedger(func(ctx context.Context, l *ledger.Ledger, account string) error {
		p, err := period(from, to)
		if err != nil {
			return err
		}
		if included && format != "beancount" {
			return usage("--included is of --format beancount alone")
		}
		return a.writeAs(file, format, "csv, jsonl or beancount", map[string]func(io.Writer) error{
			"csv":       func(w io.Writer) error { return l.Report().ExportCSV(ctx, w, p) },
			"jsonl":     func(w io.Writer) error { return l.Report().ExportJSON(ctx, w, p) },
			"beancount": func(w io.Writer) error { return l.Report().ExportBeancount(ctx, w, account, p, included) },
		})
	}))
	f := c.Flags()
	f.StringVar(&from, "from", "", "first day, such as 2026-11-01, or a time (default: the first entry)")
	f.StringVar(&to, "to", "", "end of the period, exclusive: a day or a time (default: after the last entry)")
	f.StringVar(&format, "format", "csv", "csv, jsonl or beancount")
	f.StringVar(&file, "out", "-", "file to write; - is the standard output")
	f.BoolVar(&included, "included", false, "beancount: another book will include the file, so leave out the openings of accounts and the opening balances")
	return c
}

func (a ledgerCommands) ledgerStatement() *cobra.Command {
	var month, format, file string
	c := newCommand("statement", "Print a month's statement, by day and by label", a.withLedger(func(ctx context.Context, l *ledger.Ledger, account string) error {
		begin := time.Now().UTC()
		if month != "" {
			var err error
			if begin, err = time.Parse("2006-01", month); err != nil {
				return usage("--month is %q: write it as 2026-11", month)
			}
		}
		begin = time.Date(begin.Year(), begin.Month(), 1, 0, 0, 0, 0, time.UTC)
		if begin.After(time.Now()) {
			return usage("--month is %s, which has not begun", month)
		}
		s, err := l.Report().Statement(ctx, account, report.Period{From: begin, To: begin.AddDate(0, 1, 0)})
		if err != nil {
			return err
		}
		if a.output == "json" {
			format = "json"
		}
		return a.writeAs(file, format, "markdown, html or csv", map[string]func(io.Writer) error{
			"markdown": s.WriteMarkdown, "html": s.WriteHTML, "csv": s.WriteCSV, "json": func(w io.Writer) error { return printJSON(w, s) },
		})
	}))
	f := c.Flags()
	f.StringVar(&month, "month", "", "the month (UTC), such as 2026-11 (default: this month)")
	f.StringVar(&format, "format", "markdown", "markdown, html or csv")
	f.StringVar(&file, "out", "-", "file to write; - is the standard output")
	return c
}

// writeAs writes the chosen format to a file, atomically. If the file is "-", it writes to
// standard output.
func (a ledgerCommands) writeAs(file, format, known string, formats map[string]func(io.Writer) error) error {
	write := formats[format]
	if write == nil {
		return usage("--format is %q: use %s", format, known)
	}
	if file == "-" {
		return write(a.stdout)
	}
	return a.outputs().write(file, 0o600, write)
}

func (a ledgerCommands) backupRebuild() *cobra.Command {
	var out string
	c := newCommand("rebuild", "Rebuild the ledger from its journal into a new file, and compare the two", func(ctx context.Context, args []string) error {
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
		})(ctx, args)
	})
	c.Flags().StringVar(&out, "out", "", "the new file (default: the ledger's name with .rebuilt)")
	return c
}

func (a ledgerCommands) backupCreate(use string) *cobra.Command {
	var force bool
	c := newCommand(use, "Write a verified copy of the ledger", func(ctx context.Context, args []string) error {
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
		})(ctx, args)
	})
	c.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return c
}

// printFile prints the number of rows and the head hash of a finished file. If err is not nil,
// it only passes err to broken.
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

// verified is the JSON output of `ledger verify`.
type verified struct {
	OK      bool   `json:"ok"`
	Account string `json:"account,omitempty"` // if there are several
	ledger.Verified
	*ledger.Against

	Expected int `json:"expected,omitempty"` // number of heads given with --expect, all of which were found
}

type proof struct {
	archives []string
	against  bool
	expect   []string
	temp     string
}

func (a ledgerCommands) ledgerVerify() *cobra.Command {
	var p proof
	c := newCommand("verify [FILE]", "Verify the ledger's chain, balances and file", func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			return a.withFile(ctx, args[0], func(ctx context.Context, l *ledger.Ledger) error {
				return a.verify(ctx, l, args[0], args[0], p)
			})
		}
		if len(p.archives) > 0 || len(p.expect) > 0 { // they are of one account
			return a.verifyAccount(ctx, p)
		}
		return a.eachAccount(ctx, func(one *app, _ string) error { return ledgerCommands{one}.verifyAccount(ctx, p) })
	})
	c.Flags().StringArrayVar(&p.archives, "archive", nil, "an archive to include; repeat the flag for several archives, oldest first")
	c.Flags().BoolVar(&p.against, "against-events", false, "compare every row with its published event")
	c.Flags().StringVar(&p.temp, "temp", "", "directory for the second ledger that verification builds (default: the directory of the ledger, or TMPDIR if that directory is read-only)")
	c.Flags().StringArrayVar(&p.expect, "expect", nil, "a journal head, SEQ:HASH, that was kept elsewhere and that the ledger must contain; may be repeated")
	return c
}

func (a ledgerCommands) verifyAccount(ctx context.Context, p proof) error {
	return a.withLedgerAs(anySchema, func(ctx context.Context, l *ledger.Ledger, account string) error {
		c, err := config.Load(a.configFile)
		if err != nil {
			return err
		}
		return a.verify(ctx, l, c.LedgerPath(account), "account "+account, p)
	})(ctx, nil)
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

func (a ledgerCommands) withFile(ctx context.Context, file string, do func(ctx context.Context, l *ledger.Ledger) error) (err error) {
	if err := isSQLite(file); err != nil {
		return err
	}
	c, err := config.Load(a.configFile)
	follows := err == nil && a.externalNATS(c) // a backup may end before the stream ends, which is not a fault
	l, err := ledger.Open(ctx, ledger.Config{Path: file, Clock: time.Now, ReadOnly: true, Inspect: true, Follows: follows, Copy: !ofAccount(c, file)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return do(ctx, l)
}

// ofAccount reports whether a file is the ledger of a configured account.
func ofAccount(c *config.Config, file string) bool {
	given, err := os.Stat(file)
	if err != nil || c == nil {
		return false
	}
	for name := range c.Accounts {
		if info, err := os.Stat(c.LedgerPath(name)); err == nil && os.SameFile(given, info) {
			return true
		}
	}
	return false
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
	out := verified{OK: true, Account: a.account, Verified: v, Expected: len(expected)}
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
		fmt.Fprintf(a.stdout, "%s: contains %s kept elsewhere\n", name, english.Plural(v.Expected, "head", ""))
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

// missingEvents returns an error if the stream lacks events that were published, according to
// the ledger. The advice in the error depends on the cause. `perennial run` republishes only
// those events that a power cut can have lost.
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

// checkSnapshot returns an error if the snapshot that a restore needs is missing or damaged. A
// restore needs a snapshot if events were removed from the stream. The parameter removed is the
// last removed row.
func (h *history) checkSnapshot(ctx context.Context, removed int64) (err error) {
	missing := &chain.BrokenError{Check: "events", Seq: removed, Detail: "its event was removed and no snapshot beside the stream contains it: `perennial backup archive` stores it again"}
	snapshot, open, err := journal.VouchedSnapshot(ctx, h.queue, h.account)
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

// broken handles an error that contains a failed check: it adds the exit code 1, and -o json
// prints the check. It returns any other error unchanged.
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
