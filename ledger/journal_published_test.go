package ledger

import (
	"bytes"
	"database/sql"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// published returns a ledger's events as its outbox publishes them.
func published(t *testing.T, l *Ledger) [][]byte {
	t.Helper()
	rows, err := l.Rows(t.Context(), 0, 10_000)
	check(t, err)
	var events [][]byte
	for _, r := range rows {
		event, err := r.Event("main")
		check(t, err)
		events = append(events, event)
	}
	return events
}

func stream(events [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestEveryEventGivesItsRowBackByteForByte(t *testing.T) {
	for _, fact := range history() {
		name := fact.FactType()
		data, err := encode(fact)
		check(t, err)
		row := chain.Row{Seq: 7, Type: name, Time: sqlite.Micros(noon.Add(1234 * time.Microsecond)), Operation: fact.Subject(), Data: string(data), PrevHash: chain.Genesis}
		_, row.Hash = chain.Hash(nil, row)
		event, err := row.Event("main")
		check(t, err)
		back, err := ReadEvent(event)
		check(t, err)
		if back != row {
			t.Errorf("%s came back as\n%+v, was\n%+v", name, back, row)
		}
	}
	row := chain.Row{Seq: 1, Type: "x.y", Data: "{}", PrevHash: chain.Genesis}
	_, row.Hash = chain.Hash(nil, row)
	event, err := row.Event("main")
	check(t, err)
	if back, err := ReadEvent(event); err != nil || back != row {
		t.Errorf("an empty fact: %+v %v", back, err)
	}
}

func TestAChangedOrForeignEventIsRefused(t *testing.T) {
	b := newBook(t)
	b.add(opened(100_000))
	event := published(t, b.Ledger)[0]
	for name, changed := range map[string][]byte{
		"an amount":  bytes.Replace(event, []byte("100000"), []byte("900000"), 1),
		"a time":     bytes.Replace(event, []byte("12:00:"), []byte("12:01:"), 1),
		"a sequence": bytes.Replace(event, []byte(`"seq":1`), []byte(`"seq":2`), 1),
		"no place":   []byte(`{"specversion":"1.0","data":{}}`),
		"not JSON":   []byte(`hello`),
	} {
		if bytes.Equal(changed, event) {
			t.Fatalf("%s was not changed", name)
		}
		if _, err := ReadEvent(changed); err == nil {
			t.Errorf("%s: taken as a row", name)
		}
	}
}

// reforged changes a journal row and rehashes it and all later rows. The file is sound once
// its projections are folded again.
func reforged(t *testing.T, from *Ledger, seq int64, change func(*chain.Row)) *book {
	t.Helper()
	rows, err := from.Rows(t.Context(), 0, 10_000)
	check(t, err)
	forged := newBook(t)
	check(t, forged.Close())
	f, err := newFold(t.Context(), forged.path, false)
	check(t, err)
	prev := chain.Genesis
	n, err := f.replay(func(yield func(chain.Row, error) bool) {
		for _, r := range rows {
			if r.Seq == seq {
				change(&r)
			}
			r.PrevHash = prev
			_, r.Hash = chain.Hash(nil, r)
			prev = r.Hash
			if !yield(r, nil) {
				return
			}
		}
	})
	check(t, err)
	check(t, f.close())
	if n != int64(len(rows)) {
		t.Fatalf("%d rows", n)
	}
	return openBook(t, forged.path)
}

func TestAReforgedSuffixIsFoundAgainstTheEvents(t *testing.T) {
	b := newBook(t)
	b.add(history()...)
	forged := reforged(t, b.Ledger, 4, func(r *chain.Row) { r.Data = strings.Replace(r.Data, "700", "100", 1) })
	if _, err := forged.Verify(t.Context()); err != nil {
		t.Fatalf("the forgery is clumsy: %v", err)
	}
	_, err := forged.VerifyAgainst(t.Context(), stream(published(t, b.Ledger)))
	var broken *chain.BrokenError
	if !errors.As(err, &broken) || broken.Check != "events" || broken.Seq != 4 || !strings.Contains(broken.Detail, "rewritten") {
		t.Fatalf("got %v", err)
	}
}

func TestADeletedTailIsFoundAgainstTheEvents(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), fact.LedgerRecorded{Movement: "external", AmountCents: 300, By: "ada", Reason: "shop"})
	events := published(t, b.Ledger)
	shorter := newBook(t)
	shorter.add(opened(1000))
	if _, err := shorter.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	var broken *chain.BrokenError
	if _, err := shorter.VerifyAgainst(t.Context(), stream(events)); !errors.As(err, &broken) || broken.Seq != 2 || !strings.Contains(broken.Detail, "ends before") {
		t.Fatalf("got %v", err)
	}
}

func TestAMissingAForeignAndAForgedEventAreFound(t *testing.T) {
	b := newBook(t)
	b.add(historyOf(7)...)
	events := published(t, b.Ledger)
	for name, test := range map[string]struct {
		events [][]byte
		seq    int64
	}{
		"one taken out":     {slices.Delete(slices.Clone(events), 5, 6), 6},
		"the first missing": {events[1:], 1},
		"one twice":         {slices.Insert(slices.Clone(events), 5, events[4]), 6},
		"one changed":       {slices.Replace(slices.Clone(events), 3, 4, bytes.Replace(events[3], []byte(`:700,`), []byte(`:701,`), 1)), 4},
	} {
		t.Run(name, func(t *testing.T) {
			var broken *chain.BrokenError
			if _, err := b.VerifyAgainst(t.Context(), stream(test.events)); !errors.As(err, &broken) || broken.Seq != test.seq {
				t.Errorf("got %v, want row %d", err, test.seq)
			} else if missing := strings.Contains(broken.Detail, "no event was published"); missing == (name == "one changed") {
				t.Errorf("it is called %q", broken.Detail)
			}
		})
	}
}

func TestWhatIsNotPublishedYetIsCountedAndNoFault(t *testing.T) {
	b := newBook(t)
	facts := history()
	b.add(facts...)
	for b.balance().Head.Seq < againstPage+20 { // more than one page
		b.add(fact.ProxyExpired{ProxyID: "px_9", ExpiresAt: noon})
	}
	events := published(t, b.Ledger)
	a, err := b.VerifyAgainst(t.Context(), stream(events[:len(events)-3]))
	check(t, err)
	if a.Published != int64(len(events)-3) || a.Unpublished != 3 {
		t.Errorf("%+v", a)
	}
	if _, err := b.VerifyAgainst(t.Context(), func(yield func([]byte, error) bool) { yield(nil, sql.ErrConnDone) }); !errors.Is(err, sql.ErrConnDone) {
		t.Errorf("a stream that fails: %v", err)
	}
}
