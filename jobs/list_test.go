package jobs

import (
	"testing"
	"time"

	"perennial/jobs/inspect"
	"perennial/ledger/fact"
)

func TestAListShowsWhatItIsAskedFor(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.order(`{"id":"a","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}],"labels":{"team":"red"}}`)
	h.await("a", fact.StateDelivered)
	h.order(`{"id":"b","duration_days":30,"items":[{"offer_code":"off_nowhere","quantity":1}],"labels":{"team":"blue"}}`)
	h.await("b", fact.StateRejected)
	h.renew(`{"id":"c","duration_days":30,"proxy_ids":["px_1"],"labels":{"team":"red"}}`)
	h.await("c", fact.StateCompleted)
	for name, test := range map[string]struct {
		q    inspect.ListQuery
		want string
	}{
		"all":          {inspect.ListQuery{Limit: 10}, "c/0001 b/1 a/1 "},
		"two":          {inspect.ListQuery{Limit: 2}, "c/0001 b/1 "},
		"unfinished":   {inspect.ListQuery{Limit: 10, Unfinished: true}, ""},
		"a state":      {inspect.ListQuery{Limit: 10, State: fact.StateRejected}, "b/1 "},
		"a kind":       {inspect.ListQuery{Limit: 10, Kind: fact.KindOrder}, "b/1 a/1 "},
		"a label":      {inspect.ListQuery{Limit: 10, Labels: map[string]string{"team": "red"}}, "c/0001 a/1 "},
		"no such":      {inspect.ListQuery{Limit: 10, Labels: map[string]string{"team": "red", "x": ""}}, ""},
		"since then":   {inspect.ListQuery{Limit: 10, Since: time.Now().Add(-time.Hour)}, "c/0001 b/1 a/1 "},
		"since now":    {inspect.ListQuery{Limit: 10, Since: time.Now().Add(time.Hour)}, ""},
		"label, state": {inspect.ListQuery{Limit: 10, State: fact.StateCompleted, Labels: map[string]string{"team": "red"}}, "c/0001 "},
	} {
		list, err := inspect.List(t.Context(), h.ledger, test.q)
		check(t, err)
		got := ""
		for _, o := range list {
			got += o.OperationID + " "
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Producers look for refused commands in the list.
func TestAListOfAllHasWhatWasRefused(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.order(`{"id":"a","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`)
	h.await("a", fact.StateDelivered)
	h.order(`{"id":"bad","duration_days":30,"itemz":[]}`)
	h.await("bad", fact.StateRejected)
	for name, test := range map[string]struct {
		q    inspect.ListQuery
		want string
	}{
		"all":        {inspect.ListQuery{Limit: 10}, "bad a "},
		"one":        {inspect.ListQuery{Limit: 1}, "bad "},
		"rejected":   {inspect.ListQuery{Limit: 10, State: fact.StateRejected}, "bad "},
		"unfinished": {inspect.ListQuery{Limit: 10, Unfinished: true}, ""},
		"a state":    {inspect.ListQuery{Limit: 10, State: fact.StateDelivered}, "a "},
		"a kind":     {inspect.ListQuery{Limit: 10, Kind: fact.KindOrder}, "a "},
	} {
		list, err := inspect.List(t.Context(), h.ledger, test.q)
		check(t, err)
		got := ""
		for _, o := range list {
			got += o.CommandID + " "
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	n, err := h.ledger.Operations.CountRefused(t.Context(), time.Now().Add(-time.Hour))
	check(t, err)
	if n != 1 {
		t.Errorf("%d were refused within the hour, want 1", n)
	}
}
