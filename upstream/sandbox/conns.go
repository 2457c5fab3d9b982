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

// connLimiter bounds the open connections of one listener. A new connection beyond the bound
// closes the one that has been idle for longest: a client that trickles its request,
// or does not read its reply, keeps no other client out. A request that is being
// carried out is never cut off for another.
type connLimiter struct {
	limit int
	turn  atomic.Int64
	mu    sync.Mutex
	open  map[net.Conn]*limitedConn
}

// limitedConn is one connection. Its turn is the time of its last progress:
// it was accepted, or a whole request of it was read or answered.
type limitedConn struct {
	limiter *connLimiter
	turn    atomic.Int64
	busy    atomic.Bool
}

type connKey struct{}

func newConnLimiter(limit int) *connLimiter {
	return &connLimiter{limit: limit, open: map[net.Conn]*limitedConn{}}
}

// connect is http.Server's ConnContext: called for each connection as it is
// accepted.
func (c *connLimiter) connect(ctx context.Context, conn net.Conn) context.Context {
	g := &limitedConn{limiter: c}
	g.turn.Store(c.turn.Add(1))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = g
	if len(c.open) > c.limit {
		c.evict()
	}
	return context.WithValue(ctx, connKey{}, g)
}

// evict closes the connection whose turn is longest ago; called with the lock
// held. The newest is never busy, so there is one.
func (c *connLimiter) evict() {
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

// change is http.Server's ConnState: it forgets closed connections.
func (c *connLimiter) change(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, conn)
	}
}

func connOf(r *http.Request) *limitedConn {
	g, _ := r.Context().Value(connKey{}).(*limitedConn)
	return g
}

// enter says that a whole request has been read and is being carried out. A
// request that came by no connection (Server.Handler) has no limitedConn.
func (g *limitedConn) enter() {
	if g != nil {
		g.busy.Store(true)
	}
}

// leave says that its reply is ready.
func (g *limitedConn) leave() {
	if g == nil {
		return
	}
	g.turn.Store(g.limiter.turn.Add(1))
	g.busy.Store(false)
}
