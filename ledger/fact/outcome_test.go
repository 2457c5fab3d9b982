package fact

import "testing"

// Proxy ids are opaque: an id that ends in "a" or has a slash must not be taken for a half or
// a line of another operation.
func TestTrap73ALineIsNoOtherOperation(t *testing.T) {
	op := func(chunk string, generation int64, state State) Operation {
		return Operation{ID: chunk, Chunk: chunk, Generation: generation, State: state}
	}
	for name, c := range map[string]struct {
		operations []Operation
		lines      map[string]map[string]LineState
		want       string
	}{
		"px and pxa, one refused": {
			[]Operation{op("0001", 1, StateResolved), op("0001/px", 2, StateRejected), op("0001/pxa", 2, StateCompleted)},
			map[string]map[string]LineState{"0001": {"px": LineNotCharged, "pxa": LineNotCharged}}, "partial",
		},
		"a chunk that was split": {
			[]Operation{op("0001", 1, StateRejected), op("0001a", 1, StateCompleted), op("0001b", 1, StateCompleted)}, nil, "completed",
		},
		"half of a half": {
			[]Operation{op("0001", 1, StateRejected), op("0001a", 1, StateRejected), op("0001b", 1, StateCompleted), op("0001aa", 1, StateCompleted), op("0001ab", 1, StateCompleted)},
			nil, "completed",
		},
		"x and x/x, x in want of an answer": {
			[]Operation{op("0001", 1, StateResolved), op("0001/x", 2, StateResolved), op("0001/x/x", 3, StateCompleted)},
			map[string]map[string]LineState{"0001": {"x": LineNotCharged, "x/x": LineNotCharged}, "0001/x": {"x": LineNotCharged}, "0001/x/x": {"x/x": LineSucceeded}}, "partial",
		},
		"the line of a line, as it was named before": {
			[]Operation{op("0001", 1, StateResolved), op("0001/x", 2, StateResolved), op("0001/x/x", 3, StateCompleted)},
			map[string]map[string]LineState{"0001": {"x": LineNotCharged}, "0001/x": {"x": LineNotCharged}, "0001/x/x": {"x": LineSucceeded}}, "completed",
		},
		"the line of a line": {
			[]Operation{op("0001", 1, StateResolved), op("0001/x", 2, StateResolved), op("0001/x", 3, StateCompleted)},
			map[string]map[string]LineState{"0001": {"x": LineNotCharged}}, "completed",
		},
	} {
		got, err := CommandState(c.operations, func(id string) (map[string]LineState, error) { return c.lines[id], nil })
		if err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
	names := map[string]string{}
	for _, chunk := range []string{"0001", "0001a", "0001b", "0001aa"} {
		for _, proxy := range []string{"x", "xa", "a", "x/x", "x/xa", "b/x"} {
			for again, c := 0, chunk; again < 3; again++ {
				was := chunk + " " + proxy
				if c = LineChunk(c, proxy); names[c] != "" && names[c] != was {
					t.Errorf("%s names %s and %s", c, was, names[c])
				}
				names[c] = was
			}
		}
	}
}
