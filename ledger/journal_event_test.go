package ledger

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// eventsDir holds the documents published for consumers.
const eventsDir = "../docs/events/"

// streamed returns a stream with every type of fact, as consumers get it, and the book it
// was published from.
func streamed(t *testing.T) (b *book, rows []chain.Row, events [][]byte) {
	t.Helper()
	b = newBook(t)
	for _, f := range append(history(), over()...) {
		b.commit(f)
	}
	b.commit(
		fact.LedgerRecorded{Movement: "top-up", AmountCents: 100, By: "Zoë <ops>", Reason: "a \"quoted\" text, & \u2028 more", ID: "a \"b\",\"data\":{ <c>"},
		fact.LedgerOpened{AccountID: "acc", Environment: "sandbox", BaseURL: "u", Currency: "USD", Epoch: "e2", Restored: &fact.Restoration{From: "backup", Since: noon, AppID: "app"}},
	)
	rows, err := b.Rows(t.Context(), 0, 10_000)
	check(t, err)
	return b, rows, eventsOf(t, rows)
}

func eventsOf(t *testing.T, rows []chain.Row) (events [][]byte) {
	t.Helper()
	for _, r := range rows {
		event, err := r.Event("main")
		check(t, err)
		events = append(events, event)
	}
	return events
}

func TestEveryTypeOfEventFitsItsSchema(t *testing.T) {
	_, rows, events := streamed(t)
	missing := fact.Types()
	for i, r := range rows {
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		schema, err := c.Compile(eventsDir + r.Type + ".json")
		check(t, err)
		event, err := jsonschema.UnmarshalJSON(bytes.NewReader(events[i]))
		check(t, err)
		if err := schema.Validate(event); err != nil {
			t.Errorf("%s\n%s\n%v", r.Type, events[i], err)
		}
		delete(missing, r.Type)
	}
	for name := range missing {
		t.Errorf("no event %s is published here: add one to the history", name)
	}
}

// python runs the code of docs/events/README.md with a driver appended, which reads events
// from its input, one a line.
func python(t *testing.T, driver string, events [][]byte) string {
	t.Helper()
	page, err := os.ReadFile(eventsDir + "README.md")
	check(t, err)
	var code strings.Builder
	for _, block := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllSubmatch(page, -1) {
		code.Write(block[1])
	}
	fmt.Fprintf(&code, "\nimport sys\nevents = sys.stdin.buffer.read().decode().split('\\n')\n%s\n", driver)
	c := exec.CommandContext(t.Context(), "python3", "-c", code.String())
	c.Stdin = bytes.NewReader(bytes.Join(events, []byte{'\n'}))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("python3, 3.11 or later: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestThePagesVerifierProvesTheChain(t *testing.T) {
	_, _, events := streamed(t)
	const holds = "the chain holds"
	verify := func(events [][]byte) string { return python(t, "print(verify(events))", events) }
	if out := verify(events); out != holds {
		t.Fatal(out)
	}
	if out := verify(events[7:]); out != holds {
		t.Errorf("of a stream that begins later: %s", out)
	}
	for what, change := range map[string]func(i int, event string) string{
		"an amount": func(_ int, e string) string {
			return strings.Replace(e, `"charged_cents":300`, `"charged_cents":301`, 1)
		},
		"a space":   func(_ int, e string) string { return strings.Replace(e, `"data":{`, `"data":{ `, 1) },
		"a time":    func(_ int, e string) string { return strings.Replace(e, `"time":"2026-`, `"time":"2025-`, 1) },
		"a subject": func(_ int, e string) string { return strings.Replace(e, `"subject":"r1/`, `"subject":"r2/`, 1) },
		"a type": func(_ int, e string) string {
			return strings.Replace(e, `renewal.completed.v1`, `renewal.partial.v1`, 1)
		},
		"a sequence": func(_ int, e string) string {
			return strings.Replace(e, `"ledger":{"seq":9,`, `"ledger":{"seq":10,`, 1)
		},
	} {
		changed := slices.Clone(events)
		i := slices.IndexFunc(events, func(e []byte) bool { return change(0, string(e)) != string(e) })
		if i < 0 {
			t.Fatalf("nothing to change: %s", what)
		}
		changed[i] = []byte(change(i, string(events[i])))
		if out := verify(changed); out == holds {
			t.Errorf("%s was changed: %s", what, out)
		}
	}
	if out := verify(slices.Delete(slices.Clone(events), 4, 5)); !strings.Contains(out, "event 6 ") {
		t.Errorf("an event was taken out: %s", out)
	}
}

func TestThePagesSumIsTheBalance(t *testing.T) {
	b, _, events := streamed(t)
	balance := b.balance()
	if out := python(t, "print(*booked(events))", events); out != fmt.Sprint(balance.ChargedCents, balance.RefundedCents) || balance.ChargedCents == 0 {
		t.Errorf("the sum is %s, the balance %d %d", out, balance.ChargedCents, balance.RefundedCents)
	}
}

func TestThePagesSumGoesOnBehindAnArchive(t *testing.T) {
	old := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), append(history(), over()...)...)
	check(t, old.Close())
	out, err := archiveOf(t, old.path, 60).Run(t.Context())
	check(t, err)
	b := openBook(t, old.path)
	rows, err := b.Rows(t.Context(), out.LastSeq, 10_000)
	check(t, err)
	sum := python(t, `
archived = [json.loads(e)["data"] for e in events if '"type":"perennial.ledger.archived.v1"' in e][-1]
charged, refunded = booked(e for e in events if json.loads(e)["data"]["ledger"]["seq"] > archived["last_seq"])
print(archived["charged_cents"] + charged, archived["refunded_cents"] + refunded)`, eventsOf(t, rows))
	if balance := b.balance(); sum != fmt.Sprint(balance.ChargedCents, balance.RefundedCents) {
		t.Errorf("the sum is %s, the balance %d %d", sum, balance.ChargedCents, balance.RefundedCents)
	}
}
