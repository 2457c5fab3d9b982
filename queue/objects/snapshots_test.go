package objects

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/streams"
)

func snapshotOf(seq uint64) (Snapshot, []byte) {
	return Snapshot{Seq: seq, Hash: strings.Repeat("a", 64), SnapshotHash: strings.Repeat(string(rune('b'+seq%8)), 64)}, bytes.Repeat([]byte{byte(seq)}, 300<<10)
}

// silent is an object whose remaining content never arrives.
type silent struct{ asked, released chan struct{} }

func (s *silent) Read([]byte) (int, error) {
	close(s.asked)
	<-s.released
	return 0, io.ErrUnexpectedEOF
}

func (s *silent) Close() error { return nil }

// A stopping runner does not wait for data that a server never sends.
func TestAReadOfAnObjectEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	content := &silent{make(chan struct{}), make(chan struct{})}
	defer close(content.released)
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(endsWith(ctx, content))
		ended <- err
	}()
	natstest.Receive(t, content.asked)
	cancel()
	if err := natstest.Receive(t, ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSnapshotsAreStoredListedReadAndReplaced(t *testing.T) {
	js := newMain(t)
	if all, err := SnapshotsOf(js, "main").List(natstest.Within(t)); err != nil || len(all) != 0 {
		t.Errorf("without a bucket: %v %v", all, err)
	}
	for _, seq := range []uint64{100, 90, 2000} {
		s, content := snapshotOf(seq)
		natstest.Check(t, SnapshotsOf(js, "main").Store(natstest.Within(t), 1, s, bytes.NewReader(content)))
	}
	all, err := SnapshotsOf(js, "main").List(natstest.Within(t))
	if err != nil || len(all) != 3 || all[0].Seq != 2000 || all[2].Seq != 90 || all[1].Bytes != 300<<10 {
		t.Fatalf("%v %v", all, err)
	}
	// A killed store has left parts without an entry.
	_, err = js.Publish(natstest.Within(t), "$O."+queue.SnapshotsBucket("main")+".C.half", []byte("half"))
	natstest.Check(t, err)
	natstest.Check(t, SnapshotsOf(js, "main").RemoveBut(natstest.Within(t), all[1]))
	rest, err := SnapshotsOf(js, "main").List(natstest.Within(t))
	if err != nil || len(rest) != 1 || rest[0] != all[1] {
		t.Fatalf("%v %v", rest, err)
	}
	r, err := SnapshotsOf(js, "main").Read(natstest.Within(t), rest[0])
	natstest.Check(t, err)
	got, err := io.ReadAll(r)
	if _, want := snapshotOf(100); err != nil || !bytes.Equal(got, want) || r.Close() != nil {
		t.Errorf("read %d bytes: %v", len(got), err)
	}
	stream, err := js.Stream(natstest.Within(t), queue.ObjectsStream(queue.SnapshotsBucket("main")))
	natstest.Check(t, err)
	if bytes := stream.CachedInfo().State.Bytes; bytes > 302<<10 {
		t.Errorf("%d bytes are left", bytes)
	}
	if err := SnapshotsOf(js, "main").RemoveBut(natstest.Within(t), all[0]); err == nil {
		t.Error("one that is gone is kept in place of the one that is there")
	}
}

// A snapshot arrives in small pieces from a compressor, and may be large.
func TestALargeSnapshotIsStoredInFullParts(t *testing.T) {
	t.Parallel()
	js := newMain(t)
	const size = 40 << 20
	s, _ := snapshotOf(7)
	natstest.Check(t, SnapshotsOf(js, "main").Store(natstest.Within(t), 1, s, iotest.HalfReader(io.LimitReader(&pieces{}, size))))
	stream, err := js.Stream(natstest.Within(t), queue.ObjectsStream(queue.SnapshotsBucket("main")))
	natstest.Check(t, err)
	if parts := stream.CachedInfo().State.Msgs; parts != size>>17+1 {
		t.Errorf("%d messages", parts)
	}
	r, err := SnapshotsOf(js, "main").Read(natstest.Within(t), s)
	natstest.Check(t, err)
	if n, err := io.Copy(io.Discard, r); err != nil || n != size || r.Close() != nil {
		t.Errorf("read %d bytes: %v", n, err)
	}
}

// pieces returns a hundred bytes at a time.
type pieces struct{ n byte }

func (p *pieces) Read(into []byte) (int, error) {
	p.n++
	return copy(into, bytes.Repeat([]byte{p.n}, 100)), nil
}

func TestABucketThatWouldLoseSnapshotsIsRefused(t *testing.T) {
	js := newMain(t)
	_, err := js.CreateObjectStore(natstest.Within(t), jetstream.ObjectStoreConfig{Bucket: queue.SnapshotsBucket("main"), TTL: 24 * 3600e9})
	natstest.Check(t, err)
	s, content := snapshotOf(1)
	var refused *queue.StreamError
	if err := SnapshotsOf(js, "main").Store(natstest.Within(t), 1, s, bytes.NewReader(content)); !errors.As(err, &refused) || refused.Field != "max_age" {
		t.Errorf("storing: %v", err)
	}
	if err := (streams.Wanted{Account: "main", Replicas: 1, Embedded: true}).Check(natstest.Within(t), js); !errors.As(err, &refused) || refused.Stream != queue.ObjectsStream(queue.SnapshotsBucket("main")) {
		t.Errorf("doctor: %v", err)
	}
	if err := (streams.Wanted{Account: "main", Replicas: 1, Embedded: true}).Ensure(natstest.Within(t), js); !errors.As(err, &refused) {
		t.Errorf("start: %v", err)
	}
}

func TestAChangedSnapshotIsNotReadAsWhole(t *testing.T) {
	js := newMain(t)
	s, content := snapshotOf(7)
	natstest.Check(t, SnapshotsOf(js, "main").Store(natstest.Within(t), 1, s, bytes.NewReader(content)))
	stream, err := js.Stream(natstest.Within(t), queue.ObjectsStream(queue.SnapshotsBucket("main")))
	natstest.Check(t, err)
	first, err := stream.GetMsg(natstest.Within(t), stream.CachedInfo().State.FirstSeq)
	natstest.Check(t, err)
	natstest.Check(t, stream.DeleteMsg(natstest.Within(t), first.Sequence))
	_, err = js.PublishMsg(natstest.Within(t), &nats.Msg{Subject: first.Subject, Data: bytes.Repeat([]byte{9}, len(first.Data))})
	natstest.Check(t, err)
	r, err := SnapshotsOf(js, "main").Read(natstest.Within(t), s)
	natstest.Check(t, err)
	if _, err := io.ReadAll(r); err == nil {
		t.Error("it was read")
	}
}
