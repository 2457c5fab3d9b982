// This file determines the state of a command from the states of its operations.

package fact

import (
	"maps"
	"slices"
	"strings"
)

// unended has the states of an unfinished command, in order of precedence.
var unended = []State{StateReview, StateHeld, StateSending, StateWaiting, StateOpen, StateAccepted}

// CommandState returns the state of a command with these operations. A command has ended
// when all its operations have ended; if they ended differently, it is "partial". An
// unfinished command has the first state of unended that one of its operations has. Ended
// operations that others replaced (a split chunk, an operation that was sent again) do not
// count. An operation whose lines were all renewed in the end counts as completed. lines
// returns the states of an operation's lines by proxy.
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
			state, err = latest.byLines(o, of, func(proxy string) (bool, error) { return sentAgain(operations, o, proxy, lines) })
			if err != nil {
				return "", err
			}
			if state == "" {
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

// Generations has the latest generation of each chunk of a command.
type Generations map[string]int64

// LatestOf returns the latest generation of each chunk. An operation with an earlier
// generation was sent again under a later key.
func LatestOf(operations []Operation) Generations {
	latest := make(Generations, len(operations))
	for _, o := range operations {
		latest[o.Chunk] = max(latest[o.Chunk], o.Generation)
	}
	return latest
}

// Superseded reports whether other operations took over this operation's work.
func (g Generations) Superseded(o Operation) bool {
	return !ofLine(o.Chunk) && g[o.Chunk+"a"] > 0 || g[o.Chunk] > o.Generation
}

// ofLine reports whether a chunk is a single line that was sent again: CHUNK/PROXY. Such a
// chunk is never split, so an "a" at its end is part of a proxy's id.
func ofLine(chunk string) bool { return strings.Contains(chunk, "/") }

// LineChunk returns the name of the chunk for sending one line of a chunk again. If the
// chunk already is a single line, it returns the chunk itself, because CHUNK/PROXY/PROXY
// could also be another proxy's line.
func LineChunk(chunk, proxyID string) string {
	if ofLine(chunk) {
		return chunk
	}
	return chunk + "/" + proxyID
}

// byLines returns the state of an operation whose lines may have been sent again. It is
// completed if each line was renewed, skipped or sent again. It is "" if all lines were
// sent again, because the later operations then count instead.
func (g Generations) byLines(o Operation, lines map[string]LineState, sentAgain func(proxy string) (bool, error)) (State, error) {
	again := 0
	for proxy, state := range lines {
		if g[o.Chunk+"/"+proxy] > o.Generation {
			sent, err := sentAgain(proxy)
			if err != nil {
				return "", err
			}
			if sent {
				again++
				continue
			}
		}
		if state != LineSucceeded && state != LineCharged && state != LineSkipped {
			return o.State, nil
		}
	}
	switch len(lines) {
	case 0:
		return o.State, nil
	case again:
		return "", nil
	}
	return StateCompleted, nil
}

// sentAgain reports whether a later operation contains this line. The name of the chunk is
// enough to decide, unless o is a single line or the proxy's id has a slash. Versions
// without LineChunk gave line x of CHUNK/x the chunk CHUNK/x/x, which is also that of line
// x/x of CHUNK.
func sentAgain(operations []Operation, o Operation, proxy string, lines func(string) (map[string]LineState, error)) (bool, error) {
	for _, x := range operations {
		if x.Chunk != o.Chunk+"/"+proxy || x.Generation <= o.Generation {
			continue
		}
		if !ofLine(o.Chunk) && !strings.Contains(proxy, "/") {
			return true, nil
		}
		of, err := lines(x.ID)
		if err != nil {
			return false, err
		}
		if _, ok := of[proxy]; ok {
			return true, nil
		}
	}
	return false, nil
}
