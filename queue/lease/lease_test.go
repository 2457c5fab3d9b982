package lease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
)

// longLease is a time to live that no test outlasts. A lease that is neither renewed nor
// expires does not depend on the machine's speed.
const longLease = 30 * time.Second

// acquireShort takes a short lease that is to expire or be renewed. On a busy machine a
// read of its bucket can take longer than its limit of a second.
func acquireShort(t testing.TB, js *queue.JetStream, holder string, ttl time.Duration) *Lease {
	t.Helper()
	ctx := natstest.Within(t)
	lease, err := New(js, 1).Acquire(ctx, "main", holder, ttl, Turn{})
	for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		lease, err = New(js, 1).Acquire(ctx, "main", holder, ttl, Turn{})
	}
	natstest.Check(t, err)
	return lease
}

func awaitLost(t testing.TB, lease *Lease) {
	t.Helper()
	select {
	case <-lease.Lost():
	case <-natstest.Within(t).Done():
		t.Fatal("the holder noticed nothing")
	}
}

// The error names the bucket until a runner recreates it.
func TestADeletedBucketOfLeasesIsNamed(t *testing.T) {
	t.Parallel()
	js := jstest.New(t)
	if err := Check(natstest.Within(t), js); err == nil || !strings.Contains(err.Error(), queue.LeaseBucket) {
		t.Errorf("none is there: %v", err)
	}
	lease, err := New(js, 1).TryAcquire(natstest.Within(t), "main", "a", time.Minute)
	natstest.Check(t, err)
	t.Cleanup(func() { _ = lease.Release(natstest.Within(t)) })
	natstest.Check(t, Check(natstest.Within(t), js))
	natstest.Check(t, js.DeleteKeyValue(natstest.Within(t), queue.LeaseBucket))
	if err := Check(natstest.Within(t), js); err == nil {
		t.Error("it is gone")
	}
}

