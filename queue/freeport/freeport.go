// Package freeport names TCP ports for servers that a test starts later, or starts again.
// A port that the kernel chose is of the range for outgoing connections: as soon as its
// listener is closed, any connection of any process may take it.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// The ports are below 32768, where the ranges of outgoing connections begin on Linux;
// those of macOS and Windows begin higher.
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

// Loopback returns a port of 127.0.0.1 on which nobody listens. A process gets each port
// once, until all have been had.
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
