package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/sirupsen/logrus"

	"perennial/queue"
	"perennial/queue/bucket"
)

// Lease is the right to run an account until [Lease.Lost] is closed. A background task renews
// the lease every third of the lease's time to live.
type Lease struct {
	log     *logrus.Entry // has the account as a field
	bucket  jetstream.KeyValue
	account string
	holder  string
	ttl     time.Duration

	revision uint64 // revision of the key; only keep uses it until done is closed
	stop     context.CancelFunc
	done     chan struct{}
	lost     chan struct{}
	once     sync.Once
}

// Leases has the leases of all accounts on a server, for one process. Its waiting runners
// share one watch of the bucket.
type Leases struct {
	js       *queue.JetStream
	replicas int // number of copies of a bucket that it creates
	watch    watch
}

// New returns the leases on a server.
func New(js *queue.JetStream, replicas int) *Leases {
	return &Leases{js: js, replicas: max(replicas, 1), watch: watch{js: js}}
}

// Turn says how a runner waits for an account's lease. With the zero value, no other runner
// goes first.
type Turn struct {
	// Yields reports whether another runner should have the free account. This runner then
	// waits for up to a fifth of the lease's time to live before it takes the account. If
	// Yields is nil, the account is not left to others.
	Yields func() bool
	// Waits is called after each attempt that finds the account unavailable. It may be nil.
	Waits func()
}

// Acquire waits until the account is free and takes it. holder is a readable name of this
// process and must be unique among runners. ttl is how long a dead holder blocks the others. It
// must be at least a second. If the bucket already exists, the bucket's time to live applies
// instead. Acquire returns ctx's error, a NATS error, or an error about an invalid argument or
// bucket. After a NATS error the caller may try again.
func (l *Leases) Acquire(ctx context.Context, account, holder string, ttl time.Duration, turn Turn) (*Lease, error) {
	c := &contender{leases: l, account: account, holder: holder, yields: turn.Yields, keys: l.watch.listen(account)}
	defer l.watch.end(c.keys)
	defer c.calm()
	for {
		lease, err := c.try(ctx, ttl)
		if err == nil {
			return lease, nil
		}
		held, ok := errors.AsType[*HeldError](err)
		if !ok {
			return nil, err
		}
		if turn.Waits != nil {
			turn.Waits()
		}
		if err := c.awaitFree(ctx); err != nil {
			return nil, fmt.Errorf("%w (while %w)", err, held)
		}
	}
}

// TryAcquire takes the account if it is free. Otherwise it returns a [HeldError] without
// waiting.
func (l *Leases) TryAcquire(ctx context.Context, account, holder string, ttl time.Duration) (*Lease, error) {
	c := &contender{leases: l, account: account, holder: holder}
	defer c.calm()
	return c.try(ctx, ttl)
}

// Heard returns the runner that has an account's lease, if this process has seen the lease
// within the last ten seconds. Otherwise it returns "". It sends no request to the server. A
// process sees leases only while it waits for a lease.
func (l *Leases) Heard(account string) string { return l.watch.holder(account) }

func (l *Leases) bucket(ctx context.Context, ttl time.Duration) (jetstream.KeyValue, time.Duration, error) {
	kv, err := bucket.Ensure(ctx, l.js, jetstream.KeyValueConfig{
		Bucket: queue.LeaseBucket, Description: "Who runs which account of Perennial",
		TTL: ttl, History: 1, Storage: jetstream.FileStorage, Replicas: l.replicas,
	})
	if err != nil {
		return nil, 0, fmt.Errorf("bucket %s: %w", queue.LeaseBucket, err)
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("bucket %s: %w", queue.LeaseBucket, err)
	}
	if status.TTL() < time.Second {
		return nil, 0, &queue.StreamError{Stream: queue.KeyValueStream(queue.LeaseBucket), Field: "max_age", Have: status.TTL().String(), Want: "at least 1s"}
	}
	return kv, status.TTL(), nil
}

// HeldError reports that another runner has, or may have, the account. Holder is that
// runner's name, or a description.
type HeldError struct {
	Account string
	Holder  string
}

// Error says which runner has the account.
func (e *HeldError) Error() string {
	return fmt.Sprintf("account %s is held by %s", e.Account, e.Holder)
}

// safeTime is how long after its last renewal the holder must consider the account lost. It
// is shorter than the time to live, after which another runner can take the account.
func safeTime(ttl time.Duration) time.Duration { return ttl - ttl/6 }

