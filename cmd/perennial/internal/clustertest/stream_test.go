//go:build check

// The checks read the events stream: it has no gap, and each message is the next row.

package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/events"
)

// row is a journal row as the stream has it. rows[n-1] is row n.
type row struct{ kind, hash string }

type money struct {
	Charged  int64 `json:"charged_cents"`
	Refunded int64 `json:"refunded_cents"`
}

type tail struct {
	rows     []row
	finished map[string]int // command.finished of each command
	paid     int            // operations that were booked with a charge
	booked   money
	hashes   map[string]bool
	shorter  time.Time // since when the stream seems to end before what was read; zero: it does not
}

// staleMost is how long the stream may seem to end before what was read from it. A server that came
// back from a partition once answered with its old end, while both others had all rows. A stream
// that has lost rows stays short.
const staleMost = 15 * time.Second

func newTail() tail { return tail{finished: map[string]int{}, hashes: map[string]bool{}} }

// read reads the new events. It returns an error for a stream that does not answer (unavailable),
// or for a stream that is wrong.
func (s *tail) read(ctx context.Context, js jetstream.JetStream) (unavailable, wrong error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, queue.EventsStream("main"))
	if err != nil {
		return err, nil
	}
	last := stream.CachedInfo().State.LastSeq
	if last < uint64(len(s.rows)) {
		err := fmt.Errorf("the events stream ends at %d, and %d was read before", last, len(s.rows))
		if s.shorter.IsZero() {
			s.shorter = time.Now()
		}
		if time.Since(s.shorter) < staleMost {
			return err, nil
		}
		return nil, err
	}
	s.shorter = time.Time{}
	if last == uint64(len(s.rows)) {
		return nil, nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(len(s.rows)) + 1})
	if err != nil {
		return err, nil
	}
	for uint64(len(s.rows)) < last && ctx.Err() == nil {
		batch, err := consumer.Fetch(int(min(last-uint64(len(s.rows)), 500)), jetstream.FetchMaxWait(2*time.Second))
		if err != nil {
			return err, nil
		}
		for m := range batch.Messages() {
			if err := s.add(m); err != nil {
				return nil, err
			}
		}
	}
	return ctx.Err(), nil
}

func (s *tail) add(m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	want := uint64(len(s.rows)) + 1
	seq, hash := m.Headers().Get(events.HeaderSeq), m.Headers().Get(events.HeaderHash)
	if meta.Sequence.Stream != want || seq != strconv.FormatUint(want, 10) {
		return fmt.Errorf("events: message %d has row %q where row %d comes", meta.Sequence.Stream, seq, want)
	}
	var event struct {
		ID, Subject string
		Data        struct {
			Booked    *money `json:"booked"`
			CommandID string `json:"command_id"`
		}
	}
	if err := json.Unmarshal(m.Data(), &event); err != nil {
		return fmt.Errorf("event %d: %w", want, err)
	}
	if len(hash) != 64 || s.hashes[hash] || event.ID != fmt.Sprintf("main/%.16s/%d", hash, want) {
		return fmt.Errorf("event %d has id %q and hash %q (here before: %t)", want, event.ID, hash, s.hashes[hash])
	}
	kind := strings.TrimPrefix(m.Subject(), "perennial.events.main.")
	s.hashes[hash] = true
	s.rows = append(s.rows, row{kind, hash})
	if kind == "command.finished" {
		s.finished[event.Data.CommandID]++
	}
	if b := event.Data.Booked; b != nil {
		s.booked.Charged += b.Charged
		s.booked.Refunded += b.Refunded
		if b.Charged > 0 {
			s.paid++
		}
	}
	return nil
}
