// Package connlimit bounds the open connections of an HTTP server. Beyond the bound a new
// connection replaces the one that has been idle longest. A client that opens many
// connections, or trickles its requests, therefore blocks no other client and no health
// probe. The package counts connections without regard to their clients.
package connlimit

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Limiter bounds the open connections of one server. Connect and Change are the server's
// ConnContext and ConnState. A request in progress is never cut off for another.
type Limiter struct {
	limit int
	turn  atomic.Int64
	mu    sync.Mutex
	open  map[net.Conn]*Conn
}

// Conn is one connection. Its turn is the time of its last progress: it was accepted, or
// one of its requests was fully read or answered.
type Conn struct {
	limiter *Limiter
	turn    atomic.Int64
	busy    atomic.Bool
}

type connKey struct{}

// New returns a Limiter of this many open connections.
func New(limit int) *Limiter {
	return &Limiter{limit: limit, open: map[net.Conn]*Conn{}}
}

// Connect is http.Server's ConnContext, called for each accepted connection.
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

// evict closes the connection with the oldest turn; the caller holds the lock. The newest
// connection is never busy, so there is always one to close.
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

// Change is http.Server's ConnState. It forgets closed connections.
func (c *Limiter) Change(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, conn)
	}
}

// Of returns the connection of a request; nil if its server has no limiter.
func Of(r *http.Request) *Conn {
	g, _ := r.Context().Value(connKey{}).(*Conn)
	return g
}

// Enter marks the connection busy: a whole request has been read and is being handled. A
// nil Conn is allowed.
func (g *Conn) Enter() {
	if g != nil {
		g.busy.Store(true)
	}
}

// Leave marks the reply as ready.
func (g *Conn) Leave() {
	if g == nil {
		return
	}
	g.turn.Store(g.limiter.turn.Add(1))
	g.busy.Store(false)
}