// Lost returns a channel that is closed as soon as the lease may be lost: another runner
// took it, or it could not be renewed in time. Release closes it too.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Confirm returns an error unless the server says that this holder still has the account. It
// waits for at most a quarter of the lease's time to live, so that the reply is recent.
func (l *Lease) Confirm(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, l.ttl/4)
	defer cancel()
	key, err := read(limited, l.bucket, l.account)
	if err == nil && key.holder != l.holder {
		err = jetstream.ErrKeyExists
	}
	select {
	case <-l.lost:
		err = errors.Join(errors.New("it was lost"), err)
	default:
	}
	if err = errors.Join(err, limited.Err()); err != nil {
		return fmt.Errorf("lease of account %s: %w", l.account, err)
	}
	return nil
}

// Release gives the account back, so that another runner can take it immediately. It does
// nothing if the lease was lost. ctx must have a deadline.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	<-l.done
	select {
	case <-l.lost:
		return nil
	default:
	}
	l.lose()
	if err := l.giveBack(ctx); err != nil {
		return fmt.Errorf("release account %s: %w", l.account, err)
	}
	return nil
}

func (l *Lease) lose() { l.once.Do(func() { close(l.lost) }) }

func (l *Lease) keep(ctx context.Context, expiry *time.Timer) {
	defer close(l.done)
	defer func() { expiry.Stop() }()
	renew := time.NewTicker(l.ttl / 3)
	defer renew.Stop()
	var failed error // error of the last attempt
	for {
		switch awaitRenewalTime(ctx, expiry.C, renew.C) {
		case stopped:
			return
		case expired:
			l.lose()
			l.log.WithError(failed).Error("the lease could not be renewed in time")
			return
		case due:
		}
		next := time.NewTimer(safeTime(l.ttl))
		err := l.renew(ctx)
		if err == nil {
			expiry.Stop()
			expiry = next
			continue
		}
		next.Stop()
		failed = err
		if errors.Is(err, jetstream.ErrKeyExists) {
			l.lose()
			l.log.Error("the lease was taken away")
			return
		}
	}
}

// Events that a holder waits for.
const (
	due     = iota // renew the lease
	expired        // the last renewal is too old
	stopped
)

// awaitRenewalTime waits until ctx ends, the lease expires, or the next renewal is due. If both
// timers have fired, for example after the process was stopped for a while, the lease has
// expired. Another runner may have had the account in the meantime, even if the key is free
// again.
func awaitRenewalTime(ctx context.Context, expiry, renew <-chan time.Time) int {
	select {
	case <-ctx.Done():
		return stopped
	case <-expiry:
		return expired
	case <-renew:
	}
	select {
	case <-expiry:
		return expired
	default:
		return due
	}
}

// renew writes the key again. It returns ErrKeyExists if another runner has the key, or has had
// the key since the last renewal. If the reply to its own write was lost, it repeats the write,
// so that the key's age counts from this renewal. It overwrites a value that no runner wrote.
func (l *Lease) renew(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, l.ttl/4)
	defer cancel()
	err := l.write(limited, record{revision: l.revision})
	for tries := 0; errors.Is(err, jetstream.ErrKeyExists) && tries < renewTries; tries++ {
		key, readErr := read(limited, l.bucket, l.account)
		if readErr != nil {
			return readErr
		}
		if key.free || key.holder != "" && key.holder != l.holder {
			return err
		}
		if key.stranger != "" {
			l.log.Errorf("the account's lease was %s by a client that is no runner, and is taken again: "+
				"the NATS server lets others write what is Perennial's (docs/operations.md, \"More than one machine\")", key.stranger)
		}
		err = l.write(limited, key)
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		return errKeyContended
	}
	return err
}

// errKeyContended is the error of one renewal. The lease continues, because the next renewal may
// succeed before the lease expires.
var errKeyContended = errors.New("the key of the lease changes faster than it can be written")

const renewTries = 5

func (l *Lease) write(ctx context.Context, read record) error {
	revision, err := write(ctx, l.bucket, l.account, l.holder, read)
	if err == nil {
		l.revision = revision
	}
	return err
}

// giveBack writes that the account is free, unless another runner has the key.
func (l *Lease) giveBack(ctx context.Context) error {
	_, err := write(ctx, l.bucket, l.account, "", record{revision: l.revision})
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return err
	}
	key, err := read(ctx, l.bucket, l.account) // a renewal that was interrupted may have been stored
	if err != nil || key.free || key.holder != "" && key.holder != l.holder {
		return err
	}
	_, err = write(ctx, l.bucket, l.account, "", key)
	return err
}
