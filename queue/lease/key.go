package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/bucket"
)

// mark is the prefix of a value that a runner wrote. The runner's name follows. If the runner
// gave the account back, nothing follows.
const mark = "perennial "

// record is the content of an account's key. The zero value is a missing key.
type record struct {
	revision uint64
	holder   string // name of a runner
	free     bool   // a runner gave the account back
	stranger string // what another client did to the key: "overwritten" or "deleted"
}

func (k record) by() string {
	if k.stranger != "" {
		return "a client that is no runner (the key was " + k.stranger + ")"
	}
	return k.holder
}

// read reads an account's key. ctx must have a deadline, because a bucket whose stream has
// no leader does not reply.
func read(ctx context.Context, kv jetstream.KeyValue, account string) (record, error) {
	entries, err := kv.History(ctx, account) // History shows a deletion; Get does not
	switch {
	case ctx.Err() != nil: // if ctx ends early, History returns no error and its last entry may be missing
		return record{}, ctx.Err()
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return record{}, nil
	case err != nil:
		return record{}, err
	}
	return keyOf(entries[len(entries)-1]), nil
}

func keyOf(entry jetstream.KeyValueEntry) record {
	key := record{revision: entry.Revision()}
	value, marked := strings.CutPrefix(string(entry.Value()), mark)
	switch {
	case entry.Operation() != jetstream.KeyValuePut:
		key.stranger = "deleted"
	case !marked:
		key.stranger = "overwritten"
	case value == "":
		key.free = true
	default:
		key.holder = value
	}
	return key
}

// write writes the key if it has not changed since the record was read. Otherwise it returns
// ErrKeyExists.
func write(ctx context.Context, kv jetstream.KeyValue, account, holder string, read record) (uint64, error) {
	return bucket.Update(ctx, kv, account, []byte(mark+holder), read.revision)
}

type contender struct {
	leases          *Leases
	account, holder string
	bucket          jetstream.KeyValue
	keys            *listener // nil if the contender does not wait
	ttl             time.Duration
	last            uint64          // revision of the last key of another runner
	recent          context.Context // ends a time to live after the last key of another runner; nil before the first
	forget          context.CancelFunc

	read   uint64          // revision of the key as take read it
	yields func() bool     // see Turn
	left   context.Context // ends when the account was left to another runner for long enough; nil if it is not left
	forgo  context.CancelFunc
}

// lookTime limits each request to the bucket while waiting for a lease. A bucket whose
// stream has no leader does not reply.
func lookTime(ttl time.Duration) time.Duration { return max(ttl/4, time.Second) }

// saw begins a new period, one time to live long, during which another runner may have the
// account.
func (c *contender) saw() {
	c.calm()
	c.recent, c.forget = context.WithTimeout(context.Background(), c.ttl)
}

func (c *contender) calm() {
	c.notFree()
	if c.forget != nil {
		c.forget()
	}
}

// notFree is called when the account is taken. This runner then no longer leaves the account to
// another runner.
func (c *contender) notFree() {
	if c.forgo != nil {
		c.forgo()
	}
	c.left, c.forgo = nil, nil
}

func (c *contender) try(ctx context.Context, ttl time.Duration) (*Lease, error) {
	if err := queue.ValidAccount(c.account); err != nil {
		return nil, err
	}
	if c.holder == "" || ttl < time.Second {
		return nil, fmt.Errorf("lease of account %s: needs a holder and at least one second, not %q and %s", c.account, c.holder, ttl)
	}
	look, cancel := context.WithTimeout(ctx, lookTime(ttl))
	defer cancel()
	var err error
	if c.bucket, c.ttl, err = c.leases.bucket(look, ttl); err != nil {
		return nil, err
	}
	// The timer starts before the key is written, so that this runner's lease expires
	// before the server's.
	expiry := time.NewTimer(safeTime(c.ttl))
	revision, err := c.take(ctx)
	if err != nil {
		expiry.Stop()
		return nil, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	lease := &Lease{log: c.leases.js.Log().WithField("account", c.account), bucket: c.bucket, account: c.account, holder: c.holder, ttl: c.ttl, revision: revision,
		stop: stop, done: make(chan struct{}), lost: make(chan struct{})}
	go lease.keep(run, expiry)
	return lease, nil
}

// take writes the key. If another runner may have the account, it returns a HeldError. If this
// runner has already written the key and the reply was lost, take writes it again, so that the
// key's age counts from now.
func (c *contender) take(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime(c.ttl))
	defer cancel()
	key, err := read(ctx, c.bucket, c.account)
	if err != nil {
		return 0, fmt.Errorf("lease of account %s: %w", c.account, err)
	}
	c.read = key.revision
	c.note(key)
	held := &HeldError{Account: c.account, Holder: key.by()}
	if key.holder != "" && key.holder != c.holder {
		return 0, held
	}
	if key.stranger != "" && c.recent.Err() == nil {
		return 0, held
	}
	if key.holder != c.holder && c.leaves() {
		held.Holder = "none, and is left to another runner"
		return 0, held
	}
	revision, err := write(ctx, c.bucket, c.account, c.holder, key)
	if errors.Is(err, jetstream.ErrKeyExists) {
		held.Holder = "another runner"
		return 0, held
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("NATS answers and stores nothing (is its disk full?): %w", err)
	}
	if err != nil {
		return 0, fmt.Errorf("lease of account %s: %w", c.account, err)
	}
	return revision, nil
}

