package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/shopspring/decimal"
	"github.com/sirupsen/logrus"
	"golang.org/x/term"
)

// logger logs to stderr: text for people, JSON where nobody watches.
func (a *app) logger() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(a.stderr)
	if !isTerminal(a.stderr) {
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
	}
	log.SetLevel(logrus.WarnLevel)
	if a.verbose {
		log.SetLevel(logrus.DebugLevel)
	}
	return log
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// printJSON writes one line of JSON.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// announce prints the ready line: JSON for programs, a banner for people.
func (a *app) announce(line any, banner string) error {
	if a.json || !isTerminal(a.stdout) {
		return printJSON(a.stdout, line)
	}
	_, err := fmt.Fprintln(a.stdout, banner)
	return err
}

// table prints rows in columns under a heading.
func (a *app) table(heading []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heading, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// money shows cents in the main unit: 1234 as 12.34.
func money(cents int64) string { return decimal.New(cents, -2).StringFixed(2) }

// ago shows an instant relative to now, for people.
func ago(at *time.Time) string {
	if at == nil {
		return ""
	}
	return humanize.Time(*at)
}
