// The doctor's check that acknowledged writes of an external NATS survive a power cut. This
// requires replicas on other servers, or a server that syncs every write.

package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/streams"
)

// A replica may lag briefly while it receives writes. The doctor therefore reports a lag
// only if it sees one each time that it looks.
const (
	copiesLooks = 3
	copiesEvery = 500 * time.Millisecond
)

// durability reports a failure if a single server has the only replica and nats.sync_always
// does not say that it syncs every write. It also reports streams with fewer replicas than
// the account requires. A lagging replica is only a warning, because other replicas have the
// acknowledged writes.
func (d *doctor) durability(ctx context.Context, q *queue.Queue) {
	want := d.config.Accounts[d.account].Replicas
	all, err := lookAtCopies(ctx, q, d.account)
	if err != nil {
		d.bad("durability", err, "start the NATS servers: a stream whose servers do not answer stores nothing")
		return
	}
	var single, few, edits, behind []string
	least := want
	for _, c := range all {
		least = min(least, c.Number)
		if c.Number == 1 {
			single = append(single, c.Stream)
		}
		if c.Number < want {
			few = append(few, fmt.Sprintf("%s has %d of %d copies", c.Stream, c.Number, want))
			edits = append(edits, fmt.Sprintf("`nats stream edit %s --replicas %d`", c.Stream, want))
		}
		for _, b := range c.Behind {
			behind = append(behind, c.Stream+": "+b)
		}
	}
	alone := want == 1 && (len(all) == 0 || len(single) > 0)
	switch {
	case len(few) > 0:
		d.bad("durability", strings.Join(few, "; "), strings.Join(edits, ", "))
	case alone && !d.config.NATS.SyncAlways:
		d.bad("durability", d.oneCopy(q, single), "run three servers and set accounts."+d.account+".replicas: 3 (streams that are there: `nats stream edit NAME --replicas 3`); "+
			"or set sync_interval: always in the server's jetstream block, and then nats.sync_always: true here")
	case len(behind) > 0:
		d.warn("durability", strings.Join(behind, "; "), "see that these servers work: until they have caught up, the loss of another one may stop the account")
	case alone:
		d.ok("durability", "one copy, and according to nats.sync_always the server syncs every write, which no client can check: a power cut loses nothing, a lost disk loses everything")
	default:
		cut := "loses what they had not synced"
		if d.config.NATS.SyncAlways {
			cut = "loses nothing if each of them syncs every write, as nats.sync_always says"
		}
		d.ok("durability", "%s, each up to date: a lost server loses nothing; a power cut of all servers at once %s", countCopies(all, least), cut)
	}
}

func countCopies(all []streams.Copies, least int) string {
	if len(all) == 0 {
		return fmt.Sprintf("%d copies of each stream, which the first `perennial run` makes", least)
	}
	for _, c := range all { // some streams have more replicas than required
		least = max(least, c.Number)
	}
	return fmt.Sprintf("%d copies of %d streams", least, len(all))
}

// oneCopy says which streams have a single replica, on which server, and what could be lost.
func (d *doctor) oneCopy(q *queue.Queue, streams []string) string {
	what, where := strings.Join(streams, ", "), "a single server"
	if what == "" {
		what = "each stream, as the first `perennial run` makes it"
	}
	if q.JetStream().Clustered() {
		where = "one server of the cluster"
	}
	return fmt.Sprintf("%s: one copy, on %s at %s. A power cut loses what it has acknowledged and not synced, by default of two minutes, and a lost disk all", what, where, q.URL())
}

// lookAtCopies reads the state of the replicas until none lags, at most copiesLooks times.
// It returns the last state.
func lookAtCopies(ctx context.Context, q *queue.Queue, account string) (all []streams.Copies, err error) {
	for look := range copiesLooks {
		if look > 0 {
			if err := sleep.For(ctx, copiesEvery); err != nil {
				return nil, err
			}
		}
		if all, err = streams.CopiesOf(ctx, q.JetStream(), account); err != nil {
			return nil, err
		}
		behind := 0
		for _, c := range all {
			behind += len(c.Behind)
		}
		if behind == 0 {
			break
		}
	}
	return all, nil
}
