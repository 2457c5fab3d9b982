package sandbox_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"perennial/upstream"
)

// written is a write that got a reply.
type written struct {
	upstream.Write

	traceID, orderNo string
	proxies          []string
}

// storm runs many clients of a sandbox that is killed repeatedly. Each client repeats a write
// with its key until it gets a reply.
type storm struct {
	t *testing.T

	mu       sync.Mutex
	changed  *sync.Cond
	client   *upstream.Client // of the running child; nil between two children
	answered []written
	fuse     int // replies until the child is killed
	kill     func()
	stopping bool
}

func newStorm(t *testing.T) *storm {
	s := &storm{t: t}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// lives records that a child serves. kill is called after fuse replies.
func (s *storm) lives(c *child, fuse int, kill func()) {
	client, err := upstream.New(upstream.Config{BaseURL: c.Sandbox, AppID: alphaSandbox, Secret: secret, Clock: time.Now})
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client, s.fuse, s.kill = client, fuse, kill
	s.changed.Broadcast()
}

func (s *storm) died() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client.Close()
	s.client = nil
}

// current waits for a running child. It returns nil when the storm is over.
func (s *storm) current() *upstream.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.client == nil && !s.stopping {
		s.changed.Wait()
	}
	return s.client
}

func (s *storm) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

func (s *storm) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	s.changed.Broadcast()
}

func (s *storm) note(w written) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = append(s.answered, w)
	if s.fuse--; s.fuse == 0 {
		s.kill()
	}
}

func (s *storm) soFar() []written {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.answered)
}

// hammer sends writes until the storm is over.
func (s *storm) hammer(worker int, perLife bool) {
	random := rand.New(rand.NewPCG(uint64(worker), 7))
	for i := 0; !s.over(); i++ {
		w := s.invent(random, worker, i)
		for {
			c := s.current()
			if c == nil {
				return
			}
			r := c.Post(bg(), w.Write)
			if r.Success {
				w.traceID = r.TraceID
				if r.Order != nil {
					w.orderNo = r.Order.OrderNo
				}
				s.note(w)
				break
			}
			if r.Code != "" && r.Code != upstream.CodeIdempotencyProcessing {
				s.t.Errorf("%s: %+v", w.Key, r)
				return
			}
			if perLife && r.Code == "" {
				break // the next process does not know the key
			}
		}
	}
}

// invent returns a random write: a renewal of one or three of the worker's own proxies, or an
// order.
func (s *storm) invent(random *rand.Rand, worker, i int) written {
	key := fmt.Sprintf("storm-%d-%d", worker, i)
	id := func(n int) string { return fmt.Sprintf("px_bulk_%d", worker*3+n+1) }
	switch random.IntN(6) {
	case 0, 1, 2:
		return written{Write: renewal(key, id(0)), proxies: []string{id(0)}}
	case 3:
		ids := []string{id(0), id(1), id(2)}
		return written{Write: renewal(key, ids...), proxies: ids}
	}
	scenario := []string{"", "success", "partial", "rejected"}[random.IntN(4)]
	return written{Write: purchase(key, scenario, 1+random.Int64N(3))}
}
