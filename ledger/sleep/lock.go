package sleep

import "context"

// Lock is a mutex for which a caller can wait until a context ends.
type Lock chan struct{}

// NewLock returns a free lock.
func NewLock() Lock { return make(Lock, 1) }

// Take takes the lock. It returns the context's error if ctx ends first.
func (l Lock) Take(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Give releases the lock.
func (l Lock) Give() { <-l }
