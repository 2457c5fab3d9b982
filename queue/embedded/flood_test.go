package embedded

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/publish"
	"perennial/queue/roles"
	"perennial/queue/streams"
)

// A producer that publishes without waiting fills only the server's buffer, so that another
// producer's command waits for that buffer alone. The log names the user of the flood.
func TestAFloodIsRefusedAndOthersAreServed(t *testing.T) {
	t.Parallel()
	grants := []roles.Grant{{Role: queue.RoleProducer, Accounts: []string{"main"}}}
	log, said := logrus.New(), make(lines, 1000)
	log.SetOutput(said)
	server, err := Start(Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Users: []roles.User{{Name: "flood", Password: "pw", Grants: grants}, {Name: "calm", Password: "pw", Grants: grants}}, Log: log})
	natstest.Check(t, err)
	t.Cleanup(server.Shutdown)
	if server.options.StreamMaxBufferedMsgs != MaxBufferedMessages {
		t.Error("the server's buffer has no bound")
	}
	server.options.StreamMaxBufferedMsgs = 8 // a small buffer is full on any disk
	natstest.Check(t, server.Restart())
	runner := connect(t, server)
	natstest.Check(t, streams.Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(natstest.Within(t), runner.JetStream()))
	producer := func(name string) *queue.Queue {
		q, err := queue.Connect(queue.ConnectConfig{URL: server.URL(), User: name, Password: "pw", Log: natstest.Quiet()})
		natstest.Check(t, err)
		t.Cleanup(q.Close)
		return q
	}
	flood, refused := producer("flood"), make(chan struct{}, 1)
	inbox := flood.JetStream().Conn().NewInbox()
	_, err = flood.JetStream().Conn().Subscribe(inbox, func(m *nats.Msg) {
		if strings.Contains(string(m.Data), `"err_code":10167`) && len(refused) == 0 {
			refused <- struct{}{}
		}
	})
	natstest.Check(t, err)
	msg := &nats.Msg{Subject: queue.CommandSubject("main", queue.KindOrderCreate), Reply: inbox, Data: []byte(`{}`)}
	calm := producer("calm")
	for n := 0; len(refused) == 0 && n < 100_000; n++ {
		natstest.Check(t, flood.JetStream().Conn().PublishMsg(msg))
	}
	natstest.Receive(t, refused)
	natstest.Check(t, publish.New(calm.JetStream()).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindOrderCreate, Data: []byte(`{}`), Priority: queue.PriorityHigh}))
	own, err := runner.JetStream().Conn().SubscribeSync(runner.JetStream().Conn().NewInbox())
	natstest.Check(t, err)
	natstest.Check(t, runner.JetStream().Conn().FlushWithContext(natstest.Within(t)))
	for at, want := range map[string]string{inbox: `["flood"]`, own.Subject: `[""]`, inbox + ".other": "[]"} {
		if got := fmt.Sprintf("%q", server.Listeners(at)); got != want {
			t.Errorf("%s listens at %s, want %s", got, at, want)
		}
	}
	line := natstest.Receive(t, said)
	if !strings.Contains(line, "publishes faster") || !strings.Contains(line, "user=flood") || len(said) > 0 {
		t.Errorf("%s and %d other lines", line, len(said))
	}
}

// lines is a log, line by line.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}
