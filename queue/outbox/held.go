// What an events stream must still hold, and what it has lost.

package outbox

import "fmt"

// Held is how far an account's events stream is known to have held the journal, from a note
// that outlives the process and the stream.
type Held struct {
	// Last is the newest journal sequence that the stream acknowledged; 0: none.
	Last uint64
	// Firm is a sequence that no crash can have lost. It was acknowledged so long ago that
	// the server has synced it since, or before a clean stop.
	Firm uint64
}

// Missing says what a stream that ends with row last has lost; "" if nothing, or no more
// than a crash or a power cut explains. A stream that was emptied or reset would be
// refilled from a ledger that may have been rewritten since, and no event on it could prove
// that.
func (h Held) Missing(last uint64) string {
	switch {
	case last == 0 && h.Firm > 0:
		return fmt.Sprintf("the events stream is empty, and rows up to %d were published on it", h.Last)
	case last < h.Firm:
		return fmt.Sprintf("the events stream ends with row %d, and row %d was on it long before", last, h.Firm)
	}
	return ""
}

// MissingBefore says what a stream that begins with row first has lost; "" if nothing.
// latest is the last row with which it may begin, according to the ledger.
func MissingBefore(first, latest uint64) string {
	latest = max(latest, 1)
	if first <= latest {
		return ""
	}
	return fmt.Sprintf("the events stream begins with row %d and by this ledger it begins with row %d at the latest: events were removed by another program, or the ledger is an older copy", first, latest)
}
