// This file has a heap for elements that define their own order.

package jobs

type ordered[T any] interface{ before(other T) bool }

// inOrder implements heap.Interface, ordered by before.
type inOrder[T ordered[T]] []T

func (h inOrder[T]) Len() int           { return len(h) }
func (h inOrder[T]) Less(i, k int) bool { return h[i].before(h[k]) }
func (h inOrder[T]) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }

// Push implements heap.Interface.
func (h *inOrder[T]) Push(x any) { v, _ := x.(T); *h = append(*h, v) }

// Pop implements heap.Interface.
func (h *inOrder[T]) Pop() any {
	last := len(*h) - 1
	v := (*h)[last]
	clear((*h)[last:])
	*h = (*h)[:last]
	return v
}
