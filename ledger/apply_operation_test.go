package ledger

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// remembersTheFile fails unless everything that the writer caches equals the file.
func (t *Tx) remembersTheFile() error {
	for id, o := range t.w.known.operations {
		if err := t.w.writeHeld(); err != nil {
			return err
		}
		delete(t.w.known.operations, id)
		read, err := t.operation(id)
		if err != nil || !reflect.DeepEqual(o.Operation, read.Operation) || o.live != read.live || o.chargedAt != read.chargedAt {
			return fmt.Errorf("operation %s is remembered as\n%+v\nand the file has\n%+v (%w)", id, o, read, err)
		}
	}
	for id, c := range t.w.known.commands {
		operations, err := sqlite.Collect(t.query(tables.OperationsOfCommand, id+"/", id+"0", id), tables.ScanOperation)
		if err != nil || len(operations) != 1 || operations[0].ID != c.operation {
			return fmt.Errorf("command %s is remembered with one operation, %s, and the file has %+v (%w)", id, c.operation, operations, err)
		}
		f, of := fact.CommandFinished{Ref: fact.Ref{CommandID: id}}, fact.CommandFinished{}
		leftOut, err := t.address(&f)
		if of.ReplyTo, of.StreamSequence = c.replyTo, c.streamSequence; err != nil || leftOut || f.ReplyTo != of.ReplyTo || f.StreamSequence != of.StreamSequence {
			return fmt.Errorf("command %s is remembered as %+v, and the file has %+v, left out %t (%w)", id, c, f, leftOut, err)
		}
	}
	return nil
}

// The cache equals the file for any history, any grouping of its facts, and any refusals in
// between.
func TestWhatTheWriterRemembersIsInTheFile(t *testing.T) {
	dir, n := t.TempDir(), 0
	boom := errors.New("boom")
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m := &model{wallet: 9000}
		m.add(opened(9000))
		steps := []func(*rapid.T){m.order, m.orderByPerson, m.renewal, m.renewal, m.person}
		facts := history()
		if rapid.Bool().Draw(rt, "any") {
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				rapid.SampledFrom(steps).Draw(rt, "step")(rt)
			}
			facts = m.facts
		}
		b := openBook(t, filepath.Join(dir, fmt.Sprintf("%d.db", n)))
		defer func() { _ = b.Close() }()
		write := func(part []fact.Fact, refuse bool) error {
			finishing := rapid.Bool().Draw(rt, "finishing") // drawn here: a draw ends its goroutine, and below that is the writer's
			return b.Write(t.Context(), func(tx *Tx) error {
				tx.finishing = finishing
				if err := tx.Append(part...); err != nil {
					return err
				}
				if err := tx.remembersTheFile(); err != nil || !refuse {
					return err
				}
				return boom
			})
		}
		for len(facts) > 0 {
			part := facts[:rapid.IntRange(1, len(facts)).Draw(rt, "facts together")]
			if rapid.Bool().Draw(rt, "refused first") {
				if err := write(part, true); !errors.Is(err, boom) {
					rt.Fatal(err)
				}
			}
			if err := write(part, false); err != nil {
				rt.Fatal(err)
			}
			facts = facts[len(part):]
		}
		if err := b.Write(t.Context(), (*Tx).remembersTheFile); err != nil {
			rt.Fatal(err)
		}
		if _, err := b.Verify(t.Context()); err != nil {
			rt.Fatal(err)
		}
	})
}

// A group is undone, and each of its writes runs again on its own.
func TestWhatIsRolledBackIsNotRemembered(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000))
	boom := errors.New("boom")
	errs := b.together(
		func(tx *Tx) error {
			return tx.Append(accepted(fact.KindRenewal, "a/0001", "px_a"), sending("a/0001", 1))
		},
		func(tx *Tx) error {
			if err := tx.Append(accepted(fact.KindRenewal, "b/0001", "px_b"), sending("b/0001", 1)); err != nil {
				return err
			}
			return boom
		},
		func(tx *Tx) error {
			_, err := tx.Operation("b/0001")
			if !errors.Is(err, ErrNotFound) {
				return fmt.Errorf("what was undone is there: %w", err)
			}
			return tx.remembersTheFile()
		},
	)
	if errs[0] != nil || !errors.Is(errs[1], boom) || errs[2] != nil {
		t.Fatal(errs)
	}
	if o := b.operation("a/0001"); o.State != fact.StateSending || o.Version != 2 {
		t.Errorf("%+v", o)
	}
	b.proves()
}

