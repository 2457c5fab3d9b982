package queue

import (
	"context"
	"slices"
	"testing"
	"time"
)

// TestNodesAreWhatLivingRunnersSaid: the last word of each that has not ended; a name
// may have any letters.
func TestNodesAreWhatLivingRunnersSaid(t *testing.T) {
	q := newQueue(t)
	listed := func() (all []string) {
		t.Helper()
		said, err := AllNodes(t.Context(), q.JetStream())
		check(t, err)
		for _, data := range said {
			all = append(all, string(data))
		}
		return slices.Sorted(slices.Values(all))
	}
	if got := listed(); len(got) != 0 {
		t.Errorf("before any runner: %v", got)
	}
	for _, x := range [][2]string{{"a.example, ü", "1"}, {"b", "2"}, {"a.example, ü", "3"}} {
		check(t, PostNode(t.Context(), q.JetStream(), x[0], []byte(x[1]), 1))
	}
	if got := listed(); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("%v", got)
	}
	check(t, DropNode(t.Context(), q.JetStream(), "b"))
	if got := listed(); !slices.Equal(got, []string{"3"}) {
		t.Errorf("behind an end: %v", got)
	}
	ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := AllNodes(ended, q.JetStream()); err == nil {
		t.Error("it does not end with its context")
	}
}
