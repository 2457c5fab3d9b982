// The state of a command, as the states of its operations sum up.

package fact

import (
	"maps"
	"slices"
)

// unended orders the states of a command that has not ended: what waits for a person
// comes first.
var unended = []State{StateReview, StateHeld, StateSending, StateWaiting, StateOpen, StateAccepted}

// CommandState sums the operations' states up. A command has ended when all of
// them have; when they ended differently it is "partial". Operations whose ids
// went to others (a split chunk, a person's sending again) do not count, and one whose
// lines were all renewed in the end is complete. lines gives the states of an
// operation's lines by proxy.
func CommandState(operations []Operation, lines func(operationID string) (map[string]LineState, error)) (string, error) {
	counts, latest := make(map[State]int), LatestOf(operations)
	for _, o := range operations {
		if o.State.Ended() && latest.Superseded(o) {
			continue
		}
		state := o.State
		if state == StatePartial || state == StateResolved && len(operations) > 1 {
			of, err := lines(o.ID)
			if err != nil {
				return "", err
			}
			if state = latest.byLines(o, of); state == "" {
				continue
			}
		}
		counts[state]++
	}
	for _, s := range unended {
		if counts[s] > 0 {
			return string(s), nil
		}
	}
	if len(counts) == 1 {
		return string(slices.Collect(maps.Keys(counts))[0]), nil
	}
	return string(StatePartial), nil
}

// Generations is the latest generation of each chunk of a command.
type Generations map[string]int64

// LatestOf sorts the operations of a command: which were asked again under a later
// key.
func LatestOf(operations []Operation) Generations {
	latest := make(Generations, len(operations))
	for _, o := range operations {
		latest[o.Chunk] = max(latest[o.Chunk], o.Generation)
	}
	return latest
}

// Superseded reports whether other operations took over what this one was to do.
func (g Generations) Superseded(o Operation) bool {
	return g[o.Chunk+"a"] > 0 || g[o.Chunk] > o.Generation
}

// byLines is the state of an operation of which single lines may have been sent again:
// completed where each line was renewed, left out or sent again, and "" where all were
// sent again, so that others stand for it.
func (g Generations) byLines(o Operation, lines map[string]LineState) State {
	again := 0
	for proxy, state := range lines {
		switch {
		case g[o.Chunk+"/"+proxy] > o.Generation:
			again++
		case state != LineSucceeded && state != LineCharged && state != LineSkipped:
			return o.State
		}
	}
	switch len(lines) {
	case 0:
		return o.State
	case again:
		return ""
	}
	return StateCompleted
}
