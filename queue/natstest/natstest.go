// Package natstest starts NATS servers in a test's process, and limits the waits of a test.
// It has a plain server with JetStream, leaf nodes, clusters, limits, other accounts, and a
// proxy that drops a server's data.
//
// It must not import queue or the packages under it, so that the tests of all of them can
// use it.
package natstest

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"perennial/queue/freeport"
)

// Start runs a server with this configuration, on loopback, until the test ends. $STORE in the
// configuration is replaced by a directory of the test. The server chooses a free port unless
// the configuration sets one.
func Start(t testing.TB, conf string) *server.Server {
	t.Helper()
	options := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}
	if err := options.ProcessConfigString(strings.ReplaceAll(conf, "$STORE", t.TempDir())); err != nil {
		t.Fatal(err)
	}
	s := run(t, options)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

func run(t testing.TB, options *server.Options) *server.Server {
	t.Helper()
	s, err := server.NewServer(options)
	Check(t, err)
	s.Start()
	if !s.ReadyForConnections(Patience) {
		t.Fatal("the server is not ready")
	}
	return s
}

// Server is a server with JetStream that keeps its address and directory across restarts.
type Server struct {
	t       testing.TB
	options *server.Options
	now     *server.Server
}

// Serve runs a server with JetStream in a directory until the test ends. Like the embedded
// server it syncs every write.
func Serve(t testing.TB, dir string) *Server {
	t.Helper()
	port, err := freeport.Loopback()
	Check(t, err)
	s := &Server{t: t, options: &server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, SyncAlways: true, MaxPayload: 2 << 20, NoSigs: true, NoLog: true}}
	s.Start()
	t.Cleanup(s.Shutdown)
	return s
}

// URL returns the server's address.
func (s *Server) URL() string { return s.now.ClientURL() }

// Shutdown stops the server.
func (s *Server) Shutdown() {
	s.now.Shutdown()
	s.now.WaitForShutdown()
}

// Start starts the server again.
func (s *Server) Start() {
	s.t.Helper()
	s.now = run(s.t, s.options.Clone())
}
