package crashtest

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
)

// wire stands between the runner and the sandbox. At the first POST it strikes:
// in the middle of the request, after its execution, or in the middle of the
// response.
type wire struct {
	t        *testing.T
	listener net.Listener
	target   string
	mode     string // request, executed or response
	strike   func()
	armed    chan struct{}
	once     sync.Once
}

// through has the world's runner reach the sandbox by a wire; mode "" by none.
func (w *world) through(mode string) *wire {
	w.t.Helper()
	x := &wire{t: w.t, mode: mode, armed: make(chan struct{})}
	if mode == "" {
		return x
	}
	target, err := url.Parse(w.sandbox.Sandbox)
	if err != nil {
		w.t.Fatal(err)
	}
	if x.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = x.listener.Close() })
	x.target = target.Host
	go x.serve()
	w.sandbox.Sandbox = "http://" + x.listener.Addr().String()
	w.configure("", "")
	return x
}

// arm says what the strike is.
func (x *wire) arm(strike func()) {
	x.strike = strike
	close(x.armed)
}

func (x *wire) serve() {
	for {
		client, err := x.listener.Accept()
		if err != nil {
			return
		}
		go x.carry(client)
	}
}

func (x *wire) carry(client net.Conn) {
	server, err := net.Dial("tcp", x.target)
	if err != nil {
		_ = client.Close()
		return
	}
	struck := make(chan struct{}, 1) // a strike at the response is due
	go func() {
		x.copy(server, client, func(text []byte) int {
			if !bytes.HasPrefix(text, []byte("POST ")) {
				return 0
			}
			if x.mode == "request" {
				return len(text) / 2
			}
			struck <- struct{}{}
			return 0
		})
		_ = server.Close()
	}()
	x.copy(client, server, func(text []byte) int {
		select {
		case <-struck:
		default:
			return 0
		}
		if x.mode == "executed" {
			return -1
		}
		return len(text) / 2
	})
	_ = client.Close()
}

// copy carries what comes. Where at gives more than nothing, so many bytes go
// through before the strike and the rest behind it; below zero none do before.
func (x *wire) copy(to io.Writer, from io.Reader, at func([]byte) int) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		text := buf[:n]
		if cut := at(text); cut != 0 {
			_, _ = to.Write(text[:max(cut, 0)])
			text = text[max(cut, 0):]
			<-x.armed
			x.once.Do(x.strike)
		}
		if _, werr := to.Write(text); err != nil || werr != nil {
			return
		}
	}
}

func messageOf(p published) *nats.Msg { return &nats.Msg{Subject: p.subject, Data: p.body} }
