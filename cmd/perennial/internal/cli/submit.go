package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/ledger/files"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/publish"
	"perennial/upstream"
)

type submitting struct {
	app     *app
	files   []string
	dryRun  bool
	rejects string
}

func (a sendCommands) submitCommand() *cobra.Command {
	s := &submitting{app: a.app}
	c := newCommand("submit FILE…", "Publish commands from a CSV or JSON lines file", func(ctx context.Context, files []string) error {
		s.files = files
		return s.run(ctx)
	})
	c.Long = "Publishes every command, waits until each has ended, and prints a summary.\n\n" +
		"Each JSON line is one command: a renewal if it has proxy_ids, else an order. A CSV file begins with a row of\n" +
		"column names. Orders need id, duration_days, offer_code and quantity. Renewals need id, duration_days and\n" +
		"proxy_ids. Separate several proxy ids with spaces. The columns cidrs, max_total_cents, not_after, due_before and label.NAME are\n" +
		"optional. All files are read before anything is published. If any line is invalid, nothing is published.\n" +
		"Submitting a file again is harmless: commands with the same id are carried out once."
	c.Flags().BoolVar(&s.dryRun, "dry-run", false, "read and price all commands, and publish nothing")
	c.Flags().StringVar(&s.rejects, "rejects", "", "write rejected lines, with the reason, to this file as JSON lines")
	return c
}

func (s *submitting) run(ctx context.Context) error {
	if err := s.canWriteRejects(); err != nil {
		return err
	}
	b, err := newBatch(s.rules())
	if err != nil {
		return err
	}
	defer func() { _ = b.spool.Close() }()
	for _, name := range s.files {
		if err := b.readFile(ctx, s.app.stdin, name); err != nil {
			return &exitError{ExitUsage, err}
		}
	}
	if err := s.refuse(b); err != nil {
		return err
	}
	if s.dryRun {
		return s.app.price(ctx, len(b.entries), func(yield func([]publish.Outgoing) error) error { return b.each(publishedAtOnce, yield) })
	}
	r, err := s.app.connect()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := s.publish(ctx, r, b); err != nil {
		return fmt.Errorf("not every command could be published: %w\nsubmit the same file again: what was published already is not done twice", err)
	}
	return s.followAll(ctx, r, b.entries)
}

// rules returns the command rules of the configured account, so that submit refuses what the
// runner would refuse later. Without a configured App ID, it returns rules that accept more.
func (s *submitting) rules() command.Rules {
	lenient := command.Rules{Environment: upstream.Sandbox, CIDRField: "-"}
	c, name, err := s.app.configured()
	if err != nil {
		return lenient
	}
	env, err := upstream.EnvironmentOf(c.Accounts[name].AppID)
	if err != nil { // the embedded sandbox has no App ID
		return lenient
	}
	return command.Rules{Environment: env, CIDRField: c.Accounts[name].CIDRField}
}

const badShown = 50

// refuse prints the invalid lines of a batch and returns an error. It also returns an error if
// the batch is empty. It must be called before anything is published.
func (s *submitting) refuse(b *batch) error {
	if len(b.bad) == 0 {
		if len(b.entries) == 0 {
			return usage("there is no command in %s", strings.Join(s.files, ", "))
		}
		return nil
	}
	for i, bad := range b.bad {
		if i == badShown {
			fmt.Fprintf(s.app.stderr, "… and %d more\n", len(b.bad)-badShown)
			break
		}
		fmt.Fprintln(s.app.stderr, printable(bad.String()))
	}
	if err := s.writeRejects(b.bad); err != nil {
		return err
	}
	return usage("%d of %d lines cannot be submitted, so nothing was published: correct them and submit the file again", len(b.bad), b.lines)
}

const publishedAtOnce = 5000

func (s *submitting) publish(ctx context.Context, r *remote, b *batch) error {
	bar := s.bar(len(b.entries), "publishing")
	published := 0
	err := b.each(publishedAtOnce, func(out []publish.Outgoing) error {
		if err := persist(ctx, func() error { return publish.New(r.JetStream()).PublishCommands(ctx, r.account, out) }); err != nil {
			return err
		}
		published += len(out)
		return bar.Set(published)
	})
	_ = bar.Finish()
	return err
}