// The unique index refuses the second renewal although neither was written before, and the
// first stays.
func TestTwoPromisesOfOneProxyInOneCommit(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000))
	promise := func(id string) func(*Tx) error {
		return func(tx *Tx) error { return tx.Append(accepted(fact.KindRenewal, id, "px_1")) }
	}
	errs := b.together(promise("a/0001"), promise("b/0001"), promise("c/0001"))
	refused := 0
	for _, err := range errs {
		if errors.Is(err, ErrClaimed) {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	operations, err := sqlite.Collect(b.query(t.Context(), `SELECT id FROM operations`), sqlite.Value[string])
	if check(t, err); refused != 2 || len(operations) != 1 {
		t.Errorf("%d were refused, and there are %q: %v", refused, operations, errs)
	}
	b.proves()
}

// Every statement of the transaction that could miss held-back rows sees them.
func TestWhatIsHeldBackIsSeen(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000))
	for query, want := range map[string]int{
		`SELECT count(*) FROM journal`:                                            2,
		`SELECT count(*) FROM operations`:                                         1,
		`SELECT count(*) FROM lines WHERE proxy_id = 'px_1'`:                      1,
		`SELECT count(*) FROM v_labels WHERE label = 'ticket'`:                    1,
		`SELECT count(*) FROM v_renewals`:                                         1,
		`SELECT sum(n) FROM state_counts`:                                         1,
		`SELECT count(*) FROM operations o, lines l WHERE l.operation = o.id`:     1,
		`SELECT count(*) FROM journal j, commands c WHERE c.accepted_seq = j.seq`: 1,
	} {
		errBack := errors.New("back")
		err := b.Write(t.Context(), func(tx *Tx) error {
			if err := tx.Append(accepted(fact.KindRenewal, "a/0001", "px_1")); err != nil {
				return err
			}
			var got int
			if err := tx.queryRow(query).Scan(&got); err != nil || got != want {
				t.Errorf("%s: %d instead of %d: %v", query, got, want, err)
			}
			return errBack
		})
		if !errors.Is(err, errBack) {
			t.Fatal(err)
		}
	}
}

// Statements with other triggers do not write held-back rows.
func TestOnlyTheJournalsOwnTriggersReadIt(t *testing.T) {
	b := newBook(t)
	type trigger struct{ table, text string }
	all, err := sqlite.Collect(b.query(t.Context(), `SELECT tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'`), func(s sqlite.Scanner) (x trigger, err error) {
		return x, s.Scan(&x.table, &x.text)
	})
	check(t, err)
	own := 0
	for _, x := range all {
		if readsJournal(x.text) {
			own++
			if x.table != "journal" {
				t.Errorf("a trigger of %s reads the journal, of which rows may be held back: %s", x.table, x.text)
			}
		}
	}
	if own < 3 || len(all) <= own {
		t.Errorf("%d of %d triggers are the journal's", own, len(all))
	}
	views, err := sqlite.Collect(b.query(t.Context(), `SELECT name FROM sqlite_schema WHERE type = 'view' AND sql LIKE '%journal%'`), sqlite.Value[string])
	check(t, err)
	for _, name := range views {
		if !strings.HasPrefix(name, "v_") {
			t.Errorf("view %s reads the journal: readsJournal does not know it", name)
		}
	}
}

// The proxies that an order shows are recorded, even if it is partly refunded or in review.
func TestTheProxiesOfEveryEndOfAnOrderCarryItsLabels(t *testing.T) {
	for _, row := range []struct {
		name string
		end  fact.Fact
	}{
		{"refunded in part", fact.OrderRefunded{OrderState: orderState("o/1", "odd", 900, 600), RefundedAt: noon, ProxyIDs: []string{"px_1"}}},
		{"in review", fact.OperationReview{Ref: ref("o/1"), Reason: "no total", ProxyIDs: []string{"px_1"}}},
	} {
		b := newBook(t)
		b.observe(1, noon, tables.Proxy{ProxyID: "px_1", ExpiresAt: at(time.Hour)})
		b.add(opened(5000), accepted(fact.KindOrder, "o/1"), sending("o/1", 1), fact.OrderAccepted{Ref: ref("o/1"), OrderNo: "no", NextAt: noon}, row.end)
		p, err := b.Fleet.Proxy(t.Context(), "px_1")
		by, errBy := b.Operations.DeliveredBy(t.Context(), "px_1")
		if err != nil || errBy != nil || p.Labels["ticket"] != "OPS-7" || by != "o/1" {
			t.Errorf("%s: %+v, delivered by %q (%v, %v)", row.name, p, by, err, errBy)
		}
	}
}
