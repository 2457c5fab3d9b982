package daemon

import (
	"maps"
	"slices"
	"testing"

	"perennial/queue"
)

// TestEveryVerbIsForSomeRole: a verb that stands in no list could be asked by none of
// the users, and one that changes something must not stand among those that read.
func TestEveryVerbIsForSomeRole(t *testing.T) {
	listed := slices.Sorted(slices.Values(slices.Concat(queue.ReadingVerbs, queue.ChangingVerbs, queue.CommandVerbs)))
	served := slices.Sorted(maps.Keys((&account{}).verbs()))
	if !slices.Equal(listed, served) {
		t.Errorf("served are %q, and listed for roles %q", served, listed)
	}
}
