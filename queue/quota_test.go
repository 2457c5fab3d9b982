package queue

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue/natstest"
	"perennial/queue/quota"
)

// TestALimitOfTheNATSAccountIsNamed: before the streams are made, and when they are.
func TestALimitOfTheNATSAccountIsNamed(t *testing.T) {
	t.Parallel()
	limits := map[string]string{
		"enough":             "max_streams: 6, max_consumers: 16",
		"max_streams":        "max_streams: 2",
		"max_bytes_required": "max_bytes_required: true",
		"max_consumers":      "max_consumers: 4",
		"max_ack_pending":    "max_ack_pending: 100",
		"max_file":           "max_file: 3MB",
		"subjects":           "max_streams: 9",
	}
	conf := "jetstream {store_dir: $STORE}\naccounts {\n"
	for name, limit := range limits {
		conf += fmt.Sprintf("A_%s {jetstream {%s}, users: [{user: %s, password: pw}]}\n", name, limit, name)
	}
	server := natstest.Start(t, conf+"}")
	for name := range limits {
		t.Run(name, func(t *testing.T) {
			q, err := Connect(ConnectConfig{URL: server.ClientURL(), User: name, Password: "pw", Log: quiet()})
			check(t, err)
			t.Cleanup(q.Close)
			if name == "subjects" {
				_, err = q.js.CreateStream(within(t), jetstream.StreamConfig{Name: "ALL", Subjects: []string{"perennial.>"}})
				check(t, err)
			}
			looks := map[string]error{}
			if name != "max_file" { // which is enough until it is full
				looks["before"] = Wanted{Account: "main", Replicas: 1}.CheckQuota(within(t), q.JetStream())
			}
			looks["when all is made"] = fillUp(t, q)
			looks["after it"] = Wanted{Account: "main", Replicas: 1}.CheckQuota(within(t), q.JetStream())
			for when, err := range looks {
				quota, ok := errors.AsType[*quota.Error](err)
				if name == "enough" && err != nil || name != "enough" && (!ok || quota.Limit != name || quota.Do == "") {
					t.Errorf("%s: %v", when, err)
				}
				if name == "subjects" && !strings.Contains(fmt.Sprint(err), "stream ALL takes") {
					t.Errorf("%s: %v", when, err)
				}
			}
		})
	}
}

// fillUp has an account make all that it needs, and take commands until it is refused one.
func fillUp(t *testing.T, q *Queue) error {
	t.Helper()
	if err := (Wanted{Account: "main", Replicas: 1}).Ensure(within(t), q.JetStream()); err != nil {
		return err
	}
	for _, line := range Lines() {
		if _, err := q.JetStream().CreateOrUpdateConsumer(within(t), CommandsStream("main"), LineConfig("main", line)); err != nil {
			return err
		}
	}
	for range 30 {
		if err := NewPublisher(q.JetStream()).Publish(within(t), "main", Outgoing{Kind: KindOrderCreate, Data: make([]byte, MaxCommandBytes)}); err != nil {
			return err
		}
	}
	return nil
}