func (s *submitting) bar(total int, what string) *progressbar.ProgressBar {
	bar := progressbar.NewOptions(total, progressbar.OptionSetWriter(s.app.stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(isTerminal(s.app.stderr)))
	_ = bar.RenderBlank()
	return bar
}

// batch is the commands that submit has read. Ids and hashes are in memory, and the commands
// themselves in a temporary file. A million commands take a few hundred MiB of memory.
type batch struct {
	rules   command.Rules
	spool   *os.File
	out     *bufio.Writer
	entries []entry
	bad     []reject // lines that cannot be submitted
	lines   int
	first   map[string]int // index in entries, by command id
}

type entry struct {
	id, hash string
	message  [sha256.Size]byte // command.MessageHash as bytes
	file     string
	line     int
}

func invalid(file string, line int, id string, why error) reject {
	return reject{File: file, Line: line, ID: id, State: "invalid", Reason: why.Error()}
}

func newBatch(rules command.Rules) (*batch, error) {
	spool, err := os.CreateTemp("", "perennial-submit-*")
	if err != nil {
		return nil, fmt.Errorf("a temporary file for the commands: %w", err)
	}
	_ = os.Remove(spool.Name()) // the open file remains usable until the process ends
	return &batch{rules: rules, spool: spool, out: bufio.NewWriterSize(spool, 256<<10), first: map[string]int{}}, nil
}

// readFile reads one file to its end and appends invalid lines to bad. It returns an error if
// the file cannot be read.
func (b *batch) readFile(ctx context.Context, stdin io.Reader, name string) (err error) {
	in := interruptible(ctx, stdin)
	if name == "-" {
		name = "standard input"
	} else if in, err = openNamed(ctx, name); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	text := bufio.NewReaderSize(in, 64<<10)
	if head, _ := text.Peek(64); bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) || bytes.IndexByte(head, 0) >= 0 {
		return fmt.Errorf("%s is not in UTF-8, but as it seems in UTF-16: save it as CSV UTF-8", name)
	}
	if mark, _ := text.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) { // a byte order mark, which spreadsheets write
		_, _ = text.Discard(3)
	}
	if isJSONLines(text) {
		return b.readJSON(name, text)
	}
	return b.readCSV(name, text)
}

// isJSONLines reports whether the first character that is not a space begins JSON. It also
// returns true for an empty file.
func isJSONLines(text *bufio.Reader) bool {
	head, _ := text.Peek(4 << 10)
	head = bytes.TrimLeft(head, " \t\r\n")
	return len(head) == 0 || head[0] == '{' || head[0] == '['
}

func (b *batch) readJSON(name string, in io.Reader) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 64<<10), 2*command.MaxCommandBytes)
	n := 1
	for ; scanner.Scan(); n++ {
		if line := bytes.TrimSpace(scanner.Bytes()); len(line) > 0 {
			if err := b.add(name, n, line); err != nil {
				return err
			}
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%s line %d is longer than a command may be (%d bytes): is each command on a line of its own?", name, n, command.MaxCommandBytes)
	}
	return scanner.Err()
}

// readCSV reads rows of fields separated by commas. If the heading has semicolons and no
// comma, it uses semicolons, which spreadsheets write in some languages.
func (b *batch) readCSV(name string, in *bufio.Reader) error {
	head, _ := in.Peek(4 << 10)
	heading, _, _ := strings.Cut(string(head), "\n")
	rows := csv.NewReader(in)
	rows.ReuseRecord, rows.FieldsPerRecord = true, -1
	if !strings.Contains(heading, ",") && strings.Contains(heading, ";") {
		rows.Comma = ';'
	}
	columns, err := rows.Read()
	if err != nil {
		return fmt.Errorf("%s: the heading cannot be read: %w", name, err)
	}
	if columns, err = csvColumns(columns); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		line, _ := rows.FieldPos(0)
		data, err := csvCommand(columns, row)
		if err != nil {
			b.lines++
			b.bad = append(b.bad, invalid(name, line, csvID(columns, row), err))
			continue
		}
		if data != nil {
			if err := b.add(name, line, data); err != nil {
				return err
			}
		}
	}
}

