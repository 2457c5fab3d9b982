package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/report"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// listedBook returns operations in every state, many with the same time, with labels, some
// of a schedule.
func listedBook(t *testing.T) *book {
	t.Helper()
	b := newBook(t)
	b.add(history()...)
	for i := range 40 {
		id := fmt.Sprintf("many-%02d", i)
		f := accepted(fact.KindRenewal, id+"/0001", "px_"+id)
		if i%3 == 0 {
			f.Labels = map[string]string{"team": "shop", "n": fmt.Sprint(i % 2)}
		}
		if i%10 == 0 {
			b.add(fact.SweepPlanned{Schedule: "keep", Slot: noon.Add(time.Duration(i+10) * time.Hour), Plan: "p" + id, Commands: []json.RawMessage{}, Planned: []fact.PlannedCommand{{CommandID: id, Proxies: 1, EstimateCents: 300}}})
		}
		facts := []fact.Fact{f}
		if i%2 == 0 {
			facts = append(facts, sending(id+"/0001", 1))
		}
		if i%4 == 0 {
			facts = append(facts, settled(id+"/0001", "completed", line("px_"+id, "succeeded", 300, 0)))
		}
		b.add(facts...)
	}
	return b
}

// operationsByHand returns the operations of a query, found without it.
func (b *book) operationsByHand(q tables.OperationsQuery) (all []string) {
	b.t.Helper()
	ids, err := sqlite.Collect(b.query(b.t.Context(), `SELECT o.id FROM operations o JOIN commands c ON c.id = o.command_id
		WHERE (?1 = '' OR o.state = ?1) AND (?2 = '' OR o.kind = ?2)
		AND (?3 = '' OR EXISTS (SELECT 1 FROM journal j, json_each(j.data, '$.labels') e WHERE j.type = 'command.accepted' AND j.operation = c.id AND e.key = ?3 AND e.value = ?4))
		AND (?5 = '' OR EXISTS (SELECT 1 FROM sweep_commands s WHERE s.command_id = c.id AND s.schedule = ?5))
		AND o.accepted_at >= ?6 AND o.accepted_at < ?7`,
		string(q.State), string(q.Kind), q.Name, q.Value, q.Schedule, sqlite.Micros(q.From), sqlite.Micros(q.Until)), sqlite.Value[string])
	check(b.t, err)
	return ids
}

// The query is by state, kind, label, schedule and time, on pages of any size, the newest
// first.
func TestAListHasEachOperationOfAQueryOnce(t *testing.T) {
	b := listedBook(t)
	begin, end := noon.AddDate(-1, 0, 0), noon.AddDate(1, 0, 0)
	var middle int64
	check(t, b.read.QueryRowContext(t.Context(), `SELECT accepted_at FROM operations ORDER BY accepted_at LIMIT 1 OFFSET 30`).Scan(&middle))
	var queries []tables.OperationsQuery
	for _, state := range append([]fact.State{""}, fact.States...) {
		for _, kind := range []fact.Kind{"", fact.KindOrder, fact.KindRenewal} {
			for _, label := range []string{"", "team=shop", "n=1", "n=none"} {
				name, value, _ := strings.Cut(label, "=")
				for _, schedule := range []string{"", "keep"} {
					q := tables.OperationsQuery{State: state, Kind: kind, Name: name, Value: value, Schedule: schedule, From: begin, Until: end}
					queries = append(queries, q)
					if schedule == "" {
						q.From = sqlite.FromMicros(middle)
						queries = append(queries, q)
						q.From, q.Until = begin, sqlite.FromMicros(middle)
						queries = append(queries, q)
					}
				}
			}
		}
	}
	some := 0
	for _, q := range queries {
		want := b.operationsByHand(q)
		some += len(want)
		for _, q.Limit = range []int{1, 7, 1000} {
			q.Before = tables.Cursor{}
			var got []fact.Operation
			for range 200 {
				p, err := b.Operations.OperationsPage(t.Context(), q)
				check(t, err)
				got = append(got, p.Operations...)
				if q.Before = tables.CursorOf(p.Next.String()); p.Next == (tables.Cursor{}) {
					break
				}
			}
			ids := make([]string, 0, len(got))
			for i, o := range got {
				if ids = append(ids, o.ID); i > 0 && q.Schedule == "" && o.AcceptedAt.After(got[i-1].AcceptedAt) && o.CommandID != got[i-1].CommandID {
					t.Errorf("%+v: %s comes behind %s", q, o.ID, got[i-1].ID)
				}
			}
			slices.Sort(ids)
			slices.Sort(want)
			if !slices.Equal(ids, want) {
				t.Errorf("%+v: %q, and there are %q", q, ids, want)
			}
		}
	}
	if some < 200 {
		t.Errorf("only %d operations were asked for", some)
	}
}

