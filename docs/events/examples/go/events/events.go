// Package events reads the events of an account as they were published: from a file with
// one a line (`perennial events --stored -o json` prints such lines), or all that the stream
// holds at this moment.
package events

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/docs/events/examples/go/connect"
)

// Event is what the programs here read of an event.
type Event struct {
	Type    string    `json:"type"`
	Subject string    `json:"subject"`
	Time    time.Time `json:"time"`
	Data    struct {
		CommandID   string `json:"command_id"`
		OperationID string `json:"operation_id"`
		Booked      *struct {
			ChargedCents  int64  `json:"charged_cents"`
			RefundedCents int64  `json:"refunded_cents"`
			Currency      string `json:"currency"`
		} `json:"booked"`
		// Of ledger.archived: what was booked up to the row last_seq.
		LastSeq       int64 `json:"last_seq"`
		ChargedCents  int64 `json:"charged_cents"`
		RefundedCents int64 `json:"refunded_cents"`
		Ledger        struct {
			Seq      int64  `json:"seq"`
			PrevHash string `json:"prev_hash"`
			Hash     string `json:"hash"`
		} `json:"ledger"`
	} `json:"data"`
}

// Each hands over every event, with its text, until do returns an error.
func Each(ctx context.Context, file string, do func(raw []byte, e Event) error) error {
	read := fromStream
	if file != "" {
		read = func(_ context.Context, do func([]byte) error) error { return fromFile(file, do) }
	}
	return read(ctx, func(raw []byte) error {
		var e Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		return do(raw, e)
	})
}

func fromFile(path string, do func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := do(bytes.Clone(lines.Bytes())); err != nil {
			return err
		}
	}
	return lines.Err()
}

func fromStream(ctx context.Context, do func([]byte) error) error {
	nc, err := connect.NATS()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, connect.Stream())
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 {
		return nil
	}
	consumer, err := js.OrderedConsumer(ctx, connect.Stream(), jetstream.OrderedConsumerConfig{}) // leaves nothing out
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		place, err := m.Metadata()
		if err != nil {
			return err
		}
		if err := do(m.Data()); err != nil || place.Sequence.Stream >= state.LastSeq {
			return err
		}
	}
}
