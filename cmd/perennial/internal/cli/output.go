// How commands write logs, JSON, tables, and text without control characters.

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// logger logs to stderr, as text in a terminal and as JSON elsewhere.
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

// sentences formats log entries for a person who waits for a command.
type sentences struct{}

// Format implements logrus.Formatter.
func (sentences) Format(e *logrus.Entry) ([]byte, error) {
	text := e.Message
	if why, ok := e.Data[logrus.ErrorKey]; ok {
		text += fmt.Sprintf(": %v", why)
	}
	return append([]byte(text), '\n'), nil
}

// libraryLog logs what libraries write to the standard log, without quoted parts. Libraries
// quote what they cannot parse: net/http quotes bytes beyond the announced length, which may
// hold a password.
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

// printJSON writes one line of JSON.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// announce prints the ready line, as JSON for programs or a banner for people. It ignores a
// reader that has gone, because the program is ready.
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

// table prints rows in columns under a heading.
func (a *app) table(heading []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heading, "\t"))
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, printable(cell))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// printable returns external text without characters that end a line or move a terminal's
// cursor.
func printable(text string) string { return printableBut("", text) }

// printableBut is printable, but keeps the characters in these.
func printableBut(these, text string) string { return fact.Printable(text, these) }

// plainText writes text without control characters that move a terminal's cursor or change its
// display. Names and reasons in old journals may hold them, and so may handwritten files.
// Lines and tabs remain.
type plainText struct{ io.Writer }

// Write implements io.Writer. It returns the length of the given text, not of the written
// text.
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

// money formats an amount with its currency, for tables and sentences.
func money(cents int64, currency string) string { return fact.Amount(cents, currency) }

// unknown is shown in tables for an unknown price.
const unknown = "?"

// moneyOrUnknown formats an amount that may be unknown.
func moneyOrUnknown(cents *int64, currency string) string { return moneyOr(unknown, cents, currency) }

func centsOrUnknown(c fact.Cents, currency string) string {
	if !c.Known() {
		return unknown
	}
	return money(c.Or(0), currency)
}

// moneyOr formats an amount that may be missing.
func moneyOr(otherwise string, cents *int64, currency string) string {
	if cents == nil {
		return otherwise
	}
	return money(*cents, currency)
}

// ago formats an instant relative to now.
func ago(at *time.Time) string {
	if at == nil {
		return ""
	}
	return humanize.Time(*at)
}

// operator returns the name that changes are recorded under unless --by gives another. Cron
// and containers set no USER.
func operator() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	if who, err := user.Current(); err == nil && who.Username != "" {
		return who.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

// seen returns when the provider last listed a proxy.
func seen(p tables.Proxy) string {
	if p.SeenAt.UnixMicro() <= 0 {
		return "before its last renewal"
	}
	return ago(&p.SeenAt)
}

// atLeastOne is a flag for a number of 1 or more.
type atLeastOne struct{ n *int }

func (v atLeastOne) Set(text string) error {
	var n int
	if err := (wholeFlag[int]{&n}).Set(text); err != nil || n < 1 {
		return errors.New("must be a whole number, 1 or more")
	}
	*v.n = n
	return nil
}

func (v atLeastOne) String() string {
	if v.n == nil || *v.n == math.MaxInt { // no limit
		return ""
	}
	return strconv.Itoa(*v.n)
}

func (v atLeastOne) Type() string { return "int" }

// limitFlag adds --limit, -n, the maximum number of rows.
func limitFlag(c *cobra.Command, limit *int, most int, usage string) {
	*limit = most
	c.Flags().VarP(atLeastOne{limit}, "limit", "n", usage)
}

// sayAfter is how long a command may be silent outside a terminal.
const sayAfter = 2 * time.Second

// sayWhatTakesTime says on stderr what a command does. It does so at once in a terminal, and
// elsewhere once sayAfter has passed. The command calls stop before it prints anything else.
func (a *app) sayWhatTakesTime(text string) (stop func()) {
	after := sayAfter
	if isTerminal(a.stderr) {
		after = 0
	}
	return sayAfterwards(a.stderr, text, after)
}

// sayAfterwards writes a line after some time unless stop is called first. Once stop has
// returned, it writes nothing.
func sayAfterwards(w io.Writer, text string, after time.Duration) (stop func()) {
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
			fmt.Fprintln(w, text)
		case <-stopped:
		}
	}()
	return func() {
		close(stopped)
		<-ended
	}
}
