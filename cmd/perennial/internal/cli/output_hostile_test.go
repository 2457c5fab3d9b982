package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/sirupsen/logrus"

	"perennial/testdata/hostile"
)

// Text from others starts no new line and moves no cursor.
func FuzzHostileTextInTablesAndLogs(f *testing.F) {
	hostile.Fuzz(f, func(t *testing.T, text string) {
		if text == "" {
			return // nothing is shown for it
		}
		shownInLogs(t, text)
		var table bytes.Buffer
		if err := (&app{stdout: &table}).table([]string{"A", "B"}, [][]string{{text, text}}); err != nil {
			t.Fatal(err)
		}
		if text = table.String(); strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("a table moves the cursor: %q", text)
		}
		oneLine(t, "a table's row", strings.TrimPrefix(table.String(), strings.SplitAfter(table.String(), "\n")[0]))
	})
}

func shownInLogs(t *testing.T, text string) {
	t.Helper()
	for name, format := range map[string]logrus.Formatter{"json": &logrus.JSONFormatter{}, "text": &logrus.TextFormatter{}} {
		var logged bytes.Buffer
		log := logrus.New()
		log.SetOutput(&logged)
		log.SetFormatter(format)
		log.WithError(errors.New(text)).WithField("operation_id", text).Warn(text)
		oneLine(t, "a log line in "+name, logged.String())
		if name == "json" && !json.Valid(logged.Bytes()) {
			t.Errorf("no JSON: %s", logged.String())
		}
	}
}

func oneLine(t *testing.T, what, text string) {
	t.Helper()
	if line, rest, ok := strings.Cut(text, "\n"); !ok || rest != "" || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
		t.Errorf("%s is no line: %q", what, text)
	}
}
