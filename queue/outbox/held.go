// This file says what an events stream must still have, and what it has lost.

package outbox

import "fmt"

// Held says which journal rows an account's events stream is known to have had. It comes
// from a file that outlives the process and the stream.
type Held struct {
	// Last is the last journal sequence that the stream acknowledged; 0 for none.
	Last uint64
	// Firm is a sequence that cannot have been lost in a crash. The stream acknowledged it
	// before a clean stop, or so long ago that the server has synced it since.
	Firm uint64
}

// Missing describes what a stream that ends with row last has lost. It returns "" if the
// stream lost nothing, or no more than a crash or a power cut explains. Larger losses are
// reported: the ledger could have been rewritten before it refills the stream, and no event
// would show that.
func (h Held) Missing(last uint64) string {
	switch {
	case last == 0 && h.Firm > 0:
		return fmt.Sprintf("the events stream is empty, and rows up to %d were published on it", h.Last)
	case last < h.Firm:
		return fmt.Sprintf("the events stream ends with row %d, and row %d was on it long before", last, h.Firm)
	}
	return ""
}

// MissingBefore describes what a stream that begins with row first has lost, or returns "".
// latest is the last row that may be the stream's first, according to the ledger.
func MissingBefore(first, latest uint64) string {
	latest = max(latest, 1)
	if first <= latest {
		return ""
	}
	return fmt.Sprintf("the events stream begins with row %d and by this ledger it begins with row %d at the latest: events were removed by another program, or the ledger is an older copy", first, latest)
}
