// Group commit: one flush for all pending items.

package sandbox

import (
	"errors"
	"sync"
)

// group makes items durable in their order, several items at a time. The first caller of wait
// flushes all pending items, and the other callers wait for the flush. A group starts no
// goroutine.
type group[T any] struct {
	flush func([]T) error

	mu      sync.Mutex
	changed *sync.Cond
	pending []T
	spare   []T
	added   uint64
	done    uint64
	busy    bool
	closed  bool
	err     error // final: after a failed flush no later item may count as durable
}

var errClosed = errors.New("sandbox is closed")

func newGroup[T any](flush func([]T) error) *group[T] {
	g := &group[T]{flush: flush}
	g.changed = sync.NewCond(&g.mu)
	return g
}

func (g *group[T]) add(item T) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = append(g.pending, item)
	g.added++
	return g.added
}

func (g *group[T]) last() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.added
}

// wait returns nil when the item with number seq and all earlier items are durable.
func (g *group[T]) wait(seq uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.done < seq && g.err == nil {
		if g.closed {
			return errClosed
		}
		if g.busy {
			g.changed.Wait()
			continue
		}
		g.flushPending()
	}
	if g.done >= seq {
		return nil
	}
	return g.err
}

// flushPending flushes the pending items. The lock is held on entry and on return, but not
// during the flush.
func (g *group[T]) flushPending() {
	batch, upTo := g.pending, g.added
	g.pending, g.busy = g.spare[:0], true
	g.mu.Unlock()
	err := g.flush(batch)
	g.mu.Lock()
	clear(batch)
	g.spare, g.busy = batch[:0], false
	if err != nil {
		g.err = err
	} else {
		g.done = upTo
	}
	g.changed.Broadcast()
}

// close flushes the remaining items. Later calls of wait return an error for new items.
func (g *group[T]) close() error {
	err := g.wait(g.last())
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.busy {
		g.changed.Wait()
	}
	g.closed = true
	g.changed.Broadcast()
	return err
}
