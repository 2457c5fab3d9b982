package lease

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/bucket"
)

const (
	// watchAnew is how often the watch is restarted, so that it finds a bucket that was deleted
	// and created again. If a watch misses a change, a waiting runner notices it after the key's
	// time to live.
	watchAnew  = 30 * time.Second
	watchAgain = 500 * time.Millisecond
	// heardFor is how long Heard returns a runner after its last key.
	heardFor = 10 * time.Second
)

// watch reads the keys of the lease bucket while there is a listener. All waiting runners of a
// process share it, so that waiting sends no requests to the server.
type watch struct {
	js *queue.JetStream

	mu        sync.Mutex
	listeners map[*listener]struct{}
	stop      context.CancelFunc
	heard     map[string]heardKey // by account; nil while there is no listener
}

type heardKey struct {
	record
	recent context.Context // ends when the key is older than heardFor
	forget context.CancelFunc
}

type listener struct {
	account string
	ready   chan struct{} // signals that keys are waiting
	keys    []record      // guarded by watch.mu
}

func (w *watch) listen(account string) *listener {
	l := &listener{account: account, ready: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.listeners) == 0 {
		var ctx context.Context
		ctx, w.stop = context.WithCancel(context.Background())
		w.listeners, w.heard = map[*listener]struct{}{}, map[string]heardKey{}
		go w.run(ctx)
	}
	w.listeners[l] = struct{}{}
	if key, heard := w.heard[account]; heard {
		l.add(key.record)
	}
	return l
}

// end removes a listener. The watch ends with the last listener.
func (w *watch) end(l *listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.listeners, l)
	if len(w.listeners) == 0 && w.stop != nil {
		w.stop()
		for _, key := range w.heard {
			key.forget()
		}
		w.stop, w.heard = nil, nil
	}
}

func (w *watch) take(l *listener) []record {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := l.keys
	l.keys = nil
	return keys
}

// add appends a key. The caller must hold watch.mu.
func (l *listener) add(key record) {
	l.keys = append(l.keys, key)
	select {
	case l.ready <- struct{}{}:
	default: // already signalled
	}
}

func (w *watch) note(account string, key record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.heard[account]
	if w.heard == nil || known && key.revision == before.revision {
		return // a restarted watch repeats old keys
	}
	if known {
		before.forget()
	}
	recent, forget := context.WithTimeout(context.Background(), heardFor)
	w.heard[account] = heardKey{key, recent, forget}
	for l := range w.listeners {
		if l.account == account {
			l.add(key)
		}
	}
}

func (w *watch) holder(account string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, known := w.heard[account]
	if !known || key.recent.Err() != nil {
		return ""
	}
	return key.holder
}

func (w *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, watchAnew)
		_ = bucket.Watch(limited, w.js, queue.LeaseBucket, func(entry jetstream.KeyValueEntry) { // another check reports that NATS cannot be reached
			if entry != nil {
				w.note(entry.Key(), keyOf(entry))
			}
		})
		ended := limited.Err() != nil
		cancel()
		if !ended {
			_ = sleep.For(ctx, watchAgain)
		}
	}
}
