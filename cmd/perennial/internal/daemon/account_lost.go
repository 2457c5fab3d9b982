// What an account does on an external NATS whose events stream has lost rows that it had
// acknowledged, as after a power cut of all its servers: the runner whose ledger is the
// longest publishes them again.

package daemon

import (
	"context"
	"fmt"
	"time"

	"perennial/ledger/sleep"
)

// mayHaveLost is how long behind a new connection the events stream may turn out to have
// lost rows.
const mayHaveLost = time.Minute

// leaveToLongest returns nil where this runner may go on from the end of its ledger, and
// an error where the events stream has lost rows and another living runner has more of
// them: from a shorter ledger the history would lack what the other one sent. Only the
// holder of the lease calls it, with a ledger that has all that is on the stream.
func (a *account) leaveToLongest(ctx context.Context) error {
	last, found, err := a.host.Queue.LastRow(ctx, a.Name)
	if err != nil {
		return err
	}
	head, _, err := a.Ledger().Head(ctx)
	lost, reconnected := uint64(head) > last.StreamSeq, a.host.reconnected()
	if err != nil || a.refills() || !lost && time.Since(reconnected) > mayHaveLost {
		return err
	}
	if lost && found { // else the account moves to this server
		a.log.Warnf("the events stream ends with row %d and this ledger with row %d: the stream has lost rows that it had acknowledged, as in a power cut of its servers. "+
			"They are published again from the longest ledger. Commands that were acknowledged just before may be lost too: their publishers have to send them again, under their ids", last.StreamSeq, head)
	}
	a.setState("NATS was away: waiting for the other runners to say how many rows they have")
	hears := a.host.started // since when this runner hears the others
	if reconnected.After(hears) {
		hears = reconnected
	}
	if err := sleep.For(ctx, lateAfter-time.Since(hears)); err != nil { // who lives has spoken by then
		return err
	}
	name, row := a.host.peers.longest(a.Name, a.host.name.get(), time.Now())
	if last, _, err = a.host.Queue.LastRow(ctx, a.Name); err != nil || row <= max(head, int64(last.StreamSeq)) {
		return err
	}
	a.shorter = true
	return fmt.Errorf("the events stream ends with row %d, this ledger with row %d and that of runner %s with row %d: the stream has lost rows, and that runner has to publish them again. Where it cannot, stop it and keep its ledger", last.StreamSeq, head, name, row)
}

// awaitLongest keeps a runner that left the account to a longer ledger from taking the
// lease again, until that ledger's rows are on the stream or its runner is gone.
func (a *account) awaitLongest(ctx context.Context) error {
	for a.shorter {
		last, _, err := a.host.Queue.LastRow(ctx, a.Name)
		if err == nil { // else it is asked again
			head, _, err := a.Ledger().Head(ctx)
			if err != nil {
				return err
			}
			_, row := a.host.peers.longest(a.Name, a.host.name.get(), time.Now())
			a.shorter = uint64(head) >= last.StreamSeq && row > head
		}
		if err := sleep.For(ctx, watchAgain); err != nil {
			return err
		}
	}
	return nil
}

// longest is the living runner beside self with the most rows of an account; "" for none.
func (p *peers) longest(account, self string, now time.Time) (name string, row int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for other, n := range p.heard {
		if other == self || !n.lives(now) {
			continue
		}
		for _, x := range n.Accounts {
			if x.Account == account && x.Head > row {
				name, row = other, x.Head
			}
		}
	}
	return name, row
}
