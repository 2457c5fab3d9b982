package daemon

import (
	"errors"
	"maps"
	"slices"
	"strings"
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

// A negative number is no "as many as there are".
func TestVerbsRefuseNegativeNumbers(t *testing.T) {
	for verb, requests := range map[string][]string{
		VerbList: {`{"limit":-1}`}, VerbProxies: {`{"limit":-1}`}, VerbLines: {`{"id":"x","limit":-1}`, `{"id":"x","after":-5}`}, VerbWait: {`{"id":"x","timeout_seconds":-1}`},
	} {
		for _, request := range requests {
			_, err := (&account{}).verbs()[verb].do(t.Context(), []byte(request))
			refused, ok := errors.AsType[*queue.ServiceError](err)
			if !ok || refused.Code != "bad_request" || !strings.Contains(refused.Description, "must be 0") {
				t.Errorf("%s %s: %v", verb, request, err)
			}
		}
	}
}
