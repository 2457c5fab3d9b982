package ledger

import (
	"bytes"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a person wrote is in every format, and nothing of it is anything but text.
func TestExportsSayWhoBookedWhatAndWhy(t *testing.T) {
	const by, reason = "=ada \"the\" \\first", "one\nline\x00 and \u2028 \xff: another"
	b := newBook(t)
	c := accepted(KindOrder, "o/1")
	c.Labels = map[string]string{"team": `b"lue\`, "ticket": "OPS-7", "a": "ü"}
	state := orderState("o/1", "completed", 300, 0)
	state.Labels = c.Labels
	b.add(opened(5000), c, sending("o/1", 1), OrderAccepted{Ref: ref("o/1"), OrderNo: state.OrderNo, NextAt: noon}, OrderDelivered{OrderState: state},
		LedgerRecorded{Kind: "top-up", Cents: 700, By: by, Reason: reason})
	var table, text, lines bytes.Buffer
	check(t, errors.Join(b.ExportCSV(t.Context(), &table, Period{}), b.ExportBeancount(t.Context(), &text, "main", Period{}), b.ExportJSON(t.Context(), &lines, Period{})))
	rows, err := csv.NewReader(&table).ReadAll()
	check(t, err)
	if head := rows[0]; strings.Join(head[len(head)-4:], " ") != "hash by reason labels" {
		t.Errorf("new columns stand at the end: %v", head)
	}
	last := func(row []string) []string { return row[len(row)-3:] }
	if got := last(rows[2]); got[0] != "" || got[2] != `{"a":"ü","team":"b\"lue\\","ticket":"OPS-7"}` {
		t.Errorf("the order: %q", got)
	}
	if got := last(rows[3]); got[0] != "'"+by || !strings.HasPrefix(got[1], "one\nline") || got[2] != "" {
		t.Errorf("the top-up: %q", got)
	}
	readBeancount(t, text.String())
	for _, want := range []string{`  by: "=ada \"the\" \\first"`, `  reason: "one line`, `  labels: "{\"a\":\"ü\",`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "\x00") {
		t.Error("a control character is in the Beancount file")
	}
	if *exportDir != "" {
		check(t, os.WriteFile(filepath.Join(*exportDir, "names.beancount"), text.Bytes(), 0o600))
	}
	for _, want := range []string{`"by":"=ada \"the\" \\first"`, `"reason":"one\nline`, `"labels":{"a":"ü"`} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("%q is not in\n%s", want, lines.String())
		}
	}
}

// An archive of a version that left no names behind its rows proves as before.
func TestAnArchiveOfBeforeNamesStillVerifies(t *testing.T) {
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), append(history(), over()...)...)
	tx, err := b.read.BeginTx(t.Context(), nil)
	check(t, err)
	defer func() { _ = tx.Rollback() }()
	var sums []string
	for _, left := range []string{leftOfRows, leftWithoutNames} {
		sum, err := snapshotOf(t.Context(), tx, left, func(chunk) error { return nil })
		check(t, err)
		sums = append(sums, sum)
	}
	if sums[0] == sums[1] {
		t.Fatal("the snapshots do not differ")
	}
	seq, hash, err := b.Head(t.Context())
	check(t, err)
	for _, sum := range sums {
		check(t, b.joins(t.Context(), &Ledger{base: &base{Head: Head{Seq: seq, Hash: hash}, snapshotHash: sum}}))
	}
	if err := b.joins(t.Context(), &Ledger{base: &base{Head: Head{Seq: seq, Hash: hash}, snapshotHash: "other"}}); err == nil {
		t.Error("any snapshot joins")
	}
}
