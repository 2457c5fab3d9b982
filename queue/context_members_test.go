package queue_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/publish"
)

// TestMembersOfANATSContext checks that members which affect the connection are used, or
// refused by name.
func TestMembersOfANATSContext(t *testing.T) {
	server := natstest.Start(t, `jetstream {store_dir: $STORE}
accounts {
  STREAMS {jetstream: enabled, users: [{user: s, password: pw}], exports: [{service: "$JS.API.>", response_type: stream}]}
  RUN {users: [{user: ops, password: pw, permissions: {subscribe: ["_mine.>", "perennial.>"]}}], imports: [{service: {account: STREAMS, subject: "$JS.API.>"}, to: "js.streams.>"}]}
}`)
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	natstest.Check(t, os.MkdirAll(filepath.Join(home, "nats", "context"), 0o700))
	through := func(members string) (*queue.Queue, error) {
		text := `{"url":"` + server.ClientURL() + `","user":"ops","password":"pw","inbox_prefix":"_mine"` + members + `}`
		natstest.Check(t, os.WriteFile(filepath.Join(home, "nats", "context", "here.json"), []byte(text), 0o600))
		return queue.Connect(queue.ConnectConfig{Context: "here", Log: natstest.Quiet()})
	}
	for members, names := range map[string]string{
		`,"socks_proxy":"socks5://127.0.0.1:1"`:                         "socks_proxy",
		`,"nsc":"nsc://o/a/u","later":{"x":1},"user_jwt":""`:            "later, nsc",
		`,"jetstream_domain":"hub","jetstream_api_prefix":"js.streams"`: "exclude each other",
	} {
		if q, err := through(members); err == nil || !strings.Contains(err.Error(), names) || !strings.Contains(err.Error(), "here.json") {
			t.Errorf("%s: %v", members, err)
			if err == nil {
				q.Close()
			}
		}
	}
	q, err := through(`,"jetstream_api_prefix":"js.streams","description":"ours","color_scheme":"red","socks_proxy":"","nsc":null`)
	natstest.Check(t, err)
	t.Cleanup(q.Close)
	if _, err := q.JetStream().AccountInfo(natstest.Within(t)); err != nil {
		t.Error(err)
	}
	_, err = q.JetStream().Conn().Subscribe("perennial.commands.main.order.create", func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"seq":1}`))
		_ = queue.Answer(q.JetStream(), "main", queue.ReplyTo(m.Header), []byte("done"))
	})
	natstest.Check(t, err)
	if answer, err := publish.New(q.JetStream()).CarryOut(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindOrderCreate, Data: []byte("{}")}); string(answer) != "done" {
		t.Errorf("%s %v", answer, err)
	}
}
