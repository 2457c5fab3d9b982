// The bound on open connections.

package sandbox

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// defaultMaxConnections is far above what clients of a sandbox need and far
// below what it costs to be short of file descriptors.
const defaultMaxConnections = 4096

// crowd bounds the open connections of one listener. A new connection beyond the bound
// closes the one that has been idle for longest: a client that trickles its request,
// or does not read its reply, keeps no other client out. A request that is being
// carried out is never cut off for another.
type crowd struct {
	limit int
	turn  atomic.Int64
	mu    sync.Mutex
	open  map[net.Conn]*guest
}

// guest is one connection. Its turn is the time of its last progress:
// it was accepted, or a whole request of it was read or answered.
type guest struct {
	crowd *crowd
	turn  atomic.Int64
	busy  atomic.Bool
}

type guestKey struct{}

func newCrowd(limit int) *crowd { return &crowd{limit: limit, open: map[net.Conn]*guest{}} }

// connect is http.Server's ConnContext: called for each connection as it is
// accepted.
func (c *crowd) connect(ctx context.Context, conn net.Conn) context.Context {
	g := &guest{crowd: c}
	g.turn.Store(c.turn.Add(1))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = g
	if len(c.open) > c.limit {
		c.evict()
	}
	return context.WithValue(ctx, guestKey{}, g)
}

// evict closes the connection whose turn is longest ago; called with the lock
// held. The newest is never busy, so there is one.
func (c *crowd) evict() {
	var oldest net.Conn
	var turn int64
	for conn, g := range c.open {
		if t := g.turn.Load(); !g.busy.Load() && (oldest == nil || t < turn) {
			oldest, turn = conn, t
		}
	}
	if oldest != nil {
		delete(c.open, oldest)
		_ = oldest.Close()
	}
}

// change is http.Server's ConnState.
func (c *crowd) change(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, conn)
	}
}

func guestOf(r *http.Request) *guest {
	g, _ := r.Context().Value(guestKey{}).(*guest)
	return g
}

// enter says that a whole request has been read and is being carried out. A
// request that came by no connection (Server.Handler) has no guest.
func (g *guest) enter() {
	if g != nil {
		g.busy.Store(true)
	}
}

// leave says that its reply is ready.
func (g *guest) leave() {
	if g == nil {
		return
	}
	g.turn.Store(g.crowd.turn.Add(1))
	g.busy.Store(false)
}
