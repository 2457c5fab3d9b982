package embedded

import (
	"fmt"
	"testing"

	"perennial/queue"
	"perennial/queue/freeport"
	"perennial/queue/natstest"
	"perennial/queue/roles"
)

// start runs an embedded server until the test ends, or stop is called.
func start(t testing.TB, dir string, users ...roles.User) *Server {
	t.Helper()
	port, err := freeport.Loopback() // some tests restart the server at its address
	if err != nil {
		t.Fatal(err)
	}
	server, err := Start(Config{Listen: fmt.Sprintf("127.0.0.1:%d", port), StoreDir: dir, Users: users, Log: natstest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	return server
}

func connect(t testing.TB, server *Server) *queue.Queue {
	t.Helper()
	q, err := queue.Connect(queue.ConnectConfig{Embedded: server, Log: natstest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

func TestMain(m *testing.M) { natstest.Main(m) }
