// A proxy that loses what a server says.

package queue

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// mute is a proxy before a server that can drop what the server says.
type mute struct {
	url     string
	dropped atomic.Bool // the next that the server says is dropped, with its connection
	silent  atomic.Bool // all that the server says is dropped, and connections stay
}

func startMute(t *testing.T, server string) *mute {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	m := &mute{url: "nats://" + l.Addr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			m.serve(t, client, strings.TrimPrefix(server, "nats://"))
		}
	}()
	t.Cleanup(func() { check(t, l.Close()); receive(t, done) })
	return m
}

// serve copies both ways until either end closes. A connection of which something was
// dropped is closed with it, for what follows would not be a message.
func (m *mute) serve(t *testing.T, client net.Conn, server string) {
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		_ = client.Close()
		return
	}
	shut := func() { _ = client.Close(); _ = upstream.Close() }
	t.Cleanup(shut)
	pump := func(to, from net.Conn, drop bool) {
		defer shut()
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil || drop && m.dropped.CompareAndSwap(true, false) {
				return
			}
			if drop && m.silent.Load() {
				continue
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	go pump(upstream, client, false)
	go pump(client, upstream, true)
}
