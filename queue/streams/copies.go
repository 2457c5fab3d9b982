// On how many servers an account's streams are, and whether each copy is up to date: what
// a client can see of how firmly a server keeps what it acknowledges. How often it syncs
// its disk (sync_interval) a server tells no client.

package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
)

// Copies is what the leader of a stream says of its copies.
type Copies struct {
	Stream string
	Number int      // that its configuration asks for
	Behind []string // copies that lack something, or are away, for people
}

// CopiesOf looks at the streams that an account has, in one order; none of an account
// that is not there.
func CopiesOf(ctx context.Context, js *queue.JetStream, account string) (all []Copies, err error) {
	if err := queue.ValidAccount(account); err != nil {
		return nil, err
	}
	for _, name := range queue.KeptStreams(account) {
		stream, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look up stream %s: %w", name, err)
		}
		all = append(all, copiesOf(stream.CachedInfo()))
	}
	return all, nil
}

// copiesOf counts the leader among the copies; it is never behind.
func copiesOf(info *jetstream.StreamInfo) Copies {
	c := Copies{Stream: info.Config.Name, Number: max(info.Config.Replicas, 1)}
	if c.Number == 1 || info.Cluster == nil {
		return c
	}
	for _, peer := range info.Cluster.Replicas {
		switch {
		case peer.Offline:
			c.Behind = append(c.Behind, fmt.Sprintf("its copy on %s is away", peer.Name))
		case !peer.Current:
			c.Behind = append(c.Behind, fmt.Sprintf("its copy on %s is not current: %d operations behind, last heard of %s ago", peer.Name, peer.Lag, peer.Active.Round(time.Millisecond)))
		}
	}
	if there := len(info.Cluster.Replicas) + 1; there < c.Number {
		c.Behind = append(c.Behind, fmt.Sprintf("%d of its %d copies are placed on a server", there, c.Number))
	}
	return c
}

// Probe says why an account's streams store nothing at the moment: only a
// leader with a quorum answers. first is the oldest event that its stream has, or would have
// next, and last the newest that it has ever had.
func Probe(ctx context.Context, js *queue.JetStream, account string) (first, last uint64, err error) {
	for _, name := range []string{queue.CommandsStream(account), queue.EventsStream(account)} {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return 0, 0, fmt.Errorf("stream %s does not answer: %w", name, queue.Explain(ctx, js, err))
		}
		if cluster := stream.CachedInfo().Cluster; cluster != nil && cluster.Leader == "" {
			return 0, 0, fmt.Errorf("stream %s has no leader: too few of its servers are there, or they cannot store (a full disk, or max_file_store is reached)", name)
		}
		first, last = stream.CachedInfo().State.FirstSeq, stream.CachedInfo().State.LastSeq
	}
	return first, last, nil
}
