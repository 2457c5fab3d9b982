// How commands write: logs, JSON, tables, and text without control characters.

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

	"perennial/ledger"
	"perennial/ledger/fact"
)

// logger logs to stderr: text in a terminal, JSON elsewhere.
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

// libraryLog takes what libraries write to the standard log. They quote what they
// could not parse: net/http quotes bytes beyond the announced length, which may be a
// password. The quoted parts are left out.
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

// announce prints the ready line: JSON for programs, a banner for people. A reader that
// has gone does not end what is ready.
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

// printable is text of the provider or another program without what would end a line or move the
// cursor of a terminal.
func printable(text string) string { return printableBut("", text) }

// printableBut leaves these characters as they are.
func printableBut(these, text string) string { return fact.Printable(text, these) }

// plainText writes text without the control characters that move a terminal's cursor or
// change what it shows: names and reasons in an old journal may hold them, and so may
// files that were written by hand. Lines and tabs stay.
type plainText struct{ io.Writer }

// Write implements io.Writer; it counts what was given, and not what was left of it.
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

// money is how every table and sentence shows an amount: with its currency.
func money(cents int64, currency string) string { return fact.Amount(cents, currency) }

// unknown stands in a table for a price that is not known.
const unknown = "?"

// moneyOrUnknown shows an amount that may not be known.
func moneyOrUnknown(cents *int64, currency string) string { return moneyOr(unknown, cents, currency) }

func centsOrUnknown(c fact.Cents, currency string) string {
	if !c.Known() {
		return unknown
	}
	return money(c.Or(0), currency)
}

// moneyOr shows an amount that may be missing.
func moneyOr(otherwise string, cents *int64, currency string) string {
	if cents == nil {
		return otherwise
	}
	return money(*cents, currency)
}

// ago shows an instant relative to now, for people.
func ago(at *time.Time) string {
	if at == nil {
		return ""
	}
	return humanize.Time(*at)
}

// operator is the name that a change is recorded under unless --by says otherwise.
// Cron and containers set no USER.
func operator() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	if who, err := user.Current(); err == nil && who.Username != "" {
		return who.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

// seen is when the provider last showed something of a proxy.
func seen(p ledger.Proxy) string {
	if p.SeenAt.UnixMicro() <= 0 {
		return "before its last renewal"
	}
	return ago(&p.SeenAt)
}

// atLeastOne is a flag's number.
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
	if v.n == nil || *v.n == math.MaxInt { // no bound
		return ""
	}
	return strconv.Itoa(*v.n)
}

func (v atLeastOne) Type() string { return "int" }

// limitFlag gives a command --limit, -n: how many rows at most.
func limitFlag(c *cobra.Command, limit *int, most int, usage string) {
	*limit = most
	c.Flags().VarP(atLeastOne{limit}, "limit", "n", usage)
}

// sayAfter is how long a command may be silent where no person looks on.
const sayAfter = 2 * time.Second

// sayWhatTakesTime says on stderr what a command does: at once in a terminal, elsewhere once
// it has taken sayAfter. The command calls stop before it prints anything else.
func (a *app) sayWhatTakesTime(text string) (stop func()) {
	after := sayAfter
	if isTerminal(a.stderr) {
		after = 0
	}
	return sayAfterwards(a.stderr, text, after)
}

// sayAfterwards writes a line after some time, unless stop is called before; when stop
// returns nothing is written any more.
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
