package ledger

import (
	"bytes"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/report"
	"perennial/ledger/tables"
)

// Operators' texts are in every format, and only as text.
func TestExportsSayWhoBookedWhatAndWhy(t *testing.T) {
	const by, reason = "=ada \"the\" \\first", "one\nline\x00 and \u2028 \xff: another"
	b := newBook(t)
	c := accepted(fact.KindOrder, "o/1")
	c.Labels = map[string]string{"team": `b"lue\`, "ticket": "OPS-7", "a": "ü"}
	state := orderState("o/1", "refunded", 300, 100)
	state.Labels = c.Labels
	b.add(opened(5000), c, sending("o/1", 1), fact.OrderAccepted{Ref: ref("o/1"), OrderNo: state.OrderNo, NextAt: noon},
		fact.OrderRefunded{OrderState: state, RefundedAt: noon.Add(-time.Hour)},
		fact.LedgerRecorded{Movement: "top-up", AmountCents: 700, By: by, Reason: reason, User: "=ops"})
	var table, text, lines bytes.Buffer
	check(t, errors.Join(b.Report().ExportCSV(t.Context(), &table, report.Period{}), b.Report().ExportBeancount(t.Context(), &text, "main", report.Period{}, false), b.Report().ExportJSON(t.Context(), &lines, report.Period{})))
	rows, err := csv.NewReader(&table).ReadAll()
	check(t, err)
	if head := rows[0]; strings.Join(head[len(head)-9:], " ") != "hash by reason labels user booked_at sent_at corrects_seq refunded_at" {
		t.Errorf("new columns stand at the end: %v", head)
	}
	last := func(row []string) []string { return row[len(row)-8:] }
	if got := last(rows[2]); got[0] != "" || got[2] != `{"a":"ü","team":"b\"lue\\","ticket":"OPS-7"}` || got[3] != "" || got[7] != "" {
		t.Errorf("the order: %q", got)
	}
	if got := last(rows[3]); got[7] != "2026-11-21T11:00:00Z" {
		t.Errorf("its refund: %q", got)
	}
	if got := last(rows[4]); got[0] != "'"+by || !strings.HasPrefix(got[1], "one\nline") || got[2] != "" || got[3] != "'=ops" {
		t.Errorf("the top-up: %q", got)
	}
	readBeancount(t, text.String())
	for _, want := range []string{`  by: "=ada \"the\" \\first"`, `  reason: "one line`, `  labels: "{\"a\":\"ü\",`, `  user: "=ops"`, `  refunded: "2026-11-21T11:00:00Z"`} {
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
	for _, want := range []string{`"by":"=ada \"the\" \\first"`, `"reason":"one\nline`, `"labels":{"a":"ü"`, `"user":"=ops"`, `"refunded_at":"2026-11-21T11:00:00Z"`} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("%q is not in\n%s", want, lines.String())
		}
	}
}

// The NATS user of the request is shown next to the name in the request.
func TestEntriesSayWhoAskedForThem(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	entries, err := b.Money.Postings(t.Context(), 0, 10_000)
	check(t, err)
	said := map[tables.Hand]int{}
	for _, x := range entries {
		said[x.Hand]++
	}
	for _, want := range []tables.Hand{{By: "ada", Reason: "card"}, {By: "ada", Reason: "bought in the shop", User: "ops"}} {
		if said[want] != 2 {
			t.Errorf("%+v stands in %d entries, want both sides of one", want, said[want])
		}
	}
	if said[tables.Hand{}] == 0 {
		t.Error("every entry was booked by hand")
	}
	// The table keeps its form from before users were known, so that ledgers of that time
	// verify.
	if got := b.operation("o5/1").Reason; got != "cancelled by ada: not needed" {
		t.Errorf("the reason of an operation: %q", got)
	}
}

func TestANameIsFollowedByTheUserThatAsked(t *testing.T) {
	for _, x := range []struct{ by, user, want string }{{"ada", "", "ada"}, {"ops", "ops", "ops"}, {"ada", "ops", "ada (NATS user ops)"}} {
		if got := fact.Signed(x.by, x.user); got != x.want {
			t.Errorf("%q of user %q reads %q", x.by, x.user, got)
		}
		if fact.ClaimsUser(fact.Signed(x.by, x.user)) != (x.user != "" && x.user != x.by) {
			t.Errorf("%q of user %q: claimed wrongly", x.by, x.user)
		}
	}
}

// An archive of a version that kept no names still verifies.
func TestAnArchiveOfBeforeNamesStillVerifies(t *testing.T) {
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), append(history(), over()...)...)
	tx, err := b.read.BeginTx(t.Context(), nil)
	check(t, err)
	defer func() { _ = tx.Rollback() }()
	var sums []string
	for _, left := range []string{leftOfRows, leftWithoutRefunds, leftWithoutIDs, leftWithoutUsers, leftWithoutNames} {
		sum, err := snapshotOf(t.Context(), tx, left, func(chunk) error { return nil })
		check(t, err)
		sums = append(sums, sum)
	}
	if sums[0] == sums[1] || sums[1] == sums[2] || sums[2] == sums[3] || sums[3] == sums[4] {
		t.Fatal("the snapshots do not differ")
	}
	seq, hash, err := b.Head(t.Context())
	check(t, err)
	for _, sum := range sums {
		check(t, b.joins(t.Context(), &Ledger{Journal: &Journal{base: &tables.Base{Head: chain.Head{Seq: seq, Hash: hash}, SnapshotHash: sum}}}))
	}
	if err := b.joins(t.Context(), &Ledger{Journal: &Journal{base: &tables.Base{Head: chain.Head{Seq: seq, Hash: hash}, SnapshotHash: "other"}}}); err == nil {
		t.Error("any snapshot joins")
	}
}
