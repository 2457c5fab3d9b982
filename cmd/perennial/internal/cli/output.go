package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/sirupsen/logrus"
	"golang.org/x/term"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// logger returns a logger that writes to stderr: text on a terminal, otherwise JSON.
func (a *app) logger() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(a.stderr)
	log.SetFormatter(&logrus.TextFormatter{DisableColors: os.Getenv("NO_COLOR") != ""}) // https://no-color.org
	if !isTerminal(a.stderr) {
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
	}
	log.SetLevel(logrus.WarnLevel)
	if a.verbose {
		log.SetLevel(logrus.DebugLevel)
	}
	return log
}

type sentences struct{}

func (sentences) Format(e *logrus.Entry) ([]byte, error) {
	text := e.Message
	if why, ok := e.Data[logrus.ErrorKey]; ok {
		text += fmt.Sprintf(": %v", why)
	}
	return append([]byte(text), '\n'), nil
}

// libraryLog logs what libraries write to the standard logger, up to the first quotation
// mark. Libraries quote text that they cannot parse, which may contain a password. For
// example, net/http quotes bytes beyond the announced length.
type libraryLog struct{ log *logrus.Logger }

func (l libraryLog) Write(text []byte) (int, error) {
	said, _, _ := strings.Cut(string(text), `"`)
	l.log.WithField("from", "library").Warn(strings.TrimSpace(said))
	return len(text), nil
}

