package queue

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
)

func snapshotOf(seq uint64) (Snapshot, []byte) {
	return Snapshot{Seq: seq, Hash: strings.Repeat("a", 64), SnapshotHash: strings.Repeat(string(rune('b'+seq%8)), 64)}, bytes.Repeat([]byte{byte(seq)}, 300<<10)
}

// silent is an object of which the server has lost the rest.
type silent struct{ asked, released chan struct{} }

func (s *silent) Read([]byte) (int, error) {
	close(s.asked)
	<-s.released
	return 0, io.ErrUnexpectedEOF
}

func (s *silent) Close() error { return nil }

// TestAReadOfAnObjectEndsWithItsContext: a runner that stops does not wait for what a server
// never sends.
func TestAReadOfAnObjectEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	content := &silent{make(chan struct{}), make(chan struct{})}
	defer close(content.released)
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(endsWith(ctx, content))
		ended <- err
	}()
	receive(t, content.asked)
	cancel()
	if err := receive(t, ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSnapshotsAreStoredListedReadAndReplaced(t *testing.T) {
	q := newQueue(t)
	if all, err := SnapshotsOf(q.JetStream(), "main").List(within(t)); err != nil || len(all) != 0 {
		t.Errorf("without a bucket: %v %v", all, err)
	}
	for _, seq := range []uint64{100, 90, 2000} {
		s, content := snapshotOf(seq)
		check(t, SnapshotsOf(q.JetStream(), "main").Store(within(t), 1, s, bytes.NewReader(content)))
	}
	all, err := SnapshotsOf(q.JetStream(), "main").List(within(t))
	if err != nil || len(all) != 3 || all[0].Seq != 2000 || all[2].Seq != 90 || all[1].Bytes != 300<<10 {
		t.Fatalf("%v %v", all, err)
	}
	// A storing that was killed has left parts and no entry.
	_, err = q.js.Publish(within(t), "$O."+SnapshotsBucket("main")+".C.half", []byte("half"))
	check(t, err)
	check(t, SnapshotsOf(q.JetStream(), "main").RemoveBut(within(t), all[1]))
	rest, err := SnapshotsOf(q.JetStream(), "main").List(within(t))
	if err != nil || len(rest) != 1 || rest[0] != all[1] {
		t.Fatalf("%v %v", rest, err)
	}
	r, err := SnapshotsOf(q.JetStream(), "main").Read(within(t), rest[0])
	check(t, err)
	got, err := io.ReadAll(r)
	if _, want := snapshotOf(100); err != nil || !bytes.Equal(got, want) || r.Close() != nil {
		t.Errorf("read %d bytes: %v", len(got), err)
	}
	stream, err := q.js.Stream(within(t), ObjectsStream(SnapshotsBucket("main")))
	check(t, err)
	if bytes := stream.CachedInfo().State.Bytes; bytes > 302<<10 {
		t.Errorf("%d bytes are left", bytes)
	}
	if err := SnapshotsOf(q.JetStream(), "main").RemoveBut(within(t), all[0]); err == nil {
		t.Error("one that is gone is kept in place of the one that is there")
	}
}

// A snapshot comes in small pieces, of a compressor, and may be large.
func TestALargeSnapshotIsStoredInFullParts(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	const size = 40 << 20
	s, _ := snapshotOf(7)
	check(t, SnapshotsOf(q.JetStream(), "main").Store(within(t), 1, s, iotest.HalfReader(io.LimitReader(&pieces{}, size))))
	stream, err := q.js.Stream(within(t), ObjectsStream(SnapshotsBucket("main")))
	check(t, err)
	if parts := stream.CachedInfo().State.Msgs; parts != size>>17+1 {
		t.Errorf("%d messages", parts)
	}
	r, err := SnapshotsOf(q.JetStream(), "main").Read(within(t), s)
	check(t, err)
	if n, err := io.Copy(io.Discard, r); err != nil || n != size || r.Close() != nil {
		t.Errorf("read %d bytes: %v", n, err)
	}
}

// pieces gives a hundred bytes at a time.
type pieces struct{ n byte }

func (p *pieces) Read(into []byte) (int, error) {
	p.n++
	return copy(into, bytes.Repeat([]byte{p.n}, 100)), nil
}

func TestABucketThatWouldLoseSnapshotsIsRefused(t *testing.T) {
	q := newQueue(t)
	_, err := q.js.CreateObjectStore(within(t), jetstream.ObjectStoreConfig{Bucket: SnapshotsBucket("main"), TTL: 24 * 3600e9})
	check(t, err)
	s, content := snapshotOf(1)
	var refused *StreamError
	if err := SnapshotsOf(q.JetStream(), "main").Store(within(t), 1, s, bytes.NewReader(content)); !errors.As(err, &refused) || refused.Field != "max_age" {
		t.Errorf("storing: %v", err)
	}
	if err := (Wanted{Account: "main", Replicas: 1, Embedded: true}).Check(within(t), q.JetStream()); !errors.As(err, &refused) || refused.Stream != ObjectsStream(SnapshotsBucket("main")) {
		t.Errorf("doctor: %v", err)
	}
	if err := (Wanted{Account: "main", Replicas: 1, Embedded: true}).Ensure(within(t), q.JetStream()); !errors.As(err, &refused) {
		t.Errorf("start: %v", err)
	}
}

func TestAChangedSnapshotIsNotReadAsWhole(t *testing.T) {
	q := newQueue(t)
	s, content := snapshotOf(7)
	check(t, SnapshotsOf(q.JetStream(), "main").Store(within(t), 1, s, bytes.NewReader(content)))
	stream, err := q.js.Stream(within(t), ObjectsStream(SnapshotsBucket("main")))
	check(t, err)
	first, err := stream.GetMsg(within(t), stream.CachedInfo().State.FirstSeq)
	check(t, err)
	check(t, stream.DeleteMsg(within(t), first.Sequence))
	_, err = q.js.PublishMsg(within(t), &nats.Msg{Subject: first.Subject, Data: bytes.Repeat([]byte{9}, len(first.Data))})
	check(t, err)
	r, err := SnapshotsOf(q.JetStream(), "main").Read(within(t), s)
	check(t, err)
	if _, err := io.ReadAll(r); err == nil {
		t.Error("it was read")
	}
}
