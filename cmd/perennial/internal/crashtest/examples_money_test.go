//go:build check

package crashtest

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/tables"
)

// checkMoneyAndChain checks that the exported costs sum to the balance. The verifiers accept the
// stream up to its head, and refuse tampered copies of it.
func (r *richRun) checkMoneyAndChain() {
	r.t.Helper()
	balance := decode[tables.Balance](r.t, r.mustCLI("ledger", "balance", "-o", "json"))
	head := fmt.Sprintf("%d:%s\n", balance.Head.Seq, balance.Head.Hash)
	copied := r.copyOfTheStream()
	file := func(name string, lines [][]byte) string {
		r.write(name, string(bytes.Join(lines, []byte("\n")))+"\n", 0o600)
		return filepath.Join(r.dir, name)
	}
	whole := file("whole.jsonl", copied)
	for _, lang := range append(r.langs, python(r.t)) {
		if lang.name != "python" {
			r.sums(lang.as(r.t, r.url, "sub", "costs").prints(), balance)
			if got := lang.as(r.t, r.url, "sub", "verify").prints(); got != head {
				r.t.Errorf("%s ends with %s, the ledger with %s", lang.name, got, head)
			}
		}
		r.sums(lang.as(r.t, r.url, "", "costs", whole).prints(), balance)
		if got := lang.as(r.t, r.url, "", "verify", whole).prints(); got != head {
			r.t.Errorf("%s ends with %s, the ledger with %s", lang.name, got, head)
		}
		for name, lines := range tampered(r.t, copied) {
			want := "was changed"
			if name != "cents" && name != "time" {
				want = "does not follow"
			}
			lang.as(r.t, r.url, "", "verify", file(name+".jsonl", lines)).refuses(want)
		}
	}
}

// tampered returns copies of a stream, each with one change: an amount, a time by a microsecond, a
// missing event, or two events in the wrong order.
func tampered(t testing.TB, lines [][]byte) map[string][][]byte {
	t.Helper()
	edited := func(edit func(line []byte) []byte) [][]byte {
		out := append([][]byte{}, lines...)
		for n, line := range out {
			if other := edit(line); !bytes.Equal(other, line) {
				out[n] = other
				return out
			}
		}
		t.Fatal("nothing was changed")
		return nil
	}
	gone := append(append([][]byte{}, lines[:5]...), lines[6:]...)
	swapped := append([][]byte{}, lines...)
	swapped[5], swapped[6] = swapped[6], swapped[5]
	return map[string][][]byte{
		"cents": edited(func(l []byte) []byte {
			return bytes.Replace(l, []byte(`"charged_cents":600`), []byte(`"charged_cents":300`), 1)
		}),
		"time": edited(func(l []byte) []byte {
			if at := bytes.Index(l, []byte(`Z","datacontent`)); at > 0 {
				l = bytes.Clone(l)
				l[at-1] ^= 1 // another digit
			}
			return l
		}),
		"gone": gone, "swapped": swapped,
	}
}

// sums checks that the last sums of an export equal the balance, and that its cells add up to them.
func (r *richRun) sums(text string, balance tables.Balance) {
	r.t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 2 {
		r.t.Errorf("%v\n%s", err, text)
		return
	}
	cents := func(cell string) int64 {
		n, err := strconv.ParseInt(cell, 10, 64)
		if err != nil {
			r.t.Errorf("%q: %v", cell, err)
		}
		return n
	}
	var charged, refunded int64
	for _, row := range rows[1:] {
		charged, refunded = charged+cents(row[5]), refunded+cents(row[6])
		if cents(row[8]) != charged || cents(row[9]) != refunded {
			r.t.Errorf("the sums of %v should be %d and %d", row, charged, refunded)
		}
	}
	if charged != balance.ChargedCents || refunded != balance.RefundedCents || charged == 0 {
		r.t.Errorf("the export sums to %d and %d, the balance is %+v", charged, refunded, balance)
	}
}

// copyOfTheStream returns the stored events as `watch` prints them.
func (r *richRun) copyOfTheStream() [][]byte {
	r.t.Helper()
	text := r.mustCLI("watch", "--stored", "-o", "json")
	return bytes.Split(bytes.TrimSuffix([]byte(text), []byte("\n")), []byte("\n"))
}

// The first events of the stream are in an archive.
func TestTheExamplesReadBehindAnArchive(t *testing.T) {
	t.Parallel()
	w := oldWorld(t, "")
	w.archiveOld("--to", w.dir)
	_, line := w.run()
	w.readySays(line, ready)
	r := &richRun{world: w, url: line.NATS}
	balance := decode[tables.Balance](t, w.mustCLI("ledger", "balance", "-o", "json"))
	for _, lang := range languages(t) {
		r.sums(lang.as(t, r.url, "", "costs").prints(), balance)
		head := lang.as(t, r.url, "", "verify").prints()
		if row := w.row(head); head != fmt.Sprintf("%d:%s\n", row.Seq, row.Hash) {
			t.Errorf("%s ends with %s, the ledger has %d:%s", lang.name, head, row.Seq, row.Hash)
		}
	}
}

// The examples start from the archived sums, and do not book an archived event twice.
func TestTheExamplesBeginWithTheSumsOfTheLastArchive(t *testing.T) {
	t.Parallel()
	const behind = `{"type":"perennial.renewal.completed.v1","time":"2026-11-22T10:00:00Z","data":{"command_id":"r1","booked":{"charged_cents":300,"refunded_cents":0,"currency":"USD"},"ledger":{"seq":41}}}
{"type":"perennial.order.delivered.v1","time":"2026-11-22T10:00:01Z","data":{"command_id":"=1+1","operation_id":"a,\"b","booked":{"charged_cents":600,"refunded_cents":0,"currency":"USD"},"ledger":{"seq":43}}}
{"type":"perennial.ledger.archived.v1","time":"2026-11-22T10:00:02Z","data":{"last_seq":41,"charged_cents":1200,"refunded_cents":100,"ledger":{"seq":44}}}
{"type":"perennial.order.refunded.v1","time":"2026-11-22T10:00:03Z","data":{"command_id":"o9","booked":{"charged_cents":0,"refunded_cents":50,"currency":"USD"},"ledger":{"seq":45}}}
`
	r := &richRun{world: &world{t: t, dir: t.TempDir()}}
	r.write("behind.jsonl", behind, 0o600)
	r.write("cut.jsonl", strings.SplitAfter(behind, "\n")[0], 0o600)
	for _, lang := range append(languages(t), python(t)) {
		text := lang.as(t, "", "", "costs", filepath.Join(r.dir, "behind.jsonl")).prints()
		r.sums(text, tables.Balance{ChargedCents: 1800, RefundedCents: 150})
		if !strings.Contains(text, `,'=1+1,"a,""b",600,0,USD,1800,100`) {
			t.Errorf("%s writes\n%s", lang.name, text)
		}
		lang.as(t, "", "", "costs", filepath.Join(r.dir, "cut.jsonl")).refuses("begin with 41")
	}
}

func (w *world) row(head string) chain.Row {
	w.t.Helper()
	text, _, _ := strings.Cut(head, ":")
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		w.t.Fatalf("%q: %v", head, err)
	}
	l, err := ledger.Open(w.t.Context(), ledger.Config{Path: w.ledgerFile(), ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	row, err := l.Row(w.t.Context(), seq)
	if err != nil {
		w.t.Fatalf("%q: %v", head, err)
	}
	return row
}
