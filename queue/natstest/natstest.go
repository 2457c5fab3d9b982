// Package natstest starts NATS servers in the process of a test, for estates that the
// embedded server is not: leaf nodes, limits, other accounts.
package natstest

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Start runs a server on loopback with a configuration, in which $STORE is a directory of
// its own, until the test ends. The port is a free one unless the configuration names it.
func Start(t testing.TB, conf string) *server.Server {
	t.Helper()
	options := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}
	if err := options.ProcessConfigString(strings.ReplaceAll(conf, "$STORE", t.TempDir())); err != nil {
		t.Fatal(err)
	}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(2 * time.Minute) {
		t.Fatal("the server is not ready")
	}
	return s
}
