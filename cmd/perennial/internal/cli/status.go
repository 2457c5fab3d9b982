package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/queue/service"
	"perennial/upstream"
)

func (a statusCommands) statusCommand() *cobra.Command {
	var as string
	var f listFlags
	var c *cobra.Command
	c = newCommand("status [ID]", "Show the account's health, or one command", func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			of, err := idOf(as)
			if err != nil {
				return err
			}
			return a.showStatus(ctx, args[0], of)
		}
		if f.given(c) { // older form of 'operations list'
			return a.listAsFlagged(ctx, &f)
		}
		return a.showAccounts(ctx)
	})
	c.Long = `Show each account at a glance: whether it works, what needs you, what expires, how long
the wallet lasts, and whether the books agree with the provider. Then list the latest operations.
With an ID, show that command or operation in full.`
	f.add(c)
	for _, name := range listFlagNames {
		_ = c.Flags().MarkHidden(name)
	}
	asFlag(c, &as)
	return c
}

func (a statusCommands) operationsCommand() *cobra.Command {
	var as string
	show := newCommand("show ID", "Show a command or an operation in full", func(ctx context.Context, args []string) error {
		of, err := idOf(as)
		if err != nil {
			return err
		}
		return a.showStatus(ctx, args[0], of)
	})
	asFlag(show, &as)
	var f listFlags
	list := newCommand("list", "List operations, most recently accepted first", func(ctx context.Context, _ []string) error { return a.listAsFlagged(ctx, &f) })
	f.add(list)
	list.Flags().BoolVar(&f.open, "open", false, "only operations that have not ended")
	return noun(&cobra.Command{Use: "operations", Aliases: []string{"operation"}, Short: "List and show operations"}, list, show)
}

type listFlags struct {
	q     verbs.ListRequest
	since time.Duration
	open  bool
}

var listFlagNames = []string{"all", "state", "kind", "label", "since", "limit"}

func (f *listFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.q.All, "all", true, "show operations that have ended too")
	_ = c.Flags().MarkHidden("all") // the default; the opposite of --open
	c.Flags().StringVar(&f.q.State, "state", "", "only operations in this state, such as review")
	c.Flags().StringVar(&f.q.Kind, "kind", "", "only operations of this kind: "+strings.Join(namesOf(jobs.Kinds()), " or "))
	c.Flags().StringToStringVar(&f.q.Labels, "label", nil, "only operations of commands with this label, key=value; may be repeated")
	c.Flags().Var(span{&f.since}, "since", "only operations accepted within this time, such as 1d or 12h")
	limitFlag(c, &f.q.Limit, 50, "how many, most recently accepted first")
}

func (f *listFlags) given(c *cobra.Command) bool {
	return slices.ContainsFunc(listFlagNames, func(name string) bool { return c.Flags().Changed(name) })
}

// checkList returns an error for filters that match nothing.
func checkList(q verbs.ListRequest) error {
	if q.Kind != "" && !slices.Contains(jobs.Kinds(), fact.Kind(q.Kind)) {
		return usage("--kind is %q: use %s", q.Kind, strings.Join(namesOf(jobs.Kinds()), ", "))
	}
	if q.State != "" && !slices.Contains(fact.States, fact.State(q.State)) {
		return usage("--state is %q: use %s", q.State, strings.Join(namesOf(fact.States), ", "))
	}
	return nil
}

// listAsFlagged prints the latest operations of all accounts together.
func (a statusCommands) listAsFlagged(ctx context.Context, f *listFlags) error {
	q := f.q
	q.All = q.All && !f.open
	if err := checkList(q); err != nil {
		return err
	}
	if f.since > 0 {
		q.Since = time.Now().Add(-f.since)
	}
	var rows operationRows
	err := a.eachAccount(ctx, func(one *app, account string) error {
		if a.output != "json" {
			one.notePauses(ctx, account)
		}
		return rows.read(ctx, one, account, q)
	})
	if err != nil && len(rows) == 0 {
		return err
	}
	return errors.Join(a.printOperations(rows, q.Limit), err)
}

// readStatus asks the runner for the status. If no runner answers, it reads the status from the
// ledger, and answered is false.
func (a statusCommands) readStatus(ctx context.Context, id string, as inspect.As) (s inspect.CommandStatus, answered bool, err error) {
	s, answered, err = askRunning(ctx, a.app, verbs.Status, verbs.OperatorRequest{}.Named(id, as))
	if answered {
		return s, true, err
	}
	l, _, ledgerErr := a.openLedger(ctx)
	if ledgerErr != nil {
		return s, false, errors.Join(err, ledgerErr)
	}
	defer func() { _ = l.Close() }()
	s, err = inspect.StatusAs(ctx, l, id, as)
	if errors.Is(err, ledger.ErrNotFound) {
		err = &notFoundError{daemon.NothingOfID}
	}
	return s, false, err
}

