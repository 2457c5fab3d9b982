package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// LeaseBucket is the key-value bucket in which accounts are held.
const LeaseBucket = "PERENNIAL_LEASES"

// Lease is the right to run an account, as long as [Lease.Lost] is open. It
// is renewed in the background every third of its time to live.
type Lease struct {
	queue   *Queue
	bucket  jetstream.KeyValue
	account string
	holder  string
	ttl     time.Duration

	revision uint64 // of the key; owned by keep until done is closed
	stop     context.CancelFunc
	done     chan struct{}
	lost     chan struct{}
	once     sync.Once
}

// AcquireLease waits until the account is free and takes it. holder names this
// process for people and must be unique among runners; ttl, at least a second,
// is how long a holder that died blocks the others. The bucket's own time to
// live, set when it was made, wins. Any other error than ctx's is one of
// NATS, such as an outage, or of a holder or bucket that cannot be: the caller
// tries again.
func (q *Queue) AcquireLease(ctx context.Context, account, holder string, ttl time.Duration) (*Lease, error) {
	for {
		lease, err := q.TryAcquireLease(ctx, account, holder, ttl)
		if err == nil {
			return lease, nil
		}
		var held *LeaseHeldError
		if !errors.As(err, &held) {
			return nil, err
		}
		if err := q.awaitFree(ctx, account, ttl); err != nil {
			return nil, fmt.Errorf("%w (while %w)", err, held)
		}
	}
}

// TryAcquireLease takes the account if it is free, and else returns a
// [LeaseHeldError] at once.
func (q *Queue) TryAcquireLease(ctx context.Context, account, holder string, ttl time.Duration) (*Lease, error) {
	if err := ValidAccount(account); err != nil {
		return nil, err
	}
	if holder == "" || ttl < time.Second {
		return nil, fmt.Errorf("lease of account %s: needs a holder and at least one second, not %q and %s", account, holder, ttl)
	}
	bucket, ttl, err := q.leaseBucket(ctx, ttl)
	if err != nil {
		return nil, err
	}
	// Begun before the key is written: this clock must not run behind the
	// server's.
	expiry := time.NewTimer(safeTime(ttl))
	revision, err := takeKey(ctx, bucket, account, holder)
	if err != nil {
		expiry.Stop()
		return nil, leaseError(ctx, bucket, account, err)
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	lease := &Lease{queue: q, bucket: bucket, account: account, holder: holder, ttl: ttl, revision: revision,
		stop: stop, done: make(chan struct{}), lost: make(chan struct{})}
	go lease.keep(run, expiry)
	return lease, nil
}

// takeKey makes the account's key. One that this holder has made already, and whose
// answer was lost, is written again: its age counts from now.
func takeKey(ctx context.Context, bucket jetstream.KeyValue, account, holder string) (uint64, error) {
	revision, err := bucket.Create(ctx, account, []byte(holder))
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return revision, err
	}
	own, err := ownRevision(ctx, bucket, account, holder)
	if err != nil {
		return 0, err
	}
	revision, err = bucket.Update(ctx, account, []byte(holder), own)
	return revision, wrongRevision(err)
}

// ownRevision is the revision of the account's key if this holder wrote it: a
// holder's name is unique, so such a key is its own write whose answer was lost.
// The error is ErrKeyExists when another wrote it, or deleted it.
func ownRevision(ctx context.Context, bucket jetstream.KeyValue, account, holder string) (uint64, error) {
	entry, err := bucket.Get(ctx, account)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), err == nil && string(entry.Value()) != holder:
		return 0, jetstream.ErrKeyExists
	case err != nil: // whose it is, is not known
		return 0, err
	}
	return entry.Revision(), nil
}

// leaseError finds out who holds the key that could not be made.
func leaseError(ctx context.Context, bucket jetstream.KeyValue, account string, err error) error {
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return fmt.Errorf("lease of account %s: %w", account, err)
	}
	held := &LeaseHeldError{Account: account, Holder: "another runner"}
	if entry, err := bucket.Get(ctx, account); err == nil {
		held.Holder = string(entry.Value())
	}
	return held
}

// leaseBucket opens the bucket, or makes it; its time to live is returned.
func (q *Queue) leaseBucket(ctx context.Context, ttl time.Duration) (jetstream.KeyValue, time.Duration, error) {
	bucket, err := q.js.KeyValue(ctx, LeaseBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		bucket, err = q.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: LeaseBucket, Description: "Who runs which account of Perennial",
			TTL: ttl, History: 1, Storage: jetstream.FileStorage, Replicas: q.leaseReplicas,
		})
		if errors.Is(err, jetstream.ErrBucketExists) {
			bucket, err = q.js.KeyValue(ctx, LeaseBucket)
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("bucket %s: %w", LeaseBucket, err)
	}
	status, err := bucket.Status(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("bucket %s: %w", LeaseBucket, err)
	}
	if status.TTL() < time.Second {
		return nil, 0, &StreamError{Stream: "KV_" + LeaseBucket, Field: "max_age", Have: status.TTL().String(), Want: "at least 1s"}
	}
	return bucket, status.TTL(), nil
}

