package jobs

import (
	"reflect"
	"slices"
	"testing"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/upstream"
)

// A new kind needs a row with every field and a line of the stream.
func TestEveryRowOfTheTableOfKindsIsWhole(t *testing.T) {
	seen := map[any]fact.Kind{}
	for k, row := range kinds {
		fields := reflect.ValueOf(row)
		for i := range fields.NumField() {
			name := fields.Type().Field(i).Name
			if name != "polled" && fields.Field(i).IsZero() {
				t.Errorf("%s has no %s", k, name)
			}
		}
		for _, what := range []any{row.subject, row.lane, row.priority, row.write} {
			if other, twice := seen[what]; twice {
				t.Errorf("%s and %s share %v", k, other, what)
			}
			seen[what] = k
		}
		if string(row.lane) != string(k) { // Decide pauses a kind by its name
			t.Errorf("%s pauses as %s", k, row.lane)
		}
		if KindOf(row.subject) != k || queue.ValidKind(row.subject) != nil {
			t.Errorf("%s is not found by its subject %s", k, row.subject)
		}
		if command.Shapes()[string(row.subject)] == nil {
			t.Errorf("%s has no schema", k)
		}
		if !slices.Contains(queue.Lines(), queue.Line{Kind: row.subject}) {
			t.Errorf("%s has no line of the stream", k)
		}
	}
	for _, line := range queue.Lines() {
		if KindOf(line.Kind) == "" {
			t.Errorf("no kind takes the commands of %s", line.Kind)
		}
	}
}

// The ledger's tables also list the kinds and lanes, so a new one needs a migration.
func TestTheLedgerTakesEveryKind(t *testing.T) {
	h := idleRig(t)
	for k, row := range kinds {
		id := "of-" + string(k)
		var ids []string
		if k.OfProxies() {
			ids = []string{"px_" + id}
		}
		planned := command.Plan(h.runner.Binding(), k, id, "1", 1, ids)
		check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(
				fact.CommandAccepted{Ref: fact.Ref{CommandID: id}, Kind: k, ContentHash: id, Content: []byte("{}"), Operations: []fact.Planned{planned}},
				fact.AccountPaused{Scope: string(row.lane), Cause: "insufficient_scope", Detail: "a test"},
			)
		}))
	}
}

func TestWhatPaysIsReadByUrgencyThenByKind(t *testing.T) {
	want := []place{
		{laneRenewal, urgent}, {laneOrder, urgent}, {laneRenewal, usual}, {laneOrder, usual}, {laneRenewal, inBulk}, {laneOrder, inBulk},
	}
	if !reflect.DeepEqual(paying, want) {
		t.Errorf("%v", paying)
	}
	back := []due{
		{fact.StateHeld, fact.KindRenewal, laneRenewal}, {fact.StateHeld, fact.KindOrder, laneOrder},
		{fact.StateWaiting, fact.KindRenewal, laneRenewal}, {fact.StateWaiting, fact.KindOrder, laneOrder},
		{fact.StateOpen, fact.KindOrder, lanePoll},
	}
	if !reflect.DeepEqual(dueQueries, back) {
		t.Errorf("%v", dueQueries)
	}
}

func TestTrap33CIDRsGoUnderTheNameThatTheOperatorGives(t *testing.T) {
	c, err := command.Parse(fact.KindOrder, []byte(`{"id":"o","duration_days":30,"items":[{"offer_code":"a","quantity":1,"cidrs":["198.51.100.0/24"]}]}`),
		command.Rules{Environment: upstream.Sandbox, CIDRField: "network_ranges"})
	check(t, err)
	a := &attempts{Config: &Config{CIDRField: "network_ranges"}}
	body, err := a.body(c, nil)
	check(t, err)
	if want := `{"duration_days":30,"items":[{"network_ranges":["198.51.100.0/24"],"offer_code":"a","quantity":1}]}`; string(body) != want {
		t.Fatalf("%s", body)
	}
}