// showStatus prints the command with an id. If several accounts have the id, it returns an
// error.
func (a statusCommands) showStatus(ctx context.Context, id string, as inspect.As) error {
	type hit struct {
		account string
		status  inspect.CommandStatus
	}
	var hits []hit
	var missing error
	err := a.eachAccount(ctx, func(one *app, account string) error {
		s, answered, err := statusCommands{one}.readStatus(ctx, id, as)
		if _, ok := errors.AsType[*notFoundError](err); ok {
			if missing == nil || missing.Error() == daemon.NothingOfID {
				missing = err
			}
			return nil
		}
		if err == nil {
			hits = append(hits, hit{account, s})
			if !answered && a.output != "json" {
				fmt.Fprintln(a.stderr, "no runner answers: this is from the ledger, and nothing is sent until `perennial run` works")
			}
		}
		return err
	})
	switch len(hits) {
	case 0:
		if err == nil && missing != nil && missing.Error() != daemon.NothingOfID {
			return missing // the runner's error gives the state of the command
		}
		if err == nil && missing != nil {
			return &exitError{ExitFailed, &notFoundError{fmt.Sprintf("there is no command or operation %q: `perennial operations list` shows the latest", id)}}
		}
		return err
	case 1:
		return errors.Join(a.printStatus(hits[0].account, a.shown(hits[0].status, id, as)), err)
	}
	names := make([]string, 0, len(hits))
	for _, h := range hits {
		names = append(names, h.account)
	}
	return errors.Join(usage("%q is an id in several accounts (%s): say which with --account", id, strings.Join(names, ", ")), err)
}

// shown returns what is printed of a command's status. If the id is an operation's id, a table
// shows only that operation.
func (a statusCommands) shown(s inspect.CommandStatus, id string, as inspect.As) inspect.CommandStatus {
	if as == inspect.AsCommand || a.output == "json" {
		return s
	}
	if i := slices.IndexFunc(s.Operations, func(o inspect.OperationStatus) bool { return o.OperationID == id }); i >= 0 {
		s.Operations = s.Operations[i : i+1]
	}
	return s
}

type operationRows []operationRow

type operationRow struct {
	account   string
	operation inspect.OperationStatus
}

// read adds the operations of an account to the rows. It also warns about the account's failing
// schedules. If no runner answers, it adds the operations in the ledger and returns an error.
func (rows *operationRows) read(ctx context.Context, a *app, account string, q verbs.ListRequest) error {
	list, answered, err := askRunning(ctx, a, verbs.List, q)
	if _, wrong := errors.AsType[*config.NotConfiguredError](err); !answered && !wrong {
		_ = rows.readLedger(ctx, a, account, q) // without a ledger, nothing can be shown
		return &exitError{ExitUnreachable, cmp.Or(err, service.ErrNoRunner)}
	}
	rows.add(account, list)
	if err != nil {
		return err
	}
	return a.warnOfSweeps(ctx, account)
}

func (rows *operationRows) add(account string, list []inspect.OperationStatus) {
	for _, o := range list {
		*rows = append(*rows, operationRow{account, o})
	}
}

func (rows *operationRows) readLedger(ctx context.Context, a *app, account string, q verbs.ListRequest) error {
	return a.withLedger(func(ctx context.Context, l *ledger.Ledger, _ string) error {
		list, err := daemon.ListOperations(ctx, l, q)
		rows.add(account, list)
		return err
	})(ctx, nil)
}

func (a *app) notePauses(ctx context.Context, account string) {
	v, err := askOnce(ctx, a, verbs.Show, struct{}{})
	if err != nil {
		return
	}
	for _, p := range v.Paused {
		fmt.Fprintln(a.stderr, strings.TrimPrefix(account+": ", ": ")+inspect.PauseText(p))
	}
}

func (a statusCommands) printOperations(rows operationRows, limit int) error {
	slices.SortStableFunc(rows, func(x, y operationRow) int { return y.operation.AcceptedAt.Compare(x.operation.AcceptedAt) })
	list := a.listing("no operations", "OPERATION", "KIND", "STATE", "ATTEMPTS", "CHARGED", "REFUNDED", "NET", "ACCEPTED", "REASON")
	for _, r := range rows[:min(len(rows), limit)] {
		o := r.operation
		list.add(r.account, o, cmp.Or(o.OperationID, o.CommandID), string(o.Kind), o.StateText(), strconv.FormatInt(o.Attempts, 10), o.ChargedText(),
			money(o.RefundedCents, o.Currency), o.NetOrCharged(), ago(&o.AcceptedAt), printable(o.Reason))
	}
	return list.end(nil)
}

