// The table of job kinds joins the vocabularies: what the commands stream, the ledger
// and the provider call a kind, and the lane that it is sent in. What a new kind needs
// beside its row, the linter names (exhaustive).

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
	lane     lane               // in which it pays
	priority gatePriority       // among what pays
	write    upstream.WriteKind // the request
	body     bodyMaker
	// polled: a success leaves the operation open, and it is read until it settles.
	polled bool
}

// bodyMaker makes the bytes of a request. They depend on the membership alone, in
// the order of the ids, so that an attempt after a restart sends the same.
type bodyMaker func(c command.Command, ids []string, cidrField string) ([]byte, error)

// kinds has a row for each kind.
var kinds = map[fact.Kind]kind{
	fact.KindOrder:   orderKind,
	fact.KindRenewal: renewalKind,
}

// rowOf is the row of a kind.
func rowOf(k fact.Kind) kind {
	row, ok := kinds[k]
	if !ok {
		panic("jobs: kind " + string(k) + " has no row in the table of kinds")
	}
	return row
}

// KindOf is what the ledger calls the commands of a subject, "" for none: no such
// command can be parsed.
func KindOf(subject queue.Kind) fact.Kind {
	for k, row := range kinds {
		if row.subject == subject {
			return k
		}
	}
	return ""
}

// Kinds are all kinds, as the ledger calls them, in the order of their names.
func Kinds() []fact.Kind { return slices.Sorted(maps.Keys(kinds)) }

// kindsByPriority are all kinds, the most urgent first.
func kindsByPriority() []fact.Kind {
	return slices.SortedFunc(maps.Keys(kinds), func(a, b fact.Kind) int {
		return cmp.Compare(kinds[a].priority, kinds[b].priority)
	})
}
