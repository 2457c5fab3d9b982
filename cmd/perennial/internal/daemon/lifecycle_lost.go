// Recovery of an external events stream that has lost acknowledged rows, for example after a
// power cut of all servers. The runner with the longest ledger publishes the rows again.

package daemon

import (
	"context"
	"fmt"
	"time"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/ledger/sleep"
	"perennial/queue"
)

// mayHaveLost is the time after a reconnect in which the runner checks whether the events
// stream has lost rows. It also limits the wait for other runners' heartbeats.
const mayHaveLost = time.Minute

// yieldToLongest returns nil if this runner may continue from the end of its ledger. It
// returns an error if the events stream has lost rows and another live runner has more of
// these rows. A history continued from the shorter ledger would lack requests that the other
// runner sent. Only the runner with the lease calls yieldToLongest, and its ledger has every
// row of the stream.
func (a *lifecycle) yieldToLongest(ctx context.Context) error {
	last, found, err := a.events().LastRow(ctx)
	if err != nil {
		return err
	}
	head, _, err := a.Ledger().Head(ctx)
	lost, reconnected := uint64(head) > last.StreamSeq, a.host.reconnected()
	heard := a.host.peers.HeardSince(reconnected, time.Now())
	known := reconnected.IsZero() || !heard.IsZero() && time.Since(heard) > mayHaveLost
	if err != nil || a.refills() || !lost && known {
		return err
	}
	if lost && found { // an empty stream is not a loss: the account moves to this server
		a.log.Warnf("the events stream ends with row %d and this ledger with row %d: the stream has lost rows that it had acknowledged, as in a power cut of its servers. "+
			"They are published again from the longest ledger. Commands that were acknowledged just before may be lost too: their publishers have to send them again, under their ids", last.StreamSeq, head)
	}
	a.setState("NATS was away: waiting for the other runners to say how many rows they have")
	if err := a.awaitPeers(ctx); err != nil {
		return err
	}
	name, row := a.host.peers.Longest(a.Name, a.host.name.Get(), time.Now())
	if last, _, err = a.events().LastRow(ctx); err != nil || row <= max(head, int64(last.StreamSeq)) {
		return err
	}
	a.shorter = true
	return fmt.Errorf("the events stream ends with row %d, this ledger with row %d and that of runner %s with row %d: the stream has lost rows, and that runner has to publish them again. Where it cannot, stop it and keep its ledger", last.StreamSeq, head, name, row)
}

// awaitPeers returns when this runner has heard every live runner, at the latest after
// mayHaveLost. As proof, this runner's own heartbeats must come back through NATS for as
// long as a live runner may be silent. Servers that have just started may accept connections
// before they store messages.
func (a *lifecycle) awaitPeers(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < mayHaveLost; {
		heard := a.host.peers.HeardSince(a.host.reconnected(), time.Now())
		if !heard.IsZero() && time.Since(heard) >= cluster.LateAfter {
			return nil
		}
		if err := sleep.For(ctx, announceDelay); err != nil {
			return err
		}
	}
	a.log.Warnf("bucket %s does not carry what runners say of themselves: the account continues without knowing how many rows the others have", queue.NodesBucket)
	return nil
}

// awaitLongerLedger keeps a runner that yielded to a longer ledger from taking the lease
// again. It returns when the stream has rows that this ledger lacks, or when no other live
// runner has a longer ledger.
func (a *lifecycle) awaitLongerLedger(ctx context.Context) error {
	for a.shorter {
		last, _, err := a.events().LastRow(ctx)
		if err == nil { // after an error, the loop reads the stream again
			head, _, err := a.Ledger().Head(ctx)
			if err != nil {
				return err
			}
			_, row := a.host.peers.Longest(a.Name, a.host.name.Get(), time.Now())
			a.shorter = uint64(head) >= last.StreamSeq && row > head
		}
		if err := sleep.For(ctx, rewatchDelay); err != nil {
			return err
		}
	}
	return nil
}