// A page also says where it continues.
func TestAPageLooksThroughABoundedPartOfTheList(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindOrder, "rare/1"), sending("rare/1", 1), fact.OrderAccepted{Ref: ref("rare/1"), Attempt: 1, OrderNo: "no of rare/1", NextAt: noon},
		fact.OrderDelivered{OrderState: orderState("rare/1", "completed", 0, 0), ProxyIDs: []string{"px_new"}})
	const looked = 1000
	ctx := failpoint.WithSize(t.Context(), "list.looked", looked)
	facts := make([]fact.Fact, 0, looked)
	for i := range looked {
		facts = append(facts, accepted(fact.KindOrder, fmt.Sprintf("common-%d/1", i)))
	}
	b.add(facts...)
	q := tables.OperationsQuery{State: fact.StateDelivered, Limit: 50}
	p, err := b.Operations.OperationsPage(ctx, q)
	if check(t, err); len(p.Operations) != 0 || p.Next == (tables.Cursor{}) || p.Next.At().Before(noon.AddDate(-1, 0, 0)) {
		t.Fatalf("the first page is %+v", p)
	}
	q.Before = p.Next
	if p, err = b.Operations.OperationsPage(ctx, q); err != nil || len(p.Operations) != 1 || p.Next != (tables.Cursor{}) {
		t.Fatalf("the second page is %+v, %v", p, err)
	}
}

