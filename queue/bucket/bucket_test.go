package bucket

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func open(t *testing.T) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(natstest.Serve(t, t.TempDir()).URL())
	natstest.Check(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	natstest.Check(t, err)
	return js
}

// The second of two writers gets an error.
func TestAKeyIsWrittenOverWhatWasReadAlone(t *testing.T) {
	js, ctx := open(t), natstest.Within(t)
	kv, err := Ensure(ctx, js, jetstream.KeyValueConfig{Bucket: "B"})
	natstest.Check(t, err)
	again, err := Ensure(ctx, js, jetstream.KeyValueConfig{Bucket: "B", Description: "another's"})
	natstest.Check(t, err)
	first, err := Update(ctx, kv, "k", []byte("1"), 0)
	natstest.Check(t, err)
	if _, err := Update(ctx, again, "k", []byte("x"), 0); !errors.Is(err, jetstream.ErrKeyExists) {
		t.Errorf("a key that is there is made: %v", err)
	}
	_, err = Update(ctx, kv, "k", []byte("2"), first)
	natstest.Check(t, err)
	if _, err := Update(ctx, again, "k", []byte("x"), first); !errors.Is(err, jetstream.ErrKeyExists) {
		t.Errorf("a key that was written since is written: %v", err)
	}
}

// A watch reports the content immediately and after each change. It reports nothing for a
// missing bucket.
func TestAWatchTellsWhatABucketHolds(t *testing.T) {
	js, ctx := open(t), natstest.Within(t)
	var all map[string][]byte
	natstest.Check(t, WatchAll(ctx, js, "NONE", func(x map[string][]byte) { all = x }))
	if len(all) > 0 {
		t.Errorf("a missing bucket holds %q", all)
	}
	kv, err := Ensure(ctx, js, jetstream.KeyValueConfig{Bucket: "B"})
	natstest.Check(t, err)
	_, err = kv.PutString(ctx, "k", "1")
	natstest.Check(t, err)
	ctx, stop := context.WithCancel(ctx)
	told := make(chan string, 8)
	done := make(chan error, 1)
	go func() { done <- WatchAll(ctx, js, "B", func(x map[string][]byte) { told <- string(x["k"]) }) }()
	if got := natstest.Receive(t, told); got != "1" {
		t.Errorf("told %q", got)
	}
	natstest.Check(t, kv.Delete(ctx, "k"))
	if got := natstest.Receive(t, told); got != "" {
		t.Errorf("told %q after its deletion", got)
	}
	stop()
	if err := natstest.Receive(t, done); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
