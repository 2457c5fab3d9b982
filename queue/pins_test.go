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
	if err := q.WatchPins(t.Context(), func(pins map[string]string) { watched <- pins }); err != nil || len(<-watched) != 0 {
		t.Fatalf("without a bucket: %v", err)
	}
	check(t, q.Unpin(t.Context(), "main"))
	check(t, q.Pin(t.Context(), "main", "a.example, ü", 1))
	if q.Pin(t.Context(), "not.a name", "b", 1) == nil {
		t.Error("an account with another name is pinned")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.WatchPins(ctx, func(pins map[string]string) { watched <- pins }) }()
	expect := func(want map[string]string) {
		t.Helper()
		if got := <-watched; !maps.Equal(got, want) {
			t.Errorf("%v, and not %v", got, want)
		}
	}
	expect(map[string]string{"main": "a.example, ü"})
	check(t, q.Pin(t.Context(), "other", "b", 1))
	expect(map[string]string{"main": "a.example, ü", "other": "b"})
	check(t, q.Pin(t.Context(), "main", "b", 1))
	expect(map[string]string{"main": "b", "other": "b"})
	check(t, q.Unpin(t.Context(), "main"))
	expect(map[string]string{"other": "b"})
	cancel()
	if <-ended == nil {
		t.Error("it ends before its context")
	}
}

// TestNodesAreWatched: each word of a runner, and its end.
func TestNodesAreWatched(t *testing.T) {
	q := newQueue(t)
	check(t, q.PostNode(t.Context(), "a", []byte("1")))
	watched := make(chan []string, 64)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = q.WatchNodes(ctx, func(said [][]byte) {
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
	check(t, q.PostNode(t.Context(), "b", []byte("2")))
	expect("1", "2")
	check(t, q.PostNode(t.Context(), "a", []byte("3")))
	expect("2", "3")
	check(t, q.DropNode(t.Context(), "b"))
	expect("3")
}
