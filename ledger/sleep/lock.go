package sleep

import "context"

// Lock is a mutex with a wait that a context can end.
type Lock chan struct{}

// NewLock returns a free lock.
func NewLock() Lock { return make(Lock, 1) }

// Take returns with the lock, or with the context's error.
func (l Lock) Take(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Give hands the lock back.
func (l Lock) Give() { <-l }