// note handles a new key. After each new key of another runner, the contender must wait a time
// to live. The same applies when it first sees another client's change, because a runner may
// have written the key just before.
func (c *contender) note(key record) {
	if key.holder != "" && key.holder != c.holder {
		c.notFree()
	}
	others := key.holder != "" && key.holder != c.holder && key.revision != c.last
	if others {
		c.last = key.revision
	}
	if others || key.stranger != "" && c.recent == nil {
		c.saw()
	}
}

func (c *contender) leaves() bool {
	if c.yields == nil {
		return false
	}
	if c.left == nil {
		c.left, c.forgo = context.WithTimeout(context.Background(), yieldTime(c.ttl))
	}
	return c.left.Err() == nil && c.yields()
}

// yieldTime is how long a runner waits before it takes a free account that another runner should
// have. The sum of yieldTime and the time to live must stay well below the limit of a failover.
func yieldTime(ttl time.Duration) time.Duration { return ttl / 5 }

// lookAgain returns how long a waiting runner waits before it reads the key again, even if the
// watch reports no change. The wait is short after the key has expired. It is also short while
// this runner leaves the account to another runner.
func (c *contender) lookAgain() time.Duration {
	switch {
	case c.left != nil || c.recent != nil && c.recent.Err() != nil:
		return c.ttl / 20
	case c.recent == nil:
		return c.ttl / 4
	}
	return 6 * c.ttl
}

// awaitFree waits until the account may be free: its key was given back, or a time to live
// has passed without a new key. NATS does not report an expiry.
func (c *contender) awaitFree(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, c.lookAgain())
	defer cancel()
	for {
		for _, key := range c.leases.watch.take(c.keys) {
			c.note(key)
			if key.free && key.revision != c.read {
				return nil
			}
		}
		select {
		case <-c.runsOut():
			return ctx.Err()
		case <-limited.Done():
			return ctx.Err()
		case <-c.keys.ready:
		}
	}
}

// runsOut returns a channel that closes when the last key of another runner must have expired.
// The channel is nil if there is no such key, or if the key must already have expired.
func (c *contender) runsOut() <-chan struct{} {
	if c.recent == nil || c.recent.Err() != nil {
		return nil
	}
	return c.recent.Done()
}

// Check returns an error if the bucket of the leases does not exist. Each account's leader then
// loses its lease within seconds, and creates the bucket again. Check also returns nil if it
// cannot read the bucket, for example without the permission.
func Check(ctx context.Context, js *queue.JetStream) error {
	_, err := js.Look(ctx, queue.KeyValueStream(queue.LeaseBucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("bucket %s, which says who runs which account, is gone: find out who deleted it; a runner makes it again within a minute (`perennial doctor`)", queue.LeaseBucket)
	}
	return nil
}

// Holder returns the runner that has an account's lease. It returns "" if no runner has it, or
// if another client overwrote or deleted the account's key.
func Holder(ctx context.Context, js *queue.JetStream, account string) (string, error) {
	if err := queue.ValidAccount(account); err != nil {
		return "", err
	}
	bucket, err := js.KeyValue(ctx, queue.LeaseBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("bucket %s: %w", queue.LeaseBucket, err)
	}
	entry, err := bucket.Get(ctx, account)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("lease of account %s: %w", account, err)
	}
	return keyOf(entry).holder, nil
}
