package jobs

import (
	"reflect"
	"testing"

	"perennial/ledger"
	"perennial/queue"
)

// What a new kind needs: a row with every field, and a line of the stream.
func TestEveryRowOfTheTableOfKindsIsWhole(t *testing.T) {
	seen := map[any]ledger.Kind{}
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
		if KindOf(row.subject) != k || queue.ValidKind(row.subject) != nil {
			t.Errorf("%s is not found by its subject %s", k, row.subject)
		}
	}
	for _, line := range queue.Lines() {
		if KindOf(line.Kind) == "" {
			t.Errorf("no kind takes the commands of %s", line.Kind)
		}
	}
}

func TestWhatPaysIsLookedAtByUrgencyAndThenByKind(t *testing.T) {
	want := []place{
		{laneRenewal, urgent}, {laneOrder, urgent}, {laneRenewal, usual}, {laneOrder, usual}, {laneRenewal, inBulk}, {laneOrder, inBulk},
	}
	if !reflect.DeepEqual(paying, want) {
		t.Errorf("%v", paying)
	}
	back := []due{
		{ledger.StateHeld, ledger.KindRenewal, laneRenewal}, {ledger.StateHeld, ledger.KindOrder, laneOrder},
		{ledger.StateWaiting, ledger.KindRenewal, laneRenewal}, {ledger.StateWaiting, ledger.KindOrder, laneOrder},
		{ledger.StateOpen, ledger.KindOrder, lanePoll},
	}
	if !reflect.DeepEqual(comesBack, back) {
		t.Errorf("%v", comesBack)
	}
}
