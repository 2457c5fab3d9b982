package queue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sirupsen/logrus"
)

// TestAFloodIsRefusedAndOthersAreServed: a producer that publishes without waiting fills what
// the server buffers and no more, so that another one's command is stored after those alone; the log names the user of the flood.
func TestAFloodIsRefusedAndOthersAreServed(t *testing.T) {
	t.Parallel()
	grants := []Grant{{RoleProducer, []string{"main"}}}
	log, said := logrus.New(), make(lines, 1000)
	log.SetOutput(said)
	server, err := StartEmbedded(EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Users: []User{{Name: "flood", Password: "pw", Grants: grants}, {Name: "calm", Password: "pw", Grants: grants}}, Verbs: SomeVerbs, Log: log})
	check(t, err)
	t.Cleanup(server.Shutdown)
	if server.options.StreamMaxBufferedMsgs != MaxBufferedMessages {
		t.Error("the server's buffer has no bound")
	}
	server.options.StreamMaxBufferedMsgs = 8 // a small one is full on any disk
	check(t, server.Restart())
	runner := connect(t, server)
	check(t, runner.EnsureStreams(within(t), "main", 1))
	producer := func(name string) *Queue {
		q, err := Connect(ConnectConfig{URL: server.URL(), User: name, Password: "pw", Log: quiet()})
		check(t, err)
		t.Cleanup(q.Close)
		return q
	}
	flood, refused := producer("flood"), make(chan struct{}, 1)
	inbox := flood.nc.NewInbox()
	_, err = flood.nc.Subscribe(inbox, func(m *nats.Msg) {
		if _, err := parseAck(m.Data); HasCode(err, codeIngest) {
			signal(refused)
		}
	})
	check(t, err)
	msg := Outgoing{Kind: KindOrderCreate, Data: []byte(`{}`)}.message("main")
	msg.Reply = inbox
	calm := producer("calm")
	for n := 0; len(refused) == 0 && n < 100_000; n++ {
		check(t, flood.nc.PublishMsg(msg))
	}
	receive(t, refused)
	check(t, calm.PublishOne(within(t), "main", Outgoing{Kind: KindOrderCreate, Data: []byte(`{}`), Priority: PriorityHigh}))
	own, err := runner.nc.SubscribeSync(runner.nc.NewInbox())
	check(t, err)
	check(t, runner.nc.FlushWithContext(within(t)))
	for at, want := range map[string]string{inbox: `["flood"]`, own.Subject: `[""]`, inbox + ".other": "[]"} {
		if got := fmt.Sprintf("%q", server.Listeners(at)); got != want {
			t.Errorf("%s listens at %s, want %s", got, at, want)
		}
	}
	line := receive(t, said)
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

// TestAMissedHeartbeatIsNoLostConsumer while the consumer is there.
func TestAMissedHeartbeatIsNoLostConsumer(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	line := Lines()[0]
	consumer, err := q.lineConsumer(within(t), "main", line)
	check(t, err)
	if lost(within(t), consumer, jetstream.ErrNoHeartbeat) || !lost(within(t), consumer, jetstream.ErrConsumerDeleted) {
		t.Error("a busy server's consumer is lost, or a deleted one is not")
	}
	check(t, q.js.DeleteConsumer(within(t), CommandsStream("main"), consumer.CachedInfo().Name))
	if !lost(within(t), consumer, jetstream.ErrNoHeartbeat) {
		t.Error("a consumer that is gone is waited for")
	}
}