// csvNames lists the possible columns, except label.NAME.
var csvNames = []string{"id", "duration_days", "offer_code", "quantity", "cidrs", "proxy_ids", "max_total_cents", "not_after", "due_before", "priority", "sandbox_scenario"}

// csvColumns returns the column names of a heading. It refuses a repeated name, even with
// other case or spaces. Otherwise, the later of two columns for a limit would silently
// replace the earlier one.
func csvColumns(heading []string) ([]string, error) {
	columns, first := make([]string, len(heading)), map[string]int{}
	for k, text := range heading {
		column := strings.TrimSpace(text)
		columns[k] = column
		folded := strings.Join(strings.Fields(strings.ToLower(column)), "")
		at, again := first[folded]
		switch {
		case column == "": // spreadsheets may write empty columns; a value in such a column is refused
		case again:
			return nil, fmt.Errorf("the heading names %.80q twice, in columns %d and %d: remove one", column, at+1, k+1)
		case folded == "labels" || folded == "items": // label.NAME and offer_code replace these columns
			return nil, fmt.Errorf("column %d is %q, which CSV cannot hold: use label.NAME, or offer_code and quantity", k+1, column)
		default:
			first[folded] = k
		}
	}
	return columns, checkColumns(columns)
}

func checkColumns(columns []string) error {
	for _, column := range columns {
		if column != "" && !slices.Contains(csvNames, column) && !strings.HasPrefix(column, "label.") {
			return fmt.Errorf("line 1: there is no column %.80q; there are %s and label.NAME", column, strings.Join(csvNames, ", "))
		}
	}
	for _, pair := range [][2]string{{"offer_code", "quantity"}, {"quantity", "offer_code"}, {"id", "duration_days"}} {
		if slices.Contains(columns, pair[0]) && !slices.Contains(columns, pair[1]) {
			return fmt.Errorf("line 1: the column %q is missing", pair[1])
		}
	}
	return nil
}

// csvCommand converts a row to a command. It returns nil for an empty row.
func csvCommand(columns, row []string) ([]byte, error) {
	if len(row) > len(columns) {
		return nil, fmt.Errorf("it has %d fields and the heading %d", len(row), len(columns))
	}
	body, labels, item := map[string]any{}, map[string]string{}, map[string]any{}
	for k, text := range row {
		column, text := columns[k], strings.TrimSpace(text)
		if text == "" {
			continue
		}
		if label, ok := strings.CutPrefix(column, "label."); ok {
			labels[label] = text
			continue
		}
		value, err := csvValue(column, text)
		if err != nil {
			return nil, err
		}
		into := body
		if column == "offer_code" || column == "quantity" || column == "cidrs" {
			into = item
		}
		into[column] = value
	}
	if len(body)+len(labels)+len(item) == 0 {
		return nil, nil
	}
	if len(labels) > 0 {
		body["labels"] = labels
	}
	if len(item) > 0 {
		body["items"] = []any{item}
	}
	return json.Marshal(body)
}