// An answer is one decision, however many slots were held with the plan.
func TestAnAnswerToAPlanIsOneDecision(t *testing.T) {
	b := newBook(t)
	answers := []fact.SweepFinished{{Plan: "1111", Reason: "fine"}, {Plan: "9f86d081", Abandoned: true}, {Plan: "9f86d081", Abandoned: true}, {Plan: "9f86d081", Abandoned: true}}
	var facts []fact.Fact
	for i := range answers {
		x := &answers[i]
		x.Schedule, x.Slot, x.By = "keep", noon.Add(time.Duration(i)*time.Hour), "ada"
		b.add(fact.SweepPlanned{Schedule: "keep", Slot: x.Slot, Plan: x.Plan, Commands: []json.RawMessage{}}, fact.SweepHeld{Schedule: "keep", Slot: x.Slot, Plan: x.Plan, Code: fact.SweepHeldApproval})
		facts = append(facts, *x)
	}
	b.add(facts...)
	var all []string
	check(t, b.Report().Decisions(t.Context(), report.Period{From: noon.AddDate(-1, 0, 0)}, func(d report.Decision) error {
		all = append(all, d.Outcome+" "+d.About)
		return nil
	}))
	if !slices.Equal(all, []string{"approved keep 1111", "declined keep 9f86d081"}) {
		t.Errorf("%q", all)
	}
	first, next, err := b.Report().DecisionsBefore(t.Context(), 0, 1)
	check(t, err)
	second, _, err := b.Report().DecisionsBefore(t.Context(), next, 1)
	check(t, err)
	if first[0].Outcome != "declined" || second[0].Outcome != "approved" {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// The index finds the same decisions as reading every row, on pages. No type of fact that
// can carry a decision is missing in it.
func TestDecisionsAreFoundByTheirIndex(t *testing.T) {
	b := listedBook(t)
	var want []report.Decision
	check(t, b.Report().Decisions(t.Context(), report.Period{From: noon.AddDate(-1, 0, 0)}, func(d report.Decision) error {
		want = append(want, d)
		return nil
	}))
	slices.Reverse(want)
	if len(want) < 10 {
		t.Fatalf("only %d decisions", len(want))
	}
	for _, limit := range []int{1, 4, 1000} {
		var got []report.Decision
		for before := int64(-1); before != 0; {
			part, next, err := b.Report().DecisionsBefore(t.Context(), before, limit)
			check(t, err)
			got, before = append(got, part...), next
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d at once: %+v\nand reading every row %+v", limit, got, want)
		}
	}
	query := report.DecisionTypes
	for name := range fact.Types() {
		data := `{"by":"ada","reason":"r","detail":"by ada: r","cause":"person"}`
		if d, err := report.DecisionOf(chain.Row{Type: name, Data: data}); err == nil && d.By != "" && !strings.Contains(query, `'`+name+`'`) {
			t.Errorf("%s is a decision, and not in decisionTypes", name)
		}
		d := report.Decision{Fact: name}
		if strings.Contains(query, `'`+name+`'`) && strings.Contains(d.What(), name) {
			t.Errorf("%s has no words", name)
		}
	}
}

// This holds for every kind, and each kind adds up to its totals.
func TestPostingsFromTheEndAreThoseFromTheBeginning(t *testing.T) {
	b := listedBook(t)
	all, err := b.Money.Postings(t.Context(), 0, 10_000)
	check(t, err)
	slices.SortStableFunc(all, func(x, y tables.Posting) int { return cmp.Compare(y.Seq, x.Seq) })
	for _, kind := range append([]string{""}, tables.Kinds...) {
		want, sum := []tables.Posting{}, int64(0)
		for _, p := range all {
			if kind == "" || p.Kind == kind {
				want = append(want, p)
				sum += max(p.AmountCents, 0)
			}
		}
		if len(want) == 0 {
			t.Errorf("no entry is of the kind %s", kind)
		}
		for _, limit := range []int{1, 7, 1000} {
			got := []tables.Posting{}
			for before := int64(-1); before != 0; {
				part, next, err := b.Money.PostingsBefore(t.Context(), kind, before, limit)
				check(t, err)
				got, before = append(got, part...), next
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %d at once: %+v\nand from the beginning %+v", kind, limit, got, want)
			}
		}
		totals, err := b.Money.TotalsOf(t.Context(), kind)
		check(t, err)
		for _, x := range totals {
			sum -= x.Cents
		}
		if kind != "" && sum != 0 {
			t.Errorf("entries and totals of the kind %s differ by %d", kind, sum)
		}
	}
}

// This holds for as many entries as are looked through.
func TestTheWalletAfterEachBookingIsItsSumUntilThere(t *testing.T) {
	b := listedBook(t)
	all, err := b.Money.Postings(t.Context(), 0, 10_000)
	check(t, err)
	want, seqs, wallet := map[int64]int64{}, []int64{}, int64(0)
	for _, p := range all {
		if p.Account == "wallet" {
			wallet += p.AmountCents
		}
		if want[p.Seq] = wallet; !slices.Contains(seqs, p.Seq) {
			seqs = append([]int64{p.Seq}, seqs...)
		}
	}
	got, err := b.Money.WalletsAfter(t.Context(), seqs)
	if check(t, err); len(want) < 10 || !maps.Equal(got, want) {
		t.Errorf("%v, and the sums are %v", got, want)
	}
	for len(seqs) > 1 { // any of them alone, and few entries
		seqs = seqs[1:]
		got, err = b.Money.WalletsAfter(t.Context(), seqs[:1])
		if check(t, err); got[seqs[0]] != want[seqs[0]] || len(got) != 1 {
			t.Errorf("row %d: %v, and the sum is %d", seqs[0], got, want[seqs[0]])
		}
		got, err = b.Money.WalletsAfter(failpoint.WithSize(t.Context(), "list.looked", 3), seqs)
		for seq, cents := range got {
			if want[seq] != cents {
				t.Errorf("row %d: %d, and the sum is %d", seq, cents, want[seq])
			}
		}
		if check(t, err); len(got) > 4 {
			t.Errorf("%d rows of 3 entries", len(got))
		}
	}
}

func TestATraceIDFindsItsOperations(t *testing.T) {
	b := newBook(t)
	traced := accepted(fact.KindRenewal, "r1/0001", "px_1")
	traced.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	first, second := ref("r1/0001"), ref("r1/0001")
	first.TraceID, second.TraceID = "trc_first", "trc_second"
	b.add(opened(1000), traced, sending("r1/0001", 1), fact.OperationWaiting{Ref: first, Attempt: 1, Reason: "reset", NextAt: noon}, sending("r1/0001", 2),
		fact.RenewalSettled{Ref: second, Status: "completed", Attempt: 2, Lines: fact.Lines{ChargedCents: 300, Items: []fact.Line{line("px_1", "succeeded", 300, 0)}}},
		accepted(fact.KindRenewal, "r2/0001", "px_2"))
	for trace, want := range map[string]string{"trc_first": "r1/0001", "trc_second": "r1/0001", "4bf92f3577b34da6a3ce929d0e0e4736": "r1", "trc_none": ""} {
		got, err := b.Operations.Traced(t.Context(), trace, 5)
		if check(t, err); strings.Join(got, " ") != want {
			t.Errorf("%s: %q", trace, got)
		}
	}
	if got, err := b.Operations.Traced(t.Context(), "r", 3); err != nil || strings.Join(got, " ") != "r2 r1/0001 r1" {
		t.Errorf("of several rows each: %q, %v", got, err)
	}
}

// The test covers the order that delivered a proxy, and each renewal.
func TestTheWayOfAProxyIsFoundFromItsOrderOn(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), accepted(fact.KindOrder, "o/1"), sending("o/1", 1), fact.OrderAccepted{Ref: ref("o/1"), Attempt: 1, OrderNo: "no of o/1", NextAt: noon},
		fact.OrderDelivered{OrderState: orderState("o/1", "completed", 0, 0), ProxyIDs: []string{"px_1", "px_2"}})
	for _, id := range []string{"r1/0001", "r2/0001"} {
		b.add(accepted(fact.KindRenewal, id, "px_1", "px_other"), sending(id, 1), settled(id, "completed", line("px_1", "succeeded", 300, 0), line("px_other", "succeeded", 300, 0)))
	}
	ids := func(all []fact.Operation, err error) (text string) {
		t.Helper()
		check(t, err)
		for _, o := range all {
			text += o.ID + " "
		}
		return text
	}
	first := b.operation("r1/0001")
	for what, x := range map[string][2]string{
		"all":    {ids(b.Operations.NamedBefore(t.Context(), "px_1", fact.Operation{}, 10)), "r2/0001 r1/0001 o/1 "},
		"before": {ids(b.Operations.NamedBefore(t.Context(), "px_1", first, 1)), "o/1 "},
		"after":  {ids(b.Operations.NamedAfter(t.Context(), "px_1", first, 1)), "r2/0001 "},
		"other":  {ids(b.Operations.NamedBefore(t.Context(), "px_2", fact.Operation{}, 10)), "o/1 "},
	} {
		if x[0] != x[1] {
			t.Errorf("%s: %q, and not %q", what, x[0], x[1])
		}
	}
	for id, want := range map[string]string{"px_2": "o/1", "px_other": ""} {
		if got, err := b.Operations.DeliveredBy(t.Context(), id); err != nil || got != want {
			t.Errorf("%s was delivered by %q, %v", id, got, err)
		}
	}
	b.proves()
}
