package nodes

import (
	"context"
	"slices"
	"testing"
	"time"

	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
)

// All returns the last post of each live runner. A name may have any characters.
func TestNodesAreWhatLivingRunnersSaid(t *testing.T) {
	js := jstest.New(t)
	listed := func() (all []string) {
		t.Helper()
		said, err := All(t.Context(), js)
		natstest.Check(t, err)
		for _, data := range said {
			all = append(all, string(data))
		}
		return slices.Sorted(slices.Values(all))
	}
	if got := listed(); len(got) != 0 {
		t.Errorf("before any runner: %v", got)
	}
	for _, x := range [][2]string{{"a.example, ü", "1"}, {"b", "2"}, {"a.example, ü", "3"}} {
		natstest.Check(t, Post(t.Context(), js, x[0], []byte(x[1]), 1))
	}
	if got := listed(); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("%v", got)
	}
	natstest.Check(t, Drop(t.Context(), js, "b"))
	if got := listed(); !slices.Equal(got, []string{"3"}) {
		t.Errorf("behind an end: %v", got)
	}
	ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := All(ended, js); err == nil {
		t.Error("it does not end with its context")
	}
}
