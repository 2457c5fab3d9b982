// Package freeport returns TCP ports for servers that a test starts later, or restarts. A
// port chosen by the kernel is in the range for outgoing connections: as soon as its
// listener is closed, any process's connection may take it.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// The ports are below 32768, where the range of outgoing connections begins on Linux; on
// macOS and Windows it begins higher.
const (
	first = 12000
	count = 20000
)

// next differs between processes that run at the same time.
var next = func() *atomic.Uint32 {
	var at atomic.Uint32
	at.Store(rand.Uint32N(count))
	return &at
}()

// Loopback returns a free port of 127.0.0.1. A process gets each port once, until all were
// used.
func Loopback() (int, error) {
	var listen net.ListenConfig
	var failed error
	for range count {
		port := first + int(next.Add(1)%count)
		l, err := listen.Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			failed = err
			continue
		}
		return port, l.Close()
	}
	return 0, errors.Join(errors.New("no port is free"), failed)
}
