// What an account does on an external NATS whose events stream has lost rows that it had
// acknowledged, as after a power cut of all its servers: the runner whose ledger is the
// longest publishes them again.

package daemon

import (
	"context"
	"fmt"
	"time"

	"perennial/ledger/sleep"
	"perennial/queue"
)

// mayHaveLost is how long behind a new connection, once it carries what runners say, the
// events stream may turn out to have lost rows; and the longest wait for those words.
const mayHaveLost = time.Minute

// yieldToLongest returns nil where this runner may continue from the end of its ledger, and
// an error where the events stream has lost rows and another living runner has more of
// them: from a shorter ledger the history would lack what the other one sent. Only the
// holder of the lease calls it, with a ledger that has all that is on the stream.
func (a *account) yieldToLongest(ctx context.Context) error {
	last, found, err := a.events().LastRow(ctx)
	if err != nil {
		return err
	}
	head, _, err := a.Ledger().Head(ctx)
	lost, reconnected := uint64(head) > last.StreamSeq, a.host.reconnected()
	heard := a.host.peers.heardSince(reconnected, time.Now())
	known := reconnected.IsZero() || !heard.IsZero() && time.Since(heard) > mayHaveLost
	if err != nil || a.refills() || !lost && known {
		return err
	}
	if lost && found { // else the account moves to this server
		a.log.Warnf("the events stream ends with row %d and this ledger with row %d: the stream has lost rows that it had acknowledged, as in a power cut of its servers. "+
			"They are published again from the longest ledger. Commands that were acknowledged just before may be lost too: their publishers have to send them again, under their ids", last.StreamSeq, head)
	}
	a.setState("NATS was away: waiting for the other runners to say how many rows they have")
	if err := a.awaitWords(ctx); err != nil {
		return err
	}
	name, row := a.host.peers.longest(a.Name, a.host.name.get(), time.Now())
	if last, _, err = a.events().LastRow(ctx); err != nil || row <= max(head, int64(last.StreamSeq)) {
		return err
	}
	a.shorter = true
	return fmt.Errorf("the events stream ends with row %d, this ledger with row %d and that of runner %s with row %d: the stream has lost rows, and that runner has to publish them again. Where it cannot, stop it and keep its ledger", last.StreamSeq, head, name, row)
}

// awaitWords returns when every living runner has been heard: when this runner's own words
// have come back through NATS for as long as another one may be silent. Servers that have
// just been started may take connections long before they keep anything.
func (a *account) awaitWords(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < mayHaveLost; {
		heard := a.host.peers.heardSince(a.host.reconnected(), time.Now())
		if !heard.IsZero() && time.Since(heard) >= lateAfter {
			return nil
		}
		if err := sleep.For(ctx, sayAgain); err != nil {
			return err
		}
	}
	a.log.Warnf("bucket %s does not carry what runners say of themselves: the account continues without knowing how many rows the others have", queue.NodesBucket)
	return nil
}

// awaitLongest keeps a runner that left the account to a longer ledger from taking the
// lease again, until that ledger's rows are on the stream or its runner is gone.
func (a *account) awaitLongest(ctx context.Context) error {
	for a.shorter {
		last, _, err := a.events().LastRow(ctx)
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

// echo is how this runner's own word comes back to it: while it does, those of the others
// come too.
type echo struct {
	since time.Time // when the first one came; after a gap or a new connection it is another
	last  time.Time // when the newest one came
}

// noteSelf notes this runner's own word, where what was heard last has a new one that was
// said over the connection.
func (p *peers) noteSelf(self string, connected, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, known := p.heard[self]
	if !known || !own.last.Equal(now) || own.SaidAt.Before(connected) {
		return
	}
	if p.echo.since.Before(connected) || now.Sub(p.echo.last) >= lateAfter {
		p.echo.since = now
	}
	p.echo.last = now
}

// heardSince is since when this runner hears, over a connection, what every runner says,
// without a gap; zero for one that does not.
func (p *peers) heardSince(connected, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.echo.since.Before(connected) || now.Sub(p.echo.last) >= lateAfter {
		return time.Time{}
	}
	return p.echo.since
}