const lastShown = 10

// showAccounts prints a summary of every selected account, then the latest operations. If no
// runner answers, it shows what the ledger contains, and the error has the exit code
// ExitUnreachable.
func (a statusCommands) showAccounts(ctx context.Context) error {
	var last operationRows
	latest := verbs.ListRequest{All: true, Limit: lastShown}
	err := a.eachAccount(ctx, func(one *app, account string) error {
		v, answered, err := askRunning(ctx, one, verbs.AtAGlance, verbs.SummaryRequest{})
		if _, wrong := errors.AsType[*config.NotConfiguredError](err); wrong {
			return err
		}
		if !answered {
			why := one.whyNotReady(ctx)
			silent := &exitError{ExitUnreachable, cmp.Or(err, why, service.ErrNoRunner)}
			if one.withLedger(func(ctx context.Context, l *ledger.Ledger, name string) (err error) {
				v, err = daemon.Summarize(ctx, l, name, time.Now())
				return err
			})(ctx, nil) != nil {
				return silent
			}
			v.NotReady = "no runner answers"
			if why != nil {
				v.NotReady = why.Error()
			}
			err = a.printSummary(v)
			if a.output != "json" {
				err = errors.Join(err, last.readLedger(ctx, one, account, latest))
			}
			return errors.Join(err, silent)
		}
		if err == nil {
			err = a.printSummary(v)
		}
		if err != nil || a.output == "json" {
			return err
		}
		return last.read(ctx, one, account, latest)
	})
	if len(last) == 0 {
		return err
	}
	_, blank := fmt.Fprintln(a.stdout)
	return errors.Join(blank, a.printOperations(last, lastShown), err)
}

