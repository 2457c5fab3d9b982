package queue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"perennial/queue/natstest"
)

// TestMembersOfANATSContext that say how the connection is made are used, or refused by name.
func TestMembersOfANATSContext(t *testing.T) {
	server := natstest.Start(t, `jetstream {store_dir: $STORE}
accounts {
  STREAMS {jetstream: enabled, users: [{user: s, password: pw}], exports: [{service: "$JS.API.>", response_type: stream}]}
  RUN {users: [{user: ops, password: pw, permissions: {subscribe: ["_mine.>", "perennial.>"]}}], imports: [{service: {account: STREAMS, subject: "$JS.API.>"}, to: "js.streams.>"}]}
}`)
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	check(t, os.MkdirAll(filepath.Join(home, "nats", "context"), 0o700))
	through := func(members string) (*Queue, error) {
		text := `{"url":"` + server.ClientURL() + `","user":"ops","password":"pw","inbox_prefix":"_mine"` + members + `}`
		check(t, os.WriteFile(filepath.Join(home, "nats", "context", "here.json"), []byte(text), 0o600))
		return Connect(ConnectConfig{Context: "here", Log: quiet()})
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
	check(t, err)
	t.Cleanup(q.Close)
	if _, err := q.JetStream().AccountInfo(within(t)); err != nil {
		t.Error(err)
	}
	_, err = q.JetStream().Conn().Subscribe("perennial.commands.main.order.create", func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"seq":1}`))
		_ = q.JetStream().Answer("main", ReplyTo(m.Header), []byte("done"))
	})
	check(t, err)
	if answer, err := NewPublisher(q.JetStream()).CarryOut(within(t), "main", Outgoing{Kind: KindOrderCreate, Data: []byte("{}")}); string(answer) != "done" {
		t.Errorf("%s %v", answer, err)
	}
}