func TestOnlyOneRunnerHoldsAnAccountAndTheNextFollows(t *testing.T) {
	t.Parallel()
	js := jstest.New(t)
	ctx := natstest.Within(t)
	first, err := New(js, 1).Acquire(ctx, "main", "one", longLease, Turn{})
	natstest.Check(t, err)
	var held *HeldError
	if _, err := New(js, 1).TryAcquire(ctx, "main", "two", longLease); !errors.As(err, &held) || held.Holder != "one" {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := New(js, 1).Acquire(short, "main", "two", longLease, Turn{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	next := make(chan *Lease, 1)
	go func() {
		lease, err := New(js, 1).Acquire(ctx, "main", "two", longLease, Turn{})
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	natstest.Check(t, first.Release(ctx))
	awaitLost(t, first)
	second := natstest.Receive(t, next)
	natstest.Check(t, second.Release(ctx))
}

func TestAccountOfARunnerThatDiedIsTakenOver(t *testing.T) {
	t.Parallel()
	js := jstest.New(t)
	dead := acquireShort(t, js, "one", time.Second)
	dead.stop() // stops renewing without a release
	natstest.Receive(t, dead.done)
	natstest.Check(t, acquireShort(t, js, "two", time.Second).Release(natstest.Within(t)))
}

func TestAHolderThatFindsAnotherRunnersKeyHasLost(t *testing.T) {
	t.Parallel()
	js := jstest.New(t)
	ctx := natstest.Within(t)
	for _, value := range []string{"two", ""} { // another runner holds it, or has held it since
		lease := acquireShort(t, js, "one", time.Second)
		_, err := lease.bucket.Put(ctx, "main", []byte(mark+value))
		natstest.Check(t, err)
		awaitLost(t, lease)
		natstest.Check(t, lease.Release(ctx))
	}
}

// If others may write the key, their writes neither take the lease from its holder nor
// admit another runner before it expires.
func TestAStrangersKeyTakesNoLease(t *testing.T) {
	for name, meddle := range strangers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keepsItsLease(t, meddle)
		})
	}
}

// strangers returns the ways in which a client that is no runner can write an account's
// key.
func strangers() map[string]func(context.Context, jetstream.KeyValue) error {
	return map[string]func(context.Context, jetstream.KeyValue) error{
		"overwritten": func(ctx context.Context, b jetstream.KeyValue) error {
			_, err := b.Put(ctx, "main", []byte("two"))
			return err
		},
		"emptied": func(ctx context.Context, b jetstream.KeyValue) error { _, err := b.Put(ctx, "main", nil); return err },
		"deleted": func(ctx context.Context, b jetstream.KeyValue) error { return b.Delete(ctx, "main") },
		"purged":  func(ctx context.Context, b jetstream.KeyValue) error { return b.Purge(ctx, "main") },
		"written all over": func(ctx context.Context, b jetstream.KeyValue) error {
			for n := range 200 {
				if _, err := b.Put(ctx, "main", []byte{byte(n)}); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// A runner that finds a key written or deleted by another client waits a full time to live,
// because the holder may not have renewed since.
func TestAStrangersKeyAdmitsNoNewcomer(t *testing.T) {
	const ttl = time.Minute // the holder renews after a third of it
	for name, meddle := range strangers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js, ctx := jstest.New(t), natstest.Within(t)
			lease, err := New(js, 1).Acquire(ctx, "main", "one", ttl, Turn{})
			natstest.Check(t, err)
			natstest.Check(t, meddle(ctx, lease.bucket))
			second, err := New(js, 1).TryAcquire(ctx, "main", "two", ttl)
			if _, held := errors.AsType[*HeldError](err); !held {
				t.Errorf("a newcomer got %v, %v", second, err)
			}
			natstest.Check(t, lease.Release(ctx))
		})
	}
}

// keepsItsLease changes the key over more than a time to live.
func keepsItsLease(t *testing.T, meddle func(context.Context, jetstream.KeyValue) error) {
	t.Helper()
	const ttl = 4 * time.Second
	js, ctx := jstest.New(t), natstest.Within(t)
	lease, err := New(js, 1).Acquire(ctx, "main", "one", ttl, Turn{})
	natstest.Check(t, err)
	next := make(chan *Lease, 1)
	go func() {
		second, err := New(js, 1).Acquire(ctx, "main", "two", ttl, Turn{})
		if err != nil {
			t.Error(err)
		}
		next <- second
	}()
	for range 3 {
		awaitRenewal(t, lease)
		natstest.Check(t, meddle(ctx, lease.bucket))
	}
	awaitRenewal(t, lease)
	select {
	case <-lease.Lost():
		t.Error("the lease was lost to a stranger")
	case <-next:
		t.Fatal("two runners hold it")
	default:
	}
	natstest.Check(t, lease.Release(ctx))
	natstest.Check(t, natstest.Receive(t, next).Release(ctx))
}

// awaitRenewal waits until the holder has written its key again.
func awaitRenewal(t *testing.T, lease *Lease) {
	t.Helper()
	watch, err := lease.bucket.Watch(natstest.Within(t), lease.account, jetstream.UpdatesOnly())
	natstest.Check(t, err)
	defer func() { natstest.Check(t, watch.Stop()) }()
	for ctx := natstest.Within(t); ; {
		select {
		case e := <-watch.Updates():
			if e != nil && keyOf(e).holder == lease.holder {
				return
			}
		case <-lease.Lost():
			return
		case <-ctx.Done():
			t.Fatal("the lease was not renewed")
		}
	}
}

// In a process that was suspended, both timers have fired. It must not renew its expired lease.
func TestALeaseThatIsOverIsNotRenewed(t *testing.T) {
	for range 100 { // select chooses among the ready channels at random
		expiry, renew := make(chan time.Time, 1), make(chan time.Time, 1)
		expiry <- time.Time{}
		renew <- time.Time{}
		if awaitRenewalTime(t.Context(), expiry, renew) != expired {
			t.Fatal("it is renewed")
		}
	}
	renew := make(chan time.Time, 1)
	renew <- time.Time{}
	if awaitRenewalTime(t.Context(), nil, renew) != due {
		t.Error("it is never renewed")
	}
}

// A key that no runner has written for a time to live blocks no runner.
func TestAStrangersKeyKeepsNoRunnerOut(t *testing.T) {
	js := jstest.New(t)
	ctx := natstest.Within(t)
	bucket, _, err := New(js, 1).bucket(ctx, time.Minute)
	natstest.Check(t, err)
	for _, meddle := range []func() error{
		func() error { _, err := bucket.Put(ctx, "main", []byte("mine")); return err },
		func() error { return bucket.Delete(ctx, "main") },
	} {
		natstest.Check(t, meddle())
		var held *HeldError
		if _, err := New(js, 1).TryAcquire(ctx, "main", "one", time.Minute); !errors.As(err, &held) || !strings.Contains(held.Error(), "no runner") {
			t.Error(err)
		}
		c := &contender{leases: New(js, 1), account: "main", holder: "one"}
		if _, err := c.try(ctx, time.Minute); !errors.As(err, &held) {
			t.Error(err)
		}
		c.calm() // the minute has passed
		lease, err := c.try(ctx, time.Minute)
		natstest.Check(t, err)
		natstest.Check(t, lease.Release(ctx))
	}
}

func TestHolderCutOffFromTheServerGivesUpInTime(t *testing.T) {
	t.Parallel()
	server := natstest.Serve(t, t.TempDir())
	js := jstest.Connect(t, server.URL())
	lease := acquireShort(t, js, "one", time.Second)
	server.Shutdown()
	awaitLost(t, lease)
	natstest.Check(t, lease.Release(natstest.Within(t)))
}

// The server stored the renewal, but its reply was lost.
func TestAHolderKnowsItsOwnWriteWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	js := jstest.New(t)
	ctx := natstest.Within(t)
	lease, err := New(js, 1).Acquire(ctx, "main", "me-1", 6*time.Second, Turn{})
	natstest.Check(t, err)
	entry, err := lease.bucket.Get(ctx, "main")
	natstest.Check(t, err)
	lost, err := lease.bucket.Update(ctx, "main", []byte(mark+"me-1"), entry.Revision())
	natstest.Check(t, err)
	watch, err := lease.bucket.Watch(ctx, "main")
	natstest.Check(t, err)
	defer func() { natstest.Check(t, watch.Stop()) }()
	for renewed := false; !renewed; {
		select {
		case e := <-watch.Updates():
			renewed = e != nil && e.Revision() > lost
		case <-lease.Lost():
			t.Fatal("the lease was lost to its own holder")
		}
	}
	natstest.Check(t, lease.Release(ctx))
	if key, err := read(ctx, lease.bucket, "main"); err != nil || !key.free {
		t.Errorf("it was not given back: %+v %v", key, err)
	}
}

// The answer to the first write of the key may be lost as well.
func TestALeaseTakenWithoutAnAnswerIsOnesOwn(t *testing.T) {
	t.Parallel()
	js := jstest.New(t)
	ctx := natstest.Within(t)
	bucket, _, err := New(js, 1).bucket(ctx, longLease)
	natstest.Check(t, err)
	first, err := bucket.Create(ctx, "main", []byte(mark+"me-1"))
	natstest.Check(t, err)
	var held *HeldError
	if _, err := New(js, 1).TryAcquire(ctx, "main", "me-2", longLease); !errors.As(err, &held) {
		t.Fatal(err)
	}
	lease, err := New(js, 1).TryAcquire(ctx, "main", "me-1", longLease)
	natstest.Check(t, err)
	if lease.revision <= first {
		t.Error("the key was not written again: its age counts from the lost answer")
	}
	natstest.Check(t, lease.Release(ctx))
}

// A process suspended for longer than its lease does not know that it lost it; the server
// does.
func TestAHolderThatWasReplacedSeesItWhenItAsks(t *testing.T) {
	t.Parallel()
	js := jstest.New(t)
	ctx := natstest.Within(t)
	stopped, err := New(js, 1).Acquire(ctx, "main", "one", longLease, Turn{})
	natstest.Check(t, err)
	natstest.Check(t, stopped.Confirm(ctx))
	stopped.stop()
	natstest.Receive(t, stopped.done)
	natstest.Check(t, stopped.giveBack(ctx)) // as if its time had passed: it considers itself the holder
	next, err := New(js, 1).Acquire(ctx, "main", "two", longLease, Turn{})
	natstest.Check(t, err)
	if err := stopped.Confirm(ctx); err == nil {
		t.Error("it takes the account for its own")
	}
	natstest.Check(t, next.Confirm(ctx))
	natstest.Check(t, next.Release(ctx))
	if err := next.Confirm(ctx); err == nil {
		t.Error("it takes the account for its own although it gave it back")
	}
}

// silentBucket is a bucket whose stream has lost its leader. Its entries never arrive, and
// the library takes the end of its context for the last entry.
type silentBucket struct{ jetstream.KeyValue }

func (silentBucket) History(ctx context.Context, _ string, _ ...jetstream.WatchOpt) ([]jetstream.KeyValueEntry, error) {
	<-ctx.Done()
	return nil, jetstream.ErrKeyNotFound
}

// Reading a bucket that does not answer ends in time, with an error and not as a missing
// key.
func TestALookAtABucketThatDoesNotAnswerIsAnError(t *testing.T) {
	t.Parallel()
	js := jstest.New(t)
	ctx := natstest.Within(t)
	bucket, ttl, err := New(js, 1).bucket(ctx, 2*time.Second)
	natstest.Check(t, err)
	c := &contender{leases: New(js, 1), account: "main", holder: "one", bucket: silentBucket{bucket}, ttl: ttl}
	if revision, err := c.take(ctx); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("%d %v", revision, err)
	}
	for ttl, most := range map[time.Duration]time.Duration{time.Second: time.Second, 20 * time.Second: 5 * time.Second} {
		if lookTime(ttl) != most {
			t.Errorf("%s of %s", lookTime(ttl), ttl)
		}
	}
}

// If the server does not reply, opening the bucket takes at most a part of the time to live.
func TestALeaseIsNotWaitedForAtAServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	server := natstest.Serve(t, t.TempDir())
	proxy := natstest.StartMute(t, server.URL())
	js := jstest.Connect(t, proxy.URL)
	proxy.Silent.Store(true)
	ctx, cancel := context.WithTimeout(natstest.Within(t), 4*time.Second) // the library's own limit is 5 s
	defer cancel()
	if _, err := New(js, 1).Acquire(ctx, "main", "one", time.Second, Turn{}); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Error(err, ctx.Err())
	}
}