func isTerminal(w any) bool {
	if text, ok := w.(plainText); ok {
		w = text.Writer
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// announce prints the ready line, as JSON for programs or as a banner for people. It ignores a
// closed pipe, because the program works even without a reader.
func (a *app) announce(line any, banner string) (err error) {
	if a.json || !isTerminal(a.stdout) {
		err = printJSON(a.stdout, line)
	} else {
		_, err = fmt.Fprintln(a.stdout, banner)
	}
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

func (a *app) say(record any, format string, args ...any) error {
	if a.output == "json" {
		return printJSON(a.stdout, record)
	}
	_, err := fmt.Fprintf(a.stdout, format, args...)
	return err
}

func (a *app) printTable(record any, heading []string, rows [][]string) error {
	if a.output == "json" {
		return printJSON(a.stdout, record)
	}
	return a.table(heading, rows)
}

// printOf prints a record as a JSON object that begins with the field "account", unless
// account is "".
func (a *app) printOf(account string, record any) error {
	if account == "" {
		return printJSON(a.stdout, record)
	}
	var text bytes.Buffer
	if err := printJSON(&text, record); err != nil {
		return err
	}
	begin, err := json.Marshal(map[string]string{"account": account})
	if err != nil {
		return err
	}
	rest := bytes.TrimPrefix(text.Bytes(), []byte("{"))
	if len(rest) == text.Len() {
		return errors.New("a record of an account is no JSON object")
	}
	begin[len(begin)-1] = ','
	_, err = a.stdout.Write(append(begin, rest...))
	return err
}

// listing prints records of one or several accounts. JSON records are printed immediately,
// one on each line. A table is printed at the end. If there are several accounts, the first
// field or column contains the account.
type listing struct {
	app     *app
	heading []string
	rows    [][]string
	several bool
	none    string // printed to standard error instead of a table without rows
	err     error  // the first error of the output, after which add does nothing
}

// listing returns a listing with a heading. If the listing stays empty, the text none is
// printed, unless none is "".
func (a *app) listing(none string, heading ...string) *listing {
	return &listing{app: a, none: none, heading: heading}
}

// add prints a JSON record or stores a row. account is "" if the listing covers one account.
func (l *listing) add(account string, record any, row ...string) {
	l.several = l.several || account != ""
	switch {
	case l.err != nil:
	case l.app.output == "json":
		l.err = l.app.printOf(account, record)
	case account != "":
		l.rows = append(l.rows, append([]string{account}, row...))
	default:
		l.rows = append(l.rows, row)
	}
}

// end prints the table. It returns err, joined with the error of the output. If err is not nil
// and the table has no rows, it prints nothing.
func (l *listing) end(err error) error {
	err = errors.Join(err, l.err)
	if l.app.output == "json" || err != nil && len(l.rows) == 0 {
		return err
	}
	if len(l.rows) == 0 {
		if l.none != "" {
			_, err = fmt.Fprintln(l.app.stderr, l.none)
		}
		return err
	}
	heading := l.heading
	if l.several {
		heading = append([]string{"ACCOUNT"}, heading...)
	}
	return errors.Join(l.app.table(heading, l.rows), err)
}

// table prints a table. Columns of numbers and amounts are aligned to the right.
func (a *app) table(heading []string, rows [][]string) error {
	all := make([][]string, 0, 1+len(rows))
	all = append(all, slices.Clone(heading))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		all = append(all, cells)
	}
	for i := range heading {
		alignRight(all, i)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	for _, cells := range all {
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// number matches a number or an amount. It also matches the words that a table shows for an
// unknown number.
var number = regexp.MustCompile(`^(-?[0-9][0-9,]*(\.[0-9]+)?( [A-Z]{3})?|\?|unknown|not known)?$`)

// alignRight pads column i if all its cells below the heading are numbers.
func alignRight(rows [][]string, i int) {
	width, some := 0, false
	for n, row := range rows {
		if len(row) <= i {
			continue
		}
		if n > 0 && !number.MatchString(row[i]) {
			return
		}
		width, some = max(width, utf8.RuneCountInString(row[i])), some || n > 0 && row[i] != ""
	}
	if !some {
		return
	}
	for _, row := range rows {
		if len(row) > i {
			row[i] = strings.Repeat(" ", width-utf8.RuneCountInString(row[i])) + row[i]
		}
	}
}

// printable returns external text without characters that end a line or move a terminal's
// cursor.
func printable(text string) string { return fact.Printable(text, "") }

func joined(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), separator)
}

// plainText writes text to a terminal, and replaces control characters with spaces. They could
// move the cursor or change the display. Old journals and handwritten files can contain them.
// Line breaks and tabs remain.
type plainText struct{ io.Writer }

// Write implements io.Writer. It returns the length of text, even if fewer bytes were written.
func (w plainText) Write(text []byte) (int, error) {
	if !bytes.ContainsFunc(text, isControl) {
		return w.Writer.Write(text)
	}
	_, err := w.Writer.Write(bytes.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, text))
	return len(text), err
}

func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }

func money(cents int64, currency string) string { return fact.Amount(cents, currency) }

const unknown = "?"

// moneyOrUnknown formats an amount. It returns "?" for nil.
func moneyOrUnknown(cents *int64, currency string) string { return moneyOr(unknown, cents, currency) }

func centsOrUnknown(c fact.Cents, currency string) string {
	if !c.Known() {
		return unknown
	}
	return money(c.Or(0), currency)
}

func moneyOr(otherwise string, cents *int64, currency string) string {
	if cents == nil {
		return otherwise
	}
	return money(*cents, currency)
}

func ago(at *time.Time) string {
	if at == nil {
		return ""
	}
	return humanize.Time(*at)
}

// operator returns the default of --by, the name under which changes are recorded. The
// environment variable USER may be missing, for example under cron and in containers.
func operator() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	if who, err := user.Current(); err == nil && who.Username != "" {
		return who.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

func seen(p tables.Proxy) string {
	if p.SeenAt.UnixMicro() <= 0 {
		return "to be read again"
	}
	return ago(&p.SeenAt)
}

// sayAfter is how long sayWhatTakesTime waits if stderr is not a terminal.
const sayAfter = 2 * time.Second

// sayWhatTakesTime prints to stderr what a slow CLI command is doing. On a terminal it
// prints immediately, otherwise after sayAfter. The command must call stop before it prints
// anything else.
func (a *app) sayWhatTakesTime(text string) (stop func()) {
	after := sayAfter
	if isTerminal(a.stderr) {
		after = 0
	}
	return sayAfterwards(a.stderr, text, after)
}

// sayAfterwards writes a line of text after a duration, unless stop is called earlier. It
// writes nothing after stop has returned.
func sayAfterwards(w io.Writer, text string, after time.Duration) (stop func()) {
	said := make(chan struct{})
	timer := time.AfterFunc(after, func() {
		defer close(said)
		fmt.Fprintln(w, text)
	})
	return func() {
		if !timer.Stop() {
			<-said
		}
	}
}
