package natstest

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// Mute is a proxy in front of a server. It can drop the data that the server sends.
type Mute struct {
	URL     string
	Dropped atomic.Bool // drop the server's next data, and close its connection
	Silent  atomic.Bool // drop all of the server's data, and keep connections open
}

// StartMute runs a proxy in front of a server until the test ends.
func StartMute(t *testing.T, server string) *Mute {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	Check(t, err)
	m := &Mute{URL: "nats://" + l.Addr().String()}
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
	t.Cleanup(func() { Check(t, l.Close()); Receive(t, done) })
	return m
}

// serve copies data in both directions until either side closes. After it drops data it
// closes the connection, because the following bytes would not be a valid message.
func (m *Mute) serve(t *testing.T, client net.Conn, server string) {
	upstream, err := new(net.Dialer).DialContext(context.Background(), "tcp", server)
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
			if err != nil || drop && m.Dropped.CompareAndSwap(true, false) {
				return
			}
			if drop && m.Silent.Load() {
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