// whyNotReady returns the reasons why a process that runs here does not work for the account. It
// returns nil if there is none.
func (a *app) whyNotReady(ctx context.Context) error {
	c, account, err := a.configured()
	if err != nil {
		return nil //nolint:nilerr // the caller reports what follows from it
	}
	v, err := readReadiness(ctx, c.DataDir)
	if err != nil {
		return nil //nolint:nilerr // no process runs here
	}
	var reasons []string
	for _, detail := range v.Failing(account) {
		if !slices.Contains(reasons, detail) {
			reasons = append(reasons, detail)
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return errors.New(strings.Join(reasons, "\n"))
}

func (a statusCommands) printSummary(v verbs.Summary) error {
	state := "ready"
	if v.Role != "" {
		state += ", " + v.Role
	}
	if !v.Ready {
		state = "NOT READY: " + strings.ReplaceAll(v.NotReady, "\n", "; ")
	}
	rows := [][]string{{"state", state}}
	if v.ConfigChanged != "" {
		rows = append(rows, []string{"configuration", v.ConfigChanged})
	}
	for _, p := range v.Paused {
		rows = append(rows, []string{"paused", inspect.PauseText(p)})
	}
	rows = append(rows, []string{"needs you", needsText(v)}, []string{"expiring", expiringText(v.Expiring, v.Schedules)}, []string{"runway", runwayText(v)}, []string{"books", booksText(v.Books, time.Now())})
	return a.printTable(v, []string{"ACCOUNT", v.Account}, rows)
}

// needsText lists what needs an operator. Each entry has the CLI command that shows it.
func needsText(v verbs.Summary) string {
	n, all, unknown := v.Needs, v.Needs.Parts(), "not known without a runner"
	if v.Role != "" { // a runner answers, and the account has not started yet
		unknown = "not known until the account works"
	}
	parts := make([]string, 0, len(all))
	for _, p := range all {
		parts = append(parts, fmt.Sprintf("%s (perennial %s)", p.Text(), p.Command))
	}
	switch {
	case len(parts) > 0 && n.Plans == nil:
		return fmt.Sprintf("%s: %s; plans, skipped proxies and proxies in no schedule are %s", humanize.Comma(n.Total), strings.Join(parts, ", "), unknown)
	case len(parts) > 0:
		return fmt.Sprintf("%s: %s", humanize.Comma(n.Total), strings.Join(parts, ", "))
	case n.Plans == nil:
		return unknown + "; the ledger has no operation in review or on hold"
	}
	return "nothing"
}

func expiringText(e *verbs.Expiring, schedules *int64) string {
	if e == nil {
		return "not known: no listing of the proxies is complete yet"
	}
	text := fmt.Sprintf("%s within 24 h, %s within 72 h, %s within 7 days, of %s", humanize.Comma(e.Day), humanize.Comma(e.ThreeDays), humanize.Comma(e.Week), humanize.Comma(e.All))
	if e.Expired > 0 {
		text += fmt.Sprintf("; %s expired", humanize.Comma(e.Expired))
	}
	if e.Unreadable > 0 {
		text += fmt.Sprintf("; %s cannot be read (perennial schedules plan SCHEDULE)", humanize.Comma(e.Unreadable))
	}
	if schedules != nil && *schedules == 0 && e.All > 0 {
		text += "; NO SCHEDULE RENEWS THEM: add one under schedules in the configuration (`perennial init` writes a configuration with an example), or renew them with `perennial renew`"
	}
	return text
}

func runwayText(v verbs.Summary) string {
	r := v.Runway
	basis := map[string]string{"forecast": "by the schedules' forecast", "spending": "as spent in the last 7 days"}
	switch {
	case r == nil && v.Role == "":
		return "not known without a runner"
	case r == nil:
		return "not known: too little was spent to tell, or prices are not known"
	case r.More:
		return fmt.Sprintf("more than %d days (%s)", r.Days, basis[r.Basis])
	}
	text := english.Plural(r.Days, "day", "")
	if r.RunsOutOn != "" {
		text += ", until " + r.RunsOutOn
	}
	if r.Unpriced > 0 {
		text += fmt.Sprintf(", earlier with %s of unknown price", english.Plural(r.Unpriced, "renewal", ""))
	}
	return text + " (" + basis[r.Basis] + ")"
}

func booksText(b verbs.Books, now time.Time) string {
	text := "wallet " + money(b.WalletCents, b.Currency)
	if b.SuspenseCents != 0 {
		text += ", and " + money(b.SuspenseCents, b.Currency) + " in suspense"
	}
	switch {
	case b.ComparedAt == nil:
		return text + "; no comparison with the provider is known"
	case b.Agree == nil:
		text += "; could not be compared to the cent"
	case *b.Agree && b.ChangedSince:
		text += "; agreed with the provider, and has changed since"
	case *b.Agree:
		text += "; agrees with the provider"
	case b.ChangedSince:
		text += "; DIFFERED from the provider, and has changed since: `perennial ledger reconcile` compares again"
	default:
		text += "; DIFFERS from the provider"
	}
	return text + ", compared " + humanize.RelTime(*b.ComparedAt, now, "ago", "from now")
}

// statusShown limits the operations, the proxies and the skipped proxies that are shown. A
// command may have thousands of each.
const statusShown = 20

// printStatus prints a command. account is "" if only one account is selected. Only the
// table output is limited by statusShown.
func (a statusCommands) printStatus(account string, s inspect.CommandStatus) error {
	if a.output == "json" {
		return a.printOf(account, s)
	}
	next := ""
	if s.State == string(fact.StateRejected) && len(s.Operations) == 0 {
		next = inspect.RefusedNext
	}
	printPairs(a.stdout, "%-8s %s\n", [][2]string{
		{"account", account}, {"command", s.CommandID}, {"state", s.State}, {"reason", printable(s.Reason)}, {"to do", next}, {"waits", printable(s.WaitsFor)},
	})
	for _, x := range s.LeftOut[:min(len(s.LeftOut), statusShown)] {
		fmt.Fprintf(a.stdout, "skipped %s: %s\n", printable(x.ProxyID), printable(x.Reason))
	}
	if more := len(s.LeftOut) - statusShown; more > 0 {
		fmt.Fprintf(a.stdout, "skipped %d more: -o json has all\n", more)
	}
	if s.ArchivedIn != "" {
		fmt.Fprintf(a.stdout, "archived what it asked for is in %s, which is not beside the ledger, or cannot be used (`ledger verify FILE`)\n", s.ArchivedIn)
	}
	printOperations(a.stdout, s.Operations)
	if o := s.SameID; o != nil {
		fmt.Fprintf(a.stdout, "\noperation %s of command %s has this id too and is %s: see it with --as operation\n", o.OperationID, o.CommandID, o.State)
	}
	return nil
}

// printPairs prints names with their texts. It omits a name without a text.
func printPairs(w io.Writer, format string, pairs [][2]string) {
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(w, format, p[0], p[1])
		}
	}
}

