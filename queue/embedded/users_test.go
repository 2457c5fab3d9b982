package embedded

import (
	"testing"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/publish"
	"perennial/queue/roles"
	"perennial/queue/streams"
)

// Each connection is a file descriptor of the server.
func TestAUserLeavesTheOthersTheirConnections(t *testing.T) {
	viewer := []roles.Grant{{Role: queue.RoleViewer, Accounts: []string{"main"}}}
	s := start(t, t.TempDir(), roles.User{Name: "one", Password: "pw", Grants: viewer}, roles.User{Name: "two", Password: "pw", Grants: viewer})
	connect := func(user string) error {
		nc, err := nats.Connect(s.URL(), nats.UserInfo(user, "pw"))
		if err == nil {
			t.Cleanup(nc.Close)
		}
		return err
	}
	for range roles.MaxConnections {
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

// The runner's NATS account then has another name.
func TestStreamsStayWhenUsersComeAndGo(t *testing.T) {
	dir, users := t.TempDir(), []roles.User{{Name: "app", Password: "pw", Grants: []roles.Grant{{Role: queue.RoleProducer, Accounts: []string{"main"}}}}}
	for stored, users := range [][]roles.User{nil, users, users, nil, users} {
		s, err := Start(Config{Listen: "127.0.0.1:0", StoreDir: dir, Users: users, Log: natstest.Quiet()})
		if err != nil {
			t.Fatal(err)
		}
		q := connect(t, s)
		if err := (streams.Wanted{Account: "main", Replicas: 1, Embedded: true}).Ensure(natstest.Within(t), q.JetStream()); err != nil {
			t.Fatal(err)
		}
		if err := publish.New(q.JetStream()).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindProxyRenew, Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		stream, err := q.JetStream().Stream(natstest.Within(t), queue.CommandsStream("main"))
		if err != nil || stream.CachedInfo().State.Msgs != uint64(stored+1) {
			t.Errorf("start %d: %v %v", stored+1, stream, err)
		}
		q.Close()
		s.Shutdown()
	}
}

// It must not start with a user of other rights.
func TestAServerWithAWrongUserDoesNotStart(t *testing.T) {
	producer := []roles.Grant{{Role: queue.RoleProducer, Accounts: []string{"main"}}}
	for _, wrong := range []roles.User{
		{Name: "", Grants: producer}, {Name: "a b", Grants: producer}, {Name: `x"}`, Grants: producer}, {Name: "a.b", Grants: producer},
		{Name: roles.RunnerUser, Grants: producer}, {Name: "app"}, {Name: "app", Grants: []roles.Grant{{Role: "admin", Accounts: []string{"main"}}}},
		{Name: "app", Grants: []roles.Grant{{Role: queue.RoleViewer}}}, {Name: "app", Grants: []roles.Grant{{Role: queue.RoleViewer, Accounts: []string{">"}}}},
	} {
		if _, err := Start(Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Users: []roles.User{wrong}, Log: natstest.Quiet()}); err == nil {
			t.Errorf("%+v starts", wrong)
		}
	}
}

// TestAProducerOfSeveralAccountsHearsFromEach: a result reaches its inbox once.
func TestAProducerOfSeveralAccountsHearsFromEach(t *testing.T) {
	s := start(t, t.TempDir(), roles.User{Name: "app", Password: "pw", Grants: []roles.Grant{{Role: queue.RoleProducer, Accounts: []string{"a", "b"}}}})
	runner := connect(t, s)
	nc, err := nats.Connect(s.URL(), nats.UserInfo("app", "pw"))
	natstest.Check(t, err)
	defer nc.Close()
	inbox := nats.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	natstest.Check(t, err)
	natstest.Check(t, nc.Flush())
	for _, account := range []string{"a", "b"} {
		natstest.Check(t, queue.Answer(runner.JetStream(), account, inbox, []byte(account)))
		answer, err := answers.NextMsgWithContext(natstest.Within(t))
		if err != nil || string(answer.Data) != account {
			t.Fatalf("from account %s: %v %v", account, answer, err)
		}
	}
	natstest.Check(t, runner.JetStream().Conn().Flush())
	natstest.Check(t, nc.Flush())
	if n, _, err := answers.Pending(); err != nil || n > 0 {
		t.Errorf("%d answers came twice, %v", n, err)
	}
}
