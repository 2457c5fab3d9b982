package streams

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
)

func TestAStreamThatWouldLoseDataIsRefusedByField(t *testing.T) {
	t.Parallel()
	spoil := map[string]func(*jetstream.StreamConfig){
		"max_age":              func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs":             func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 },
		"max_bytes":            func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
		"max_msg_size":         func(c *jetstream.StreamConfig) { c.MaxMsgSize = 100 },
		"storage": func(c *jetstream.StreamConfig) {
			c.Storage, c.PersistMode = jetstream.MemoryStorage, jetstream.DefaultPersistMode
		},
		"retention":         func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"subjects":          func(c *jetstream.StreamConfig) { c.Subjects = []string{c.Name} },
		"allow_msg_ttl":     func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
		"allow_rollup_hdrs": func(c *jetstream.StreamConfig) { c.AllowRollup, c.DenyPurge = true, false },
		"deny_delete":       func(c *jetstream.StreamConfig) { c.DenyDelete = false },
		"deny_purge":        func(c *jetstream.StreamConfig) { c.DenyPurge = false },
		"no_ack":            func(c *jetstream.StreamConfig) { c.NoAck = true },
	}
	js := jstest.New(t)
	ctx := natstest.Within(t)
	for field, change := range spoil {
		name := strings.ReplaceAll(field, "_", "-")
		for n, config := range []jetstream.StreamConfig{commandsConfig(name+"-c", 1), eventsConfig(name+"-e", 1, true)} {
			account := name + []string{"-c", "-e"}[n]
			if !config.DenyDelete && (field == "deny_delete" || field == "deny_purge") {
				continue
			}
			change(&config)
			_, err := js.CreateStream(ctx, config)
			natstest.Check(t, err)
			var refused *queue.StreamError
			if err := (Wanted{Account: account, Replicas: 1, Embedded: true}).Ensure(ctx, js); !errors.As(err, &refused) || refused.Field != field || refused.Stream != config.Name {
				t.Errorf("%s with a bad %s: %v", config.Name, field, err)
			}
		}
	}
}

func TestHarmlessStreamSettingsAreLeftAlone(t *testing.T) {
	js := newMain(t)
	ctx := natstest.Within(t)
	config := commandsConfig("main", 1)
	config.Description, config.Duplicates, config.AllowAtomicPublish = "ours", time.Minute, false
	_, err := js.UpdateStream(ctx, config)
	natstest.Check(t, err)
	natstest.Check(t, Wanted{Account: "main", Replicas: 1, Embedded: true}.Ensure(ctx, js))
	stream, err := js.Stream(ctx, config.Name)
	natstest.Check(t, err)
	have := stream.CachedInfo().Config
	if have.Description != "ours" || have.Duplicates != duplicateWindow || !have.AllowAtomicPublish {
		t.Fatalf("%+v", have)
	}
}

// The test covers each setting that an administrator can change while the runner works,
// with the command to fix it.
func TestTrap71APausedOrChangedConsumerIsFound(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	ctx := natstest.Within(t)
	looks := func() error { return Wanted{Account: "main", Replicas: 1, Embedded: true}.Check(ctx, js) }
	natstest.Check(t, looks())           // before a runner has created a consumer
	for _, line := range queue.Lines() { // like the intake
		_, err := js.CreateOrUpdateConsumer(ctx, queue.CommandsStream("main"), LineConfig("main", line))
		natstest.Check(t, err)
	}
	bulk := queue.Line{Kind: queue.KindProxyRenew, Priority: queue.PriorityBulk}
	natstest.Check(t, looks())
	name := queue.CommandsStream("main")
	_, err := js.PauseConsumer(ctx, name, ConsumerOf(bulk), time.Now().Add(time.Hour))
	natstest.Check(t, err)
	if err := looks(); !Unlike(err) || !strings.Contains(err.Error(), "is paused") || !strings.Contains(err.Error(), "nats consumer resume "+name+" "+ConsumerOf(bulk)) {
		t.Errorf("paused: %v", err)
	}
	_, err = js.ResumeConsumer(ctx, name, ConsumerOf(bulk))
	natstest.Check(t, err)
	natstest.Check(t, looks())
	for field, change := range map[string]func(*jetstream.ConsumerConfig){
		"max_ack_pending": func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1 },
		"max_deliver":     func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 2 },
		"ack_wait":        func(c *jetstream.ConsumerConfig) { c.AckWait = time.Hour },
		"max_batch":       func(c *jetstream.ConsumerConfig) { c.MaxRequestBatch = 1 },
		"headers_only":    func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true },
	} {
		config := LineConfig("main", bulk)
		change(&config)
		_, err := js.UpdateConsumer(ctx, name, config)
		natstest.Check(t, err)
		if err := looks(); !Unlike(err) || !strings.Contains(err.Error(), "has "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, err = js.UpdateConsumer(ctx, name, LineConfig("main", bulk))
	natstest.Check(t, err)
	natstest.Check(t, looks())
}

// The first copy of these events is the ledger.
func TestOnlyTheEmbeddedServersEventsMayBeSyncedLater(t *testing.T) {
	if c := eventsConfig("main", 1, true); c.AllowAtomicPublish || c.PersistMode != jetstream.AsyncPersistMode {
		t.Errorf("the embedded server's: %+v", c)
	}
}
