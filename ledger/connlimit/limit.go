// Package connlimit bounds the open connections of an HTTP server. Beyond the bound a new
// connection takes the place of the one that has been idle for longest, so that a client that
// opens many, or trickles its requests, keeps no other client out, and no probe of health.
// It counts connections alone: whose they are is the handler's matter.
package connlimit

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Limiter bounds the open connections of one server: its Connect and Change are the server's
// ConnContext and ConnState. A request that is being carried out is never cut off for another.
type Limiter struct {
	limit int
	turn  atomic.Int64
	mu    sync.Mutex
	open  map[net.Conn]*Conn
}

// Conn is one connection. Its turn is the time of its last progress:
// it was accepted, or a whole request of it was read or answered.
type Conn struct {
	limiter *Limiter
	turn    atomic.Int64
	busy    atomic.Bool
}

type connKey struct{}

// New bounds a server to so many open connections.
func New(limit int) *Limiter {
	return &Limiter{limit: limit, open: map[net.Conn]*Conn{}}
}

// Connect is http.Server's ConnContext: called for each connection as it is
// accepted.
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

// evict closes the connection whose turn is longest ago; called with the lock
// held. The newest is never busy, so there is one.
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

// Change is http.Server's ConnState: it forgets closed connections.
func (c *Limiter) Change(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, conn)
	}
}

// Of is the connection of a request; nil where its server has no limiter.
func Of(r *http.Request) *Conn {
	g, _ := r.Context().Value(connKey{}).(*Conn)
	return g
}

// Enter says that a whole request has been read and is being carried out. A
// request that came by no connection has no Conn.
func (g *Conn) Enter() {
	if g != nil {
		g.busy.Store(true)
	}
}

// Leave says that its reply is ready.
func (g *Conn) Leave() {
	if g == nil {
		return
	}
	g.turn.Store(g.limiter.turn.Add(1))
	g.busy.Store(false)
}