// printOperations prints the first operations with their first proxies, and a summary of the rest.
// Operations that need an operator come first.
func printOperations(w io.Writer, all []inspect.OperationStatus) {
	all = urgentFirst(all, func(o inspect.OperationStatus) bool { return o.State == fact.StateReview || o.State == fact.StateHeld })
	proxies, shown := 0, all[:min(len(all), statusShown)]
	for _, o := range shown {
		fmt.Fprintf(w, "\n%s  %s\n", o.OperationID, o.StateText())
		printPairs(w, "  %-16s %s\n", operationDetails(o))
		for _, line := range proxiesOf(o) {
			if proxies++; proxies <= statusShown {
				fmt.Fprintln(w, line)
			}
		}
	}
	if text := restOf(all[len(shown):], proxies-statusShown); text != "" {
		fmt.Fprintf(w, "\nand %s: -o json has all\n", text)
	}
}

func proxiesOf(o inspect.OperationStatus) []string {
	out := make([]string, 0, len(o.ProxyIDs)+len(o.Lines))
	for _, id := range o.ProxyIDs {
		out = append(out, fmt.Sprintf("  %-16s %s", "proxy", printable(id)))
	}
	for _, l := range urgentFirst(o.Lines, func(l tables.RenewalLine) bool { return l.State != fact.LineSucceeded }) {
		out = append(out, fmt.Sprintf("  %-16s %s  %s", l.ProxyID, l.State, o.LineText(l)))
	}
	return out
}

func urgentFirst[T any](all []T, urgent func(T) bool) []T {
	rest := slices.DeleteFunc(slices.Clone(all), urgent)
	return append(slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !urgent(one) }), rest...)
}

// restOf counts the omitted operations by state. The parameter proxies is the number of proxies
// that were omitted from the shown operations.
func restOf(operations []inspect.OperationStatus, proxies int) string {
	var parts []string
	if proxies > 0 {
		parts = append(parts, fmt.Sprintf("%d more proxies of these", proxies))
	}
	if len(operations) == 0 {
		return strings.Join(parts, " and ")
	}
	states := make(map[fact.State]int)
	for _, o := range operations {
		states[o.State]++
	}
	counts := make([]string, 0, len(states))
	for _, state := range slices.Sorted(maps.Keys(states)) {
		counts = append(counts, fmt.Sprintf("%d %s", states[state], state))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d more operations (%s)", len(operations), strings.Join(counts, ", "))), " and ")
}

func operationDetails(o inspect.OperationStatus) [][2]string {
	delivered := ""
	if o.ExpectedCount > 0 {
		delivered = fmt.Sprintf("%d of %d", o.DeliveredCount, o.ExpectedCount)
	}
	return [][2]string{
		{"key", o.IdempotencyKey}, {"reason", printable(o.Reason)}, {"attempts", attemptsText(o)}, {"order", o.OrderNo},
		{"delivered", delivered}, {"charged", o.ChargedText()}, {"refunded", money(o.RefundedCents, o.Currency)}, {"net", o.NetText()}, {"corrected", printable(strings.Join(o.Corrected, "; "))},
		{"next", stamp(o.NextAt)}, {"trace id", o.TraceID}, {"to do", nextStep(o)},
	}
}

// attemptsText returns the number of attempts. If there were several, it adds the CLI command
// that shows each attempt. During a review it does not, because nextStep contains that command.
func attemptsText(o inspect.OperationStatus) string {
	text := strconv.FormatInt(o.Attempts, 10)
	if o.Attempts > 1 && o.State != fact.StateReview {
		text += ", `perennial reviews show " + o.OperationID + "` shows each"
	}
	return text
}

// nextStep says what an operator can do about an operation that needs review or was
// rejected. It returns "" for other operations.
func nextStep(o inspect.OperationStatus) string {
	if o.State == fact.StateReview {
		return "`perennial reviews show " + o.OperationID + "` shows the evidence, and how to answer"
	}
	if o.State != fact.StateRejected {
		return ""
	}
	switch upstream.Code(o.Code) {
	case upstream.CodeOfferNotFound:
		return "nothing was charged; `perennial offers list` shows what can be bought"
	case upstream.CodeInsufficientWallet:
		return "nothing was charged; top the wallet up, then `perennial retry " + o.OperationID + "`"
	case upstream.CodeProxyNotFound:
		return "nothing was charged; `perennial proxies list --live` shows the proxies that the provider has"
	case fact.CodeCeiling:
		return "nothing was charged; publish it under another id, with a larger --max"
	case upstream.CodeValidationError:
		return "nothing was charged; correct the command, and publish it under another id"
	}
	return ""
}
