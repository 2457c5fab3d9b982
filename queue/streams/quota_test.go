package streams

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/publish"
	"perennial/queue/quota"
)

// The limit is named before the streams are created, and when they are.
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
			q, err := queue.Connect(queue.ConnectConfig{URL: server.ClientURL(), User: name, Password: "pw", Log: natstest.Quiet()})
			natstest.Check(t, err)
			t.Cleanup(q.Close)
			js := q.JetStream()
			if name == "subjects" {
				_, err = js.CreateStream(natstest.Within(t), jetstream.StreamConfig{Name: "ALL", Subjects: []string{"perennial.>"}})
				natstest.Check(t, err)
			}
			looks := map[string]error{}
			if name != "max_file" { // it suffices until it is full
				looks["before"] = Wanted{Account: "main", Replicas: 1}.CheckQuota(natstest.Within(t), js)
			}
			looks["when all is made"] = fillUp(t, js)
			looks["after it"] = Wanted{Account: "main", Replicas: 1}.CheckQuota(natstest.Within(t), js)
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

// fillUp creates all that an account needs, and publishes commands until one is refused.
func fillUp(t *testing.T, js *queue.JetStream) error {
	t.Helper()
	if err := (Wanted{Account: "main", Replicas: 1}).Ensure(natstest.Within(t), js); err != nil {
		return err
	}
	for _, line := range queue.Lines() {
		if _, err := js.CreateOrUpdateConsumer(natstest.Within(t), queue.CommandsStream("main"), LineConfig("main", line)); err != nil {
			return err
		}
	}
	for range 30 {
		if err := publish.New(js).Publish(natstest.Within(t), "main", publish.Outgoing{Kind: queue.KindOrderCreate, Data: make([]byte, queue.MaxCommandBytes)}); err != nil {
			return err
		}
	}
	return nil
}
