// This file reads the copies of an account's streams on servers, and whether each is up to
// date. Clients can see this part of a server's durability. A server does not tell clients
// how often it syncs its disk (sync_interval).

package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
)

// Copies is what the leader of a stream reports about the stream's copies.
type Copies struct {
	Stream string
	Number int      // configured number
	Behind []string // descriptions of copies that lag or cannot be reached
}

// CopiesOf returns the copies of an account's existing streams, in a fixed order. It returns
// nil if the account has no streams.
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

// copiesOf returns the copies that a stream's leader reports. The leader is one of them, and
// never lags.
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

// Probe returns an error if an account's commands or events stream does not reply or has no
// leader, and therefore stores nothing. first is the sequence of the oldest event in the
// events stream. If the stream is empty, first is the next sequence, or 0 if the stream
// never had an event. last is the newest sequence that the stream ever had.
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
