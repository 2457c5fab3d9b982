package nodes

import (
	"context"
	"maps"
	"slices"
	"testing"

	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
)

// WatchPins reports pins, moves to another node and removals, to an early watcher and to a
// later one.
func TestPinsAreWatched(t *testing.T) {
	js := jstest.New(t)
	watched := make(chan map[string]string, 64)
	if err := WatchPins(t.Context(), js, func(pins map[string]string) { watched <- pins }); err != nil || len(<-watched) != 0 {
		t.Fatalf("without a bucket: %v", err)
	}
	natstest.Check(t, Unpin(t.Context(), js, "main"))
	natstest.Check(t, Pin(t.Context(), js, "main", "a.example, ü", 1))
	if Pin(t.Context(), js, "not.a name", "b", 1) == nil {
		t.Error("an account with another name is pinned")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- WatchPins(ctx, js, func(pins map[string]string) { watched <- pins }) }()
	expect := func(want map[string]string) {
		t.Helper()
		if got := <-watched; !maps.Equal(got, want) {
			t.Errorf("%v, and not %v", got, want)
		}
	}
	expect(map[string]string{"main": "a.example, ü"})
	natstest.Check(t, Pin(t.Context(), js, "other", "b", 1))
	expect(map[string]string{"main": "a.example, ü", "other": "b"})
	natstest.Check(t, Pin(t.Context(), js, "main", "b", 1))
	expect(map[string]string{"main": "b", "other": "b"})
	natstest.Check(t, Unpin(t.Context(), js, "main"))
	expect(map[string]string{"other": "b"})
	cancel()
	if <-ended == nil {
		t.Error("it ends before its context")
	}
}

// Watch reports each post of a runner, and its end.
func TestNodesAreWatched(t *testing.T) {
	js := jstest.New(t)
	natstest.Check(t, Post(t.Context(), js, "a", []byte("1"), 1))
	watched := make(chan []string, 64)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = Watch(ctx, js, func(said [][]byte) {
			var all []string
			for _, data := range said {
				all = append(all, string(data))
			}
			watched <- slices.Sorted(slices.Values(all))
		})
	}()
	expect := func(want ...string) {
		t.Helper()
		if got := <-watched; !slices.Equal(got, want) {
			t.Errorf("%v, and not %v", got, want)
		}
	}
	expect("1")
	natstest.Check(t, Post(t.Context(), js, "b", []byte("2"), 1))
	expect("1", "2")
	natstest.Check(t, Post(t.Context(), js, "a", []byte("3"), 1))
	expect("2", "3")
	natstest.Check(t, Drop(t.Context(), js, "b"))
	expect("3")
}
