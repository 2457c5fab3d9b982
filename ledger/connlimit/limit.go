// Package connlimit limits the open connections of an HTTP server. Beyond the limit, the
// server closes the connection that has been idle longest. A client that opens many
// connections, or sends its requests slowly, therefore does not block other clients or
// health probes. All clients share one limit.
package connlimit

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Limiter limits the open connections of one server. Use Connect and Change as the server's
// ConnContext and ConnState. To make room, it never closes a connection whose request is
// being handled.
type Limiter struct {
	limit int
	turn  atomic.Int64
	mu    sync.Mutex
	open  map[net.Conn]*Conn
}

// Conn is one connection. turn is the value that the limiter's counter had when the connection
// was accepted, or when its last reply was ready.
type Conn struct {
	limiter *Limiter
	turn    atomic.Int64
	busy    atomic.Bool
}

type connKey struct{}

// New returns a Limiter that allows limit open connections.
func New(limit int) *Limiter {
	return &Limiter{limit: limit, open: map[net.Conn]*Conn{}}
}

// Connect is the ConnContext of an http.Server, which calls it for each accepted
// connection.
func (c *Limiter) Connect(ctx context.Context, conn net.Conn) context.Context {
	g := &Conn{limiter: c}
	g.turn.Store(c.turn.Add(1))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = g
	if len(c.open) > c.limit {
		c.evict()
	}
	return context.WithValue(ctx, connKey{}, g)
}

// evict closes the idle connection that was used least recently. The caller must hold the
// lock. The newest connection is not busy yet, so there is always one to close.
func (c *Limiter) evict() {
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

// Change is the ConnState of an http.Server. It removes closed connections.
func (c *Limiter) Change(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, conn)
	}
}

// Of returns the connection of a request. It returns nil if the request's server has no Limiter.
func Of(r *http.Request) *Conn {
	g, _ := r.Context().Value(connKey{}).(*Conn)
	return g
}

// Enter marks the connection as busy, because a complete request was read and is being
// handled. It may be called on a nil Conn.
func (g *Conn) Enter() {
	if g != nil {
		g.busy.Store(true)
	}
}

// Leave marks the connection as no longer busy, because the reply is ready. It may be
// called on a nil Conn.
func (g *Conn) Leave() {
	if g == nil {
		return
	}
	g.turn.Store(g.limiter.turn.Add(1))
	g.busy.Store(false)
}
