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

// wire is a TCP proxy between the runner and the sandbox. At the first POST it calls strike: in the
// middle of the request, after its execution, or in the middle of the response.
type wire struct {
	t        testing.TB
	listener net.Listener
	target   string
	mode     string // request, executed or response
	strike   func()
	armed    chan struct{}
	once     sync.Once
}

// through puts a wire between the world's runner and the sandbox, or none if mode is "".
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

// arm sets strike. The wire waits for it at the first POST.
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
	struck := make(chan struct{}, 1) // strike is due at the response
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

// copy forwards what it reads. at returns how many bytes of a read to forward before strike is
// called, and the rest follows afterwards. 0: strike is not called. Below 0: no byte is forwarded
// before strike.
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
