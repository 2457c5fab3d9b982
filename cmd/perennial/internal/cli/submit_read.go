// Reading of the batch for `perennial submit` from JSON lines or CSV.

package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"perennial/jobs"
	"perennial/jobs/command"
	"perennial/queue"
	"perennial/queue/publish"
)

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

// entry is one command of a file.
type entry struct {
	id, hash string
	message  [sha256.Size]byte // command.MessageHash as bytes
	file     string
	line     int
}

// invalid returns the reject for a line that cannot be submitted.
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

func (b *batch) close() { _ = b.spool.Close() }

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

// checkColumns refuses a heading with unknown columns or without the required columns.
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

// csvID returns the id of an invalid row, or "".
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
	if json.Unmarshal(data, &probe) == nil && probe.ProxyIDs != nil {
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

// checkRepeat returns an error if the id appeared earlier with other content.
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
			// Bulk priority, so that commands from people go first.
			out = append(out, publish.Outgoing{Kind: kind, Data: data[:size], Priority: queue.PriorityBulk})
		}
		left -= len(out)
		if err := yield(out); err != nil {
			return err
		}
	}
	return nil
}
