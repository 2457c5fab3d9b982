package queue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// TestAUserHasNoMoreConsumersThanItsShare, and all together leave the runner room.
func TestAUserHasNoMoreConsumersThanItsShare(t *testing.T) {
	q := newQueue(t)
	b := &broker{queue: q, account: "main", share: 3, most: 4}
	stream := EventsStream("main")
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
		if answer, err := q.nc.Request("$JS.API.CONSUMER.CREATE."+stream+"."+name, data, 10*time.Second); err != nil || strings.Contains(string(answer.Data), `"error"`) {
			t.Fatalf("%s %v", answer.Data, err)
		}
	}
	for n := range 3 {
		name := fmt.Sprint("c", n)
		create("one", name, `{"durable_name":"`+name+`","name":"`+name+`","ack_policy":"none"}`, "")
	}
	create("one", "c1", `{"durable_name":"c1","name":"c1","ack_policy":"none"}`, "") // is there
	create("one", "", `{"ack_policy":"none"}`, "user one has 3 consumers")
	create("two", "d", `{"durable_name":"d","name":"d","ack_policy":"none"}`, "")
	create("two", "", `{"ack_policy":"none"}`, "has 4 consumers: an operator can delete")
	create("three", "", `{"ack_policy":"none","max_waiting":513}`, "max_waiting")
	create("three", "", `{"ack_policy":"none","description":"`+strings.Repeat("x", maxCreateBytes)+`"}`, "of at most")
}

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

// TestNoOtherRequestWaitsForSlowOnes, which go on for clients that have gone.
func TestNoOtherRequestWaitsForSlowOnes(t *testing.T) {
	q := newQueue(t)
	hold, begun := make(chan struct{}), make(chan struct{}, 2*maxServing)
	slow := func(context.Context, []byte) ([]byte, error) {
		begun <- struct{}{}
		<-hold
		return []byte("{}"), nil
	}
	quick := func(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil }
	stop, err := serveAccount(q, "1.0.0", map[string]Handler{"plan": slow, "reconcile": slow, "pause": quick, "status": quick})
	if err != nil {
		t.Fatal(err)
	}
	for range maxServing {
		for _, verb := range []string{"plan", "reconcile"} {
			if err := q.nc.PublishRequest(ServiceSubject("main", verb), q.nc.NewInbox(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range maxServing {
		receive(t, begun)
	}
	for _, verb := range []string{"pause", "status"} {
		if _, err := q.Request(within(t), "main", verb, nil); err != nil {
			t.Error(err)
		}
	}
	close(hold)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestAUserThatFloodsTheServiceWaitsForItself: another user's request has room.
func TestAUserThatFloodsTheServiceWaitsForItself(t *testing.T) {
	viewer := []Grant{{RoleViewer, []string{"main"}}}
	server := startServer(t, t.TempDir(), User{"one", "pw", viewer}, User{"two", "pw", viewer})
	q := connect(t, server)
	hold := make(chan struct{})
	stop, err := serveAccount(q, "1.0.0", map[string]Handler{
		"status": func(context.Context, []byte) ([]byte, error) { <-hold; return []byte("{}"), nil },
		"show":   func(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	user := func(name string) *nats.Conn {
		nc, err := nats.Connect(server.URL(), nats.UserInfo(name, "pw"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	one := user("one")
	answers, err := one.SubscribeSync(one.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	for range maxOfUser + 1 {
		if err := one.PublishRequest(ServiceSubject("main", "status"), answers.Subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := answers.NextMsg(10 * time.Second); err != nil || m.Header.Get(micro.ErrorCodeHeader) != codeBusy {
		t.Errorf("one too many: %v %v", m, err)
	}
	if m, err := user("two").Request(ServiceSubject("main", "show"), nil, 10*time.Second); err != nil || m.Header.Get(micro.ErrorCodeHeader) != "" {
		t.Errorf("another user: %v %v", m, err)
	}
	close(hold)
	for range maxOfUser {
		if m, err := answers.NextMsg(10 * time.Second); err != nil || m.Header.Get(micro.ErrorCodeHeader) != "" {
			t.Errorf("one of its share: %v %v", m, err)
		}
	}
	if m, err := one.Request(ServiceSubject("main", "show"), nil, 10*time.Second); err != nil || m.Header.Get(micro.ErrorCodeHeader) != "" {
		t.Errorf("afterwards: %v %v", m, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}
