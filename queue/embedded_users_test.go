package queue

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// TestAUserLeavesTheOthersTheirConnections: each is a descriptor of the server.
func TestAUserLeavesTheOthersTheirConnections(t *testing.T) {
	viewer := []Grant{{RoleViewer, []string{"main"}}}
	s := startServer(t, t.TempDir(), User{"one", "pw", viewer}, User{"two", "pw", viewer})
	connect := func(user string) error {
		nc, err := nats.Connect(s.URL(), nats.UserInfo(user, "pw"))
		if err == nil {
			t.Cleanup(nc.Close)
		}
		return err
	}
	for range maxConnections {
		if err := connect("one"); err != nil {
			t.Fatal(err)
		}
	}
	if err := connect("one"); err == nil {
		t.Error("there is no end of them")
	}
	if err := connect("two"); err != nil {
		t.Errorf("another user: %v", err)
	}
}

// TestStreamsStayWhenUsersComeAndGo: the runner's NATS account has another name then.
func TestStreamsStayWhenUsersComeAndGo(t *testing.T) {
	dir, users := t.TempDir(), []User{{Name: "app", Password: "pw", Grants: []Grant{{RoleProducer, []string{"main"}}}}}
	for stored, users := range [][]User{nil, users, users, nil, users} {
		s, err := StartEmbedded(EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: dir, Users: users, Verbs: SomeVerbs, Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		q := connect(t, s)
		if err := q.EnsureStreams(within(t), "main", 1); err != nil {
			t.Fatal(err)
		}
		if err := q.PublishCommand(within(t), "main", KindProxyRenew, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		stream, err := q.js.Stream(within(t), CommandsStream("main"))
		if err != nil || stream.CachedInfo().State.Msgs != uint64(stored+1) {
			t.Errorf("start %d: %v %v", stored+1, stream, err)
		}
		q.Close()
		s.Shutdown()
	}
}

// TestAServerWithAWrongUserDoesNotStart, rather than with a user of other rights.
func TestAServerWithAWrongUserDoesNotStart(t *testing.T) {
	wrong := []User{{Name: "app", Grants: []Grant{{RoleViewer, nil}}}}
	if _, err := StartEmbedded(EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Users: wrong, Log: quiet()}); err == nil {
		t.Error("it starts")
	}
}
