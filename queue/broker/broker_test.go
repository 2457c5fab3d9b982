package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"

	"github.com/nats-io/nats.go/jetstream"
)

// All users together leave room for the runner's consumers.
func TestAUserHasNoMoreConsumersThanItsShare(t *testing.T) {
	js := newEvents(t)
	b := &broker{js: js, account: "main", share: 3, most: 4}
	stream := queue.EventsStream("main")
	create := func(user, name, config, says string) {
		t.Helper()
		data, err := b.create([]byte(fmt.Sprintf(`{"stream_name":%q,"config":%s}`, stream, config)), user)
		if says != "" {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s %s: %v", user, config, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("%s %s: %v", user, config, err)
		}
		if answer, err := js.Conn().Request("$JS.API.CONSUMER.CREATE."+stream+"."+name, data, 10*time.Second); err != nil || strings.Contains(string(answer.Data), `"error"`) {
			t.Fatalf("%s %v", answer.Data, err)
		}
	}
	for n := range 3 {
		name := fmt.Sprint("c", n)
		create("one", name, `{"durable_name":"`+name+`","name":"`+name+`","ack_policy":"none"}`, "")
	}
	create("one", "c1", `{"durable_name":"c1","name":"c1","ack_policy":"none"}`, "") // already exists
	create("one", "", `{"ack_policy":"none"}`, "user one has 3 consumers")
	create("two", "d", `{"durable_name":"d","name":"d","ack_policy":"none"}`, "")
	create("two", "", `{"ack_policy":"none"}`, "has 4 consumers: an operator can delete")
	create("three", "", `{"ack_policy":"none","max_waiting":513}`, "max_waiting")
	create("three", "", `{"ack_policy":"none","description":"`+strings.Repeat("x", maxCreateBytes)+`"}`, "of at most")
}

// The request would delete a consumer that another user has created in the meantime.
func TestADeletionOfNothingIsNotPassedOn(t *testing.T) {
	b := &broker{js: newEvents(t), account: "main"}
	if err := b.deletes("none", "two", false); err == nil {
		t.Error("one that is not there is passed on")
	}
}

// newEvents returns a server with the events stream of "main".
func newEvents(t *testing.T) *queue.JetStream {
	t.Helper()
	js := jstest.New(t)
	_, err := js.CreateStream(natstest.Within(t), jetstream.StreamConfig{Name: queue.EventsStream("main"), Subjects: []string{queue.EventSubject("main", ">")}})
	natstest.Check(t, err)
	return js
}
