package jobs

import (
	"testing"

	"perennial/ledger/fact"
)

// An operator answers the lines of a command one by one. The command is complete if all three
// lines were renewed, and not if one was given up.
func TestACommandStandsWhereItsLinesStand(t *testing.T) {
	op := func(chunk string, generation int64, state fact.State) fact.Operation {
		return fact.Operation{ID: chunk + string(state), Chunk: chunk, Generation: generation, State: state}
	}
	lines := map[string]map[string]fact.LineState{
		"0001resolved": {"px_1": fact.LineCharged, "px_2": fact.LineCharged, "px_3": fact.LineNotCharged},
		"0002resolved": {"px_4": fact.LineNotCharged},
		"0003resolved": {"px_5": fact.LineCharged},
	}
	for name, c := range map[string]struct {
		operations []fact.Operation
		want       string
	}{
		"the third was sent again":   {[]fact.Operation{op("0001", 1, "resolved"), op("0001/px_3", 2, "completed")}, "completed"},
		"the third was let go":       {[]fact.Operation{op("0001", 1, "resolved"), op("0003", 1, "completed")}, "partial"},
		"one was let go":             {[]fact.Operation{op("0002", 1, "resolved"), op("0003", 1, "completed")}, "partial"},
		"answered as charged":        {[]fact.Operation{op("0003", 1, "resolved"), op("0004", 1, "completed")}, "completed"},
		"asked again as a whole":     {[]fact.Operation{op("0002", 1, "resolved"), op("0002", 2, "completed")}, "completed"},
		"the second attempt failed":  {[]fact.Operation{op("0002", 1, "resolved"), op("0002/px_4", 2, "failed")}, "failed"},
		"answered, and nothing else": {[]fact.Operation{op("0003", 1, "resolved")}, "resolved"},
	} {
		got, err := fact.CommandState(c.operations, func(id string) (map[string]fact.LineState, error) { return lines[id], nil })
		if check(t, err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