func csvID(columns, row []string) string {
	for k, text := range row[:min(len(row), len(columns))] {
		if columns[k] == "id" {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

func csvValue(column, text string) (any, error) {
	switch column {
	case "duration_days", "quantity", "max_total_cents":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is %q and must be a whole number", column, text)
		}
		return n, nil
	case "proxy_ids", "cidrs":
		return strings.Fields(text), nil
	default:
		return text, nil
	}
}

// add parses one command as the runner does, and stores it. An invalid command is appended to
// bad.
func (b *batch) add(name string, line int, data []byte) error {
	b.lines++
	kind := queue.KindOrderCreate
	var probe struct {
		ID       any             `json:"id"`
		ProxyIDs json.RawMessage `json:"proxy_ids"`
	}
	if err := json.Unmarshal(data, &probe); probe.ProxyIDs != nil || err != nil && bytes.Contains(data, []byte(`"proxy_ids"`)) {
		kind = queue.KindProxyRenew
	}
	e := entry{file: name, line: line, message: sha256.Sum256(data)}
	c, err := command.Parse(jobs.KindOf(kind), data, b.rules)
	if err == nil {
		e.id = c.ID
		_, e.hash, err = c.Content()
	}
	if err == nil {
		err = b.checkRepeat(e)
	}
	if err != nil {
		id, _ := probe.ID.(string)
		if refused, ok := errors.AsType[*command.InvalidError](err); ok {
			err = errors.New(refused.Reason)
		}
		b.bad = append(b.bad, invalid(name, line, id, err))
		return nil
	}
	if _, known := b.first[e.id]; known {
		return nil // the line repeats an earlier command exactly
	}
	b.first[e.id] = len(b.entries)
	b.entries = append(b.entries, e)
	_, err = fmt.Fprintf(b.out, "%s %d\n%s\n", kind, len(data), data)
	return err
}

func (b *batch) checkRepeat(e entry) error {
	at, known := b.first[e.id]
	if !known || b.entries[at].hash == e.hash {
		return nil
	}
	return fmt.Errorf("the id is in line %d of %s with other content: choose another id", b.entries[at].line, b.entries[at].file)
}

// each yields the commands in order, in groups of at most `most` commands.
func (b *batch) each(most int, yield func([]publish.Outgoing) error) error {
	if err := b.out.Flush(); err != nil {
		return err
	}
	if _, err := b.spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReaderSize(b.spool, 256<<10)
	for left := len(b.entries); left > 0; {
		out := make([]publish.Outgoing, 0, min(most, left))
		for len(out) < cap(out) {
			var kind queue.Kind
			var size int
			if _, err := fmt.Fscanf(in, "%s %d\n", &kind, &size); err != nil {
				return fmt.Errorf("the temporary file of the commands: %w", err)
			}
			data := make([]byte, size+1)
			if _, err := io.ReadFull(in, data); err != nil {
				return fmt.Errorf("the temporary file of the commands: %w", err)
			}
			// Commands from a file get bulk priority, so that commands from people go first.
			out = append(out, publish.Outgoing{Kind: kind, Data: data[:size], Priority: queue.PriorityBulk})
		}
		left -= len(out)
		if err := yield(out); err != nil {
			return err
		}
	}
	return nil
}

// reject is one line of the --rejects file. It describes an invalid input line, or a command
// that was not carried out completely.
type reject struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	ID     string `json:"id"`
	State  string `json:"state"`
	Reason string `json:"reason"`
}

func (r reject) String() string {
	if r.ID == "" {
		return fmt.Sprintf("%s line %d: %s", r.File, r.Line, r.Reason)
	}
	return fmt.Sprintf("%s line %d (id %s): %s", r.File, r.Line, r.ID, r.Reason)
}

// rejectsShown limits how many rejects are printed. The --rejects file contains all of them.
const rejectsShown = 20

// followAll shows a progress bar until every command has ended or needs an operator. It then
// prints a summary, even after an interrupt.
func (s *submitting) followAll(ctx context.Context, r *remote, pending []entry) error {
	total, bar := len(pending), s.bar(len(pending), "carried out")
	ended := map[string]int{}
	var failed []ending
	settled := func(e entry, state string) {
		ended[state]++
		if code := stateCode(state); code == ExitFailed || code == ExitPartly {
			failed = append(failed, ending{e, state})
		}
	}
	away := newAbsence()
	var err error
	for {
		pending, err = settlePending(ctx, r, pending, settled)
		if ctx.Err() != nil {
			break
		}
		if err := away.after(err); err != nil {
			return errors.Join(err, s.sumUp(ctx, r, ended, total, failed))
		}
		_ = bar.Set(total - len(pending))
		if len(pending) == 0 {
			break
		}
		if sleep.For(ctx, pollEvery) == nil { // the error does not matter, because the next round reads the states again
			_ = untilOver(ctx, r, pending[0].id, notTakenIn)
		}
	}
	_ = bar.Finish()
	if len(pending) > 0 {
		ended["not ended yet"] = len(pending)
	}
	if err := s.sumUp(context.WithoutCancel(ctx), r, ended, total, failed); err != nil {
		return err
	}
	if ctx.Err() != nil {
		fmt.Fprintln(s.app.stderr, "interrupted: the commands continue; submit the same file again to follow them")
		return ctx.Err()
	}
	return batchExit(ended)
}

type ending struct {
	entry

	state string
}

func (s *submitting) sumUp(ctx context.Context, r *remote, ended map[string]int, total int, failed []ending) error {
	rejects := []reject{}
	for i, e := range failed {
		if i == rejectsShown && s.rejects == "" {
			break
		}
		x := reject{File: e.file, Line: e.line, ID: e.id}
		status, err := ask(ctx, r, verbs.Status, verbs.OperatorRequest{ID: e.id})
		if x.State, x.Reason = status.State, status.Reason; err != nil {
			x.Reason = "the reason could not be read: " + err.Error()
		}
		if e.state == inspect.StateConflict { // status is the state of the earlier content with this id
			x.State, x.Reason = e.state, fmt.Sprintf("the id was accepted before with other content, which is kept and is %s: choose another id", status.State)
		}
		rejects = append(rejects, x)
	}
	err := s.writeRejects(rejects)
	return errors.Join(s.app.printEnded(ended, total, rejects[:min(len(rejects), rejectsShown)]), err)
}

// canWriteRejects checks before publishing that the file of rejects can be written.
func (s *submitting) canWriteRejects() error {
	if s.rejects == "" {
		return nil
	}
	if err := s.app.outputs().check(s.rejects); err != nil {
		return err
	}
	if err := files.Writable(s.rejects); err != nil {
		return usage("--rejects: %w\nnothing was published: name a file that can be written", err)
	}
	return nil
}

func (s *submitting) writeRejects(all []reject) error {
	if s.rejects == "" {
		return nil
	}
	return s.app.outputs().write(s.rejects, 0o600, func(w io.Writer) error {
		out := json.NewEncoder(w)
		for _, x := range all {
			if err := out.Encode(x); err != nil {
				return err
			}
		}
		return nil
	})
}

// settlePending removes settled commands from the front of pending. The runner takes
// commands roughly in the order of the file, so only the first need to be checked.
func settlePending(ctx context.Context, r *remote, pending []entry, settled func(entry, string)) ([]entry, error) {
	for len(pending) > 0 {
		front := pending[:min(len(pending), verbs.MaxStates)]
		q := verbs.StatesRequest{}
		for _, e := range front {
			q.IDs, q.Hashes, q.Messages = append(q.IDs, e.id), append(q.Hashes, e.hash), append(q.Messages, hex.EncodeToString(e.message[:]))
		}
		states, err := ask(ctx, r, verbs.States, q)
		if err != nil {
			return pending, err
		}
		var left []entry
		for _, e := range front {
			if state := states[e.id]; settledState(state) {
				settled(e, state)
			} else {
				left = append(left, e)
			}
		}
		pending = append(left, pending[len(front):]...)
		if len(left) > 0 {
			break
		}
	}
	return pending, nil
}

func (a *app) printEnded(ended map[string]int, total int, refused []reject) error {
	if a.output == "json" {
		return printJSON(a.stdout, map[string]any{"commands": total, "states": ended, "rejects": refused})
	}
	rows := make([][]string, 0, len(ended))
	for _, state := range slices.Sorted(maps.Keys(ended)) {
		rows = append(rows, []string{state, strconv.Itoa(ended[state])})
	}
	if err := a.table([]string{"STATE", "COMMANDS"}, rows); err != nil || len(refused) == 0 {
		return err
	}
	lines := make([][]string, 0, len(refused))
	for _, x := range refused {
		lines = append(lines, []string{x.ID, x.State, x.Reason})
	}
	fmt.Fprintln(a.stdout)
	return a.table([]string{"COMMAND", "STATE", "REASON"}, lines)
}

// batchExit returns the exit code of a batch as an error: ExitPerson if a command needs an
// operator, ExitPartly if only a part was carried out, ExitFailed if nothing was. It returns
// nil if everything was.
func batchExit(states map[string]int) error {
	codes := map[int]bool{}
	for state := range states {
		codes[stateCode(state)] = true
	}
	switch {
	case codes[ExitPerson]:
		return &exitError{code: ExitPerson}
	case codes[ExitPartly] || codes[ExitFailed] && codes[ExitDone]:
		return &exitError{code: ExitPartly}
	case codes[ExitFailed]:
		return &exitError{code: ExitFailed}
	}
	return nil
}
