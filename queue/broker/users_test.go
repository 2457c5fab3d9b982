package broker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/broker"
	"perennial/queue/embedded"
	"perennial/queue/natstest"
	"perennial/queue/roles"
	"perennial/queue/streams"
)

// The broker also separates one user's consumers from another's.
func TestTheBrokerMakesNoConsumerThatPushes(t *testing.T) {
	subscriber := []roles.Grant{{Role: queue.RoleSubscriber, Accounts: []string{"main"}}}
	users := []roles.User{{Name: "one", Password: "pw", Grants: subscriber}, {Name: "two", Password: "pw", Grants: subscriber}}
	s, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Users: users, Log: natstest.Quiet()})
	natstest.Check(t, err)
	t.Cleanup(s.Shutdown)
	q, err := queue.Connect(queue.ConnectConfig{Embedded: s, Log: natstest.Quiet()})
	natstest.Check(t, err)
	t.Cleanup(q.Close)
	if err := (streams.Wanted{Account: "main", Replicas: 1, Embedded: true}).Ensure(natstest.Within(t), q.JetStream()); err != nil {
		t.Fatal(err)
	}
	stop, err := broker.Serve(q.JetStream(), "main")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }()
	var raw *nats.Conn
	user := func(name string) jetstream.JetStream {
		nc, err := nats.Connect(s.URL(), nats.UserInfo(name, "pw"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		raw = nc
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		return js
	}
	one, two := user("one"), user("two")
	if _, err := one.CreatePushConsumer(natstest.Within(t), queue.EventsStream("main"), jetstream.ConsumerConfig{DeliverSubject: "perennial.svc.b.resume"}); err == nil {
		t.Error("a consumer pushes")
	}
	for _, config := range []string{ // JetStream reads keys in any case, and the last of two
		`{"Deliver_Subject":"perennial.svc.b.resume"}`, `{"deliver_subject":"","DELIVER_SUBJECT":"perennial.svc.b.resume"}`,
		`{"deliver_group":"g","deliver_subjecT":"perennial.svc.b.resume"}`, `{"name":"a.b"}`, `{"name":"a b"}`, `{"durable_name":">"}`,
	} {
		answer, err := raw.Request("$JS.API.CONSUMER.CREATE."+queue.EventsStream("main"), []byte(`{"stream_name":"`+queue.EventsStream("main")+`","config":`+config+`}`), 10*time.Second)
		if err != nil || !strings.Contains(string(answer.Data), `"code":403`) {
			t.Errorf("%s: %v %v", config, answer, err)
		}
	}
	for _, many := range []string{`{"seq":1,"batch":1000}`, `{"seq":1,"BATCH":2}`, `{"multi_last":["perennial.events.main.>"]}`, `{"seq":1,"batch":1,"max_bytes":1000000}`} {
		answer, err := raw.Request("$JS.API.DIRECT.GET."+queue.EventsStream("main"), []byte(many), 10*time.Second)
		if err != nil || answer.Header.Get("Status") != "408" || !strings.Contains(answer.Header.Get("Description"), "for one") {
			t.Errorf("%s: %v %v", many, answer, err)
		}
	}
	config := jetstream.ConsumerConfig{Durable: "mine"}
	if _, err := one.CreateConsumer(natstest.Within(t), queue.EventsStream("main"), config); err != nil {
		t.Fatal(err)
	}
	if _, err := one.UpdateConsumer(natstest.Within(t), queue.EventsStream("main"), config); err != nil {
		t.Error(err)
	}
	if _, err := one.UpdateConsumer(natstest.Within(t), queue.EventsStream("main"), jetstream.ConsumerConfig{Durable: "none"}); !errors.Is(err, jetstream.ErrConsumerDoesNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
	if _, err := two.UpdateConsumer(natstest.Within(t), queue.EventsStream("main"), config); err == nil {
		t.Error("it is another user's to change")
	}
	if err := two.DeleteConsumer(natstest.Within(t), queue.EventsStream("main"), "none"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
	if err := two.DeleteConsumer(natstest.Within(t), queue.EventsStream("main"), "mine"); err == nil {
		t.Error("it is another user's to delete")
	}
}
