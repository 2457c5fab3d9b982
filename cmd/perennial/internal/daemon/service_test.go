package daemon

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/queue/service"
)

// A verb that is declared but not served would be in the schemas and in the users' permissions, but
// nobody would answer it.
func TestEveryVerbHasAHandlerAndARole(t *testing.T) {
	names := func(all []service.Verb) (names []string) {
		for _, v := range all {
			names = append(names, v.Name)
		}
		slices.Sort(names)
		return names
	}
	declared, served := verbs.Served(), answers{&account{current: current{runner: new(jobs.Runner)}}}.verbs()
	if !slices.Equal(names(declared), names(served)) {
		t.Errorf("served are %q, and declared %q", names(served), names(declared))
	}
	for _, v := range served {
		if len(v.Roles) == 0 || v.Handle == nil {
			t.Errorf("%s is for no role, or has no handler", v.Name)
		}
	}
}

// A negative number does not mean "no limit".
func TestVerbsRefuseNegativeNumbers(t *testing.T) {
	served := answers{&account{current: current{runner: new(jobs.Runner)}}}.verbs()
	for verb, requests := range map[string][]string{
		verbs.List.Name: {`{"limit":-1}`}, verbs.Proxies.Name: {`{"limit":-1}`}, verbs.Lines.Name: {`{"id":"x","limit":-1}`, `{"id":"x","after":-5}`},
		verbs.Wait.Name: {`{"id":"x","timeout_seconds":-1}`},
	} {
		of := slices.IndexFunc(served, func(v service.Verb) bool { return v.Name == verb })
		for _, request := range requests {
			_, err := served[of].Handle(t.Context(), []byte(request))
			refused, ok := errors.AsType[*service.Error](err)
			if !ok || refused.Code != "bad_request" || !strings.Contains(refused.Description, "must be 0") {
				t.Errorf("%s %s: %v", verb, request, err)
			}
		}
	}
}
