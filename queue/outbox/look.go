// What the outbox does after a refusal: it asks the stream's leader whose rows are
// there.

package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue/events"
)

const (
	// lookers is how many rows are read from the leader at once.
	lookers = 16
	// shortFor is for how long a stream has to be seen to be short: a leader may not have
	// applied yet what a reader of another replica has seen.
	shortFor = time.Second
	// shortSeen is how long ago a quorum may have been heard for a leader to say what the
	// stream lacks. No other leader is elected within 4 s of that.
	shortSeen = 3 * time.Second
)

// errUndecided says that a refusal is not explained yet: what it was about is in progress,
// or its leader has changed since.
var errUndecided = errors.New("the events stream refused rows and does not hold others: they may be in progress")

// look is what the outbox sees after the refusals of one batch.
type look struct {
	outbox *Outbox
	short  <-chan time.Time // gives when the stream was seen to be short for shortFor; nil: it is not
}

// find says how many of the first rows are on the stream as they are to be published, at
// least one. Its errors are a [FencedError], a [ShortStreamError], and those after which
// the rows are to be tried again.
func (l *look) find(ctx context.Context, rows []Event) (int, error) {
	account := l.outbox.account
	info, err := events.Of(l.outbox.js, account).Info(ctx)
	if err != nil {
		return 0, err
	}
	first, before := info.State.LastSeq+1, rows[0].Seq-1
	if info.State.LastSeq < before {
		return 0, l.isShort(info, before)
	}
	l.short = nil
	there := min(first-rows[0].Seq, uint64(len(rows)))
	if there == 0 {
		return 0, errUndecided
	}
	if rows[0].Seq < info.State.FirstSeq { // more was published after it, and it was archived
		return 0, &FencedError{Account: account, Seq: rows[0].Seq, OwnHash: rows[0].Hash}
	}
	return int(there), l.compare(ctx, rows[:there])
}

// isShort is a [ShortStreamError] once a leader that has its quorum has said so for long
// enough.
func (l *look) isShort(info *jetstream.StreamInfo, before uint64) error {
	if !heardOfQuorum(info.Cluster) {
		l.short = nil
		return errUndecided
	}
	if l.short == nil {
		l.short = time.After(shortFor)
	}
	select {
	case <-l.short:
		return &ShortStreamError{Account: l.outbox.account, StreamSeq: info.State.LastSeq, Seq: before}
	default:
		return errUndecided
	}
}

// heardOfQuorum reports whether a leader has heard of enough replicas lately to be the
// only one. A single server, which names no replicas, is.
func heardOfQuorum(cluster *jetstream.ClusterInfo) bool {
	if cluster == nil {
		return true
	}
	heard := 1
	for _, replica := range cluster.Replicas {
		if !replica.Offline && replica.Active < shortSeen {
			heard++
		}
	}
	return heard > (len(cluster.Replicas)+1)/2
}

// compare reads rows from the leader, and returns the error of the first that is not as
// it is to be published.
func (l *look) compare(ctx context.Context, events []Event) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make([]error, len(events))
	next := make(chan int)
	var readers sync.WaitGroup
	for range min(lookers, len(events)) {
		readers.Go(func() {
			for n := range next {
				failed[n] = l.compareRow(ctx, &events[n])
			}
		})
	}
	for n := range events {
		next <- n
	}
	close(next)
	readers.Wait()
	var later error
	for _, err := range failed {
		if _, fenced := errors.AsType[*FencedError](err); fenced {
			return err
		}
		if later == nil {
			later = err
		}
	}
	return later
}

func (l *look) compareRow(ctx context.Context, event *Event) error {
	account := l.outbox.account
	there, found, err := events.Of(l.outbox.js, account).RowAt(ctx, event.Seq)
	switch {
	case err != nil:
		return fmt.Errorf("compare row %d: %w", event.Seq, err)
	case !found: // the leader has changed since
		return errUndecided
	case there.Seq != event.Seq || there.Hash != event.Hash:
		return &FencedError{Account: account, Seq: event.Seq, StreamHash: there.Hash, OwnHash: event.Hash}
	}
	return nil
}
