package queue

import (
	"context"
	"maps"
	"slices"
	"testing"
)

// TestPinsAreWatched: WatchPins reports what is pinned, moved to another node, and taken back, to
// one who watches and to one who begins later.
func TestPinsAreWatched(t *testing.T) {
	q := newQueue(t)
	watched := make(chan map[string]string, 64)
	if err := WatchPins(t.Context(), q.JetStream(), func(pins map[string]string) { watched <- pins }); err != nil || len(<-watched) != 0 {
		t.Fatalf("without a bucket: %v", err)
	}
	check(t, Unpin(t.Context(), q.JetStream(), "main"))
	check(t, Pin(t.Context(), q.JetStream(), "main", "a.example, ü", 1))
	if Pin(t.Context(), q.JetStream(), "not.a name", "b", 1) == nil {
		t.Error("an account with another name is pinned")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- WatchPins(ctx, q.JetStream(), func(pins map[string]string) { watched <- pins }) }()
	expect := func(want map[string]string) {
		t.Helper()
		if got := <-watched; !maps.Equal(got, want) {
			t.Errorf("%v, and not %v", got, want)
		}
	}
	expect(map[string]string{"main": "a.example, ü"})
	check(t, Pin(t.Context(), q.JetStream(), "other", "b", 1))
	expect(map[string]string{"main": "a.example, ü", "other": "b"})
	check(t, Pin(t.Context(), q.JetStream(), "main", "b", 1))
	expect(map[string]string{"main": "b", "other": "b"})
	check(t, Unpin(t.Context(), q.JetStream(), "main"))
	expect(map[string]string{"other": "b"})
	cancel()
	if <-ended == nil {
		t.Error("it ends before its context")
	}
}

// TestNodesAreWatched: each word of a runner, and its end.
func TestNodesAreWatched(t *testing.T) {
	q := newQueue(t)
	check(t, PostNode(t.Context(), q.JetStream(), "a", []byte("1"), 1))
	watched := make(chan []string, 64)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = WatchNodes(ctx, q.JetStream(), func(said [][]byte) {
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
	check(t, PostNode(t.Context(), q.JetStream(), "b", []byte("2"), 1))
	expect("1", "2")
	check(t, PostNode(t.Context(), q.JetStream(), "a", []byte("3"), 1))
	expect("2", "3")
	check(t, DropNode(t.Context(), q.JetStream(), "b"))
	expect("3")
}
