// The table of job kinds. It maps the names of a kind in the commands stream, the ledger
// and the provider's API, and its lane. The linter (exhaustive) names what else a new
// kind needs.

package jobs

import (
	"cmp"
	"maps"
	"slices"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/upstream"
)

// kind is one row of the table.
type kind struct {
	subject  queue.Kind         // of its commands
	lane     lane               // lane of its requests
	priority gatePriority       // among requests that charge
	write    upstream.WriteKind // the request to the provider
	body     bodyMaker
	// polled says that success leaves the operation open; it is read until it settles.
	polled bool
}

// bodyMaker makes the bytes of a request. They depend only on the members in the order
// of their ids, so that an attempt after a restart sends the same bytes.
type bodyMaker func(c command.Command, ids []string, cidrField string) ([]byte, error)

// kinds has a row for each kind.
var kinds = map[fact.Kind]kind{
	fact.KindOrder:   orderKind,
	fact.KindRenewal: renewalKind,
}

// rowOf returns the row of a kind.
func rowOf(k fact.Kind) kind {
	row, ok := kinds[k]
	if !ok {
		panic("jobs: kind " + string(k) + " has no row in the table of kinds")
	}
	return row
}

// KindOf returns the ledger's kind for a subject, "" if unknown; such commands cannot be
// parsed.
func KindOf(subject queue.Kind) fact.Kind {
	for k, row := range kinds {
		if row.subject == subject {
			return k
		}
	}
	return ""
}

// Kinds lists the ledger's names of all kinds, sorted.
func Kinds() []fact.Kind { return slices.Sorted(maps.Keys(kinds)) }

// kindsByPriority lists all kinds, the most urgent first.
func kindsByPriority() []fact.Kind {
	return slices.SortedFunc(maps.Keys(kinds), func(a, b fact.Kind) int {
		return cmp.Compare(kinds[a].priority, kinds[b].priority)
	})
}
