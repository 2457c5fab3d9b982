// This file determines, after a refusal, which rows are in the stream. It asks the stream's
// leader.

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
	// lookers is how many rows are read from the leader concurrently.
	lookers = 16
	// shortFor is how long a stream must be too short before this is reported. A leader may not
	// yet have applied what another replica has already reported.
	shortFor = time.Second
	// shortSeen is how recently a leader must have heard from a quorum for its report of the
	// stream's end to count. For 4 s after that, no other leader is elected.
	shortSeen = 3 * time.Second
)

// errUndecided reports that a refusal is not explained yet: the refused rows may still be
// in progress, or the leader has changed.
var errUndecided = errors.New("the events stream refused rows and does not hold others: they may be in progress")

// look is the state of the checks that follow the refusals of one batch.
type look struct {
	outbox *Outbox
	short  <-chan time.Time // fires when the stream has been too short for shortFor; nil if it is not too short
}

// find returns how many of the rows, from the first, are in the stream as published; this is
// at least one if err is nil. If the error is neither a [FencedError] nor a
// [ShortStreamError], the rows must be retried.
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
	if rows[0].Seq < info.State.FirstSeq { // later rows were published, and this row was archived
		return 0, &FencedError{Account: account, Seq: rows[0].Seq, OwnHash: rows[0].Hash}
	}
	return int(there), l.compare(ctx, rows[:there])
}

// isShort returns a [ShortStreamError] after a leader with a quorum has reported a short
// stream for shortFor. Until then it returns errUndecided.
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

// heardOfQuorum reports whether a leader has recently heard from enough replicas to be the
// only leader. A single server, which lists no replicas, counts as one.
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

// compare compares the leader's rows with the rows to publish. It returns the error for the
// first row that differs.
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
	case !found: // the leader has changed
		return errUndecided
	case there.Seq != event.Seq || there.Hash != event.Hash:
		return &FencedError{Account: account, Seq: event.Seq, StreamHash: there.Hash, OwnHash: event.Hash}
	}
	return nil
}