// safeTime is after how long without a renewal the holder must consider the
// account lost: before the server gives it to another runner.
func safeTime(ttl time.Duration) time.Duration { return ttl - ttl/6 }

// Lost is closed as soon as the lease is not surely held any more: another client
// deleted or took it, or it could not be renewed in time. It is closed by
// Release too.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Confirm asks the server whether the account is still this holder's. It waits no
// longer than a part of the lease's time, so that the answer is not an old one.
func (l *Lease) Confirm(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, l.ttl/4)
	defer cancel()
	_, err := ownRevision(limited, l.bucket, l.account, l.holder)
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

// TTL is for how long a holder that died blocks the account.
func (l *Lease) TTL() time.Duration { return l.ttl }

// Release gives the account back, so that another runner can have it at once.
// A lease lost before is left to its new holder.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	<-l.done
	held := true
	select {
	case <-l.lost:
		held = false
	default:
	}
	l.lose()
	if !held {
		return nil
	}
	err := wrongRevision(l.bucket.Delete(ctx, l.account, jetstream.LastRevision(l.revision)))
	if errors.Is(err, jetstream.ErrKeyExists) { // a renewal that was cut off may have been stored
		var own uint64
		if own, err = ownRevision(ctx, l.bucket, l.account, l.holder); err == nil {
			err = l.bucket.Delete(ctx, l.account, jetstream.LastRevision(own))
		}
	}
	if err != nil {
		return fmt.Errorf("release account %s: %w", l.account, err)
	}
	return nil
}

func (l *Lease) lose() { l.once.Do(func() { close(l.lost) }) }

// keep renews until stopped or lost.
func (l *Lease) keep(ctx context.Context, expiry *time.Timer) {
	defer close(l.done)
	defer func() { expiry.Stop() }()
	renew := time.NewTicker(l.ttl / 3)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-expiry.C:
			l.lose()
			l.queue.log.WithField("account", l.account).Error("the lease could not be renewed in time")
			return
		case <-renew.C:
		}
		next := time.NewTimer(safeTime(l.ttl))
		err := l.renew(ctx)
		if err == nil {
			expiry.Stop()
			expiry = next
			continue
		}
		next.Stop()
		if errors.Is(err, jetstream.ErrKeyExists) {
			l.lose()
			l.queue.log.WithField("account", l.account).Error("the lease was taken away")
			return
		}
	}
}

// renew writes the key again if no other holder has. Its error is ErrKeyExists
// when one has, or the key was deleted. A write of its own whose answer was lost
// is neither: its revision is taken over and the key is written once more, so that
// its age counts from this renewal and not from that one.
func (l *Lease) renew(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, l.ttl/4)
	defer cancel()
	err := l.write(limited)
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return err
	}
	own, err := ownRevision(limited, l.bucket, l.account, l.holder)
	if err != nil {
		return err
	}
	l.revision = own
	return l.write(limited)
}

func (l *Lease) write(ctx context.Context) error {
	revision, err := l.bucket.Update(ctx, l.account, []byte(l.holder), l.revision)
	if err == nil {
		l.revision = revision
	}
	return wrongRevision(err)
}

// wrongRevision maps the server's refusal of a compare-and-set.
func wrongRevision(err error) error {
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return fmt.Errorf("%w: %w", jetstream.ErrKeyExists, err)
	}
	return err
}

// awaitFree returns when the account may be free: its key was deleted, or a
// quarter of the time to live went by, for an expiry is not announced.
func (q *Queue) awaitFree(ctx context.Context, account string, ttl time.Duration) error {
	bucket, ttl, err := q.leaseBucket(ctx, ttl)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, ttl/4)
	defer cancel()
	watcher, err := bucket.Watch(limited, account, jetstream.UpdatesOnly())
	if err != nil {
		return pause(ctx, ttl/4)
	}
	defer func() { _ = watcher.Stop() }()
	for {
		select {
		case <-limited.Done():
			return ctx.Err()
		case entry, ok := <-watcher.Updates():
			if !ok {
				return pause(limited, ttl/4)
			}
			if entry != nil && entry.Operation() != jetstream.KeyValuePut {
				return nil
			}
		}
	}
}
